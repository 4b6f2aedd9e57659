package resource

import (
	"net/url"
	"os"
	"slices"
	"strings"
)

// A ciSystem is recognized by a variable it sets in every job. Each row of attributes is an
// attribute of the CI/CD and VCS conventions and the values it may have. The first value
// counts of which all variables are set. ${NAME:+text} is text if NAME is set.
type ciSystem struct {
	marker     string
	attributes [][]string
}

var ciSystems = []ciSystem{
	{"GITHUB_ACTIONS", [][]string{
		{"cicd.pipeline.name", "$GITHUB_WORKFLOW"},
		{"cicd.pipeline.run.id", "$GITHUB_RUN_ID"},
		{"cicd.pipeline.run.url.full", "$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID"},
		{"cicd.pipeline.task.name", "$GITHUB_JOB"},
		{"cicd.worker.name", "$RUNNER_NAME"},
		{"vcs.provider.name", "github"},
		{"vcs.owner.name", "$GITHUB_REPOSITORY_OWNER"},
		{"vcs.repository.name", "$GITHUB_REPOSITORY"},
		{"vcs.repository.url.full", "$GITHUB_SERVER_URL/$GITHUB_REPOSITORY"},
		{"vcs.ref.head.name", "$GITHUB_HEAD_REF", "$GITHUB_REF_NAME"},
		{"vcs.ref.head.revision", "$GITHUB_SHA"},
		{"vcs.ref.head.type", "$GITHUB_REF_TYPE"},
		{"vcs.ref.base.name", "$GITHUB_BASE_REF"},
		{"vcs.change.id", "$GITHUB_REF"},
	}},
	{"GITLAB_CI", [][]string{
		{"cicd.pipeline.name", "$CI_PIPELINE_NAME", "$CI_PROJECT_PATH"},
		{"cicd.pipeline.run.id", "$CI_PIPELINE_ID"},
		{"cicd.pipeline.run.url.full", "$CI_PIPELINE_URL"},
		{"cicd.pipeline.task.name", "$CI_JOB_NAME"},
		{"cicd.pipeline.task.run.id", "$CI_JOB_ID"},
		{"cicd.pipeline.task.run.url.full", "$CI_JOB_URL"},
		{"cicd.worker.id", "$CI_RUNNER_ID"},
		{"cicd.worker.name", "$CI_RUNNER_DESCRIPTION"},
		{"vcs.provider.name", "gitlab"},
		{"vcs.owner.name", "$CI_PROJECT_NAMESPACE"},
		{"vcs.repository.name", "$CI_PROJECT_NAME"},
		{"vcs.repository.url.full", "$CI_PROJECT_URL"},
		{"vcs.ref.head.name", "$CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "$CI_COMMIT_REF_NAME"},
		{"vcs.ref.head.revision", "$CI_COMMIT_SHA"},
		{"vcs.ref.head.type", "${CI_COMMIT_TAG:+tag}", "branch"},
		{"vcs.ref.base.name", "$CI_MERGE_REQUEST_TARGET_BRANCH_NAME"},
		{"vcs.change.id", "$CI_MERGE_REQUEST_IID"},
	}},
	{"BUILDKITE", [][]string{
		{"cicd.pipeline.name", "$BUILDKITE_PIPELINE_SLUG"},
		{"cicd.pipeline.run.id", "$BUILDKITE_BUILD_ID"},
		{"cicd.pipeline.run.url.full", "$BUILDKITE_BUILD_URL"},
		{"cicd.pipeline.task.name", "$BUILDKITE_LABEL"},
		{"cicd.pipeline.task.run.id", "$BUILDKITE_JOB_ID"},
		{"cicd.worker.id", "$BUILDKITE_AGENT_ID"},
		{"cicd.worker.name", "$BUILDKITE_AGENT_NAME"},
		{"vcs.repository.url.full", "$BUILDKITE_REPO"},
		{"vcs.ref.head.name", "$BUILDKITE_BRANCH"},
		{"vcs.ref.head.revision", "$BUILDKITE_COMMIT"},
		{"vcs.ref.head.type", "${BUILDKITE_TAG:+tag}", "branch"},
		{"vcs.ref.base.name", "$BUILDKITE_PULL_REQUEST_BASE_BRANCH"},
		{"vcs.change.id", "$BUILDKITE_PULL_REQUEST"},
	}},
	{"JENKINS_URL", [][]string{
		{"cicd.pipeline.name", "$JOB_NAME"},
		{"cicd.pipeline.run.id", "$BUILD_ID"},
		{"cicd.pipeline.run.url.full", "$BUILD_URL"},
		{"cicd.pipeline.task.name", "$STAGE_NAME"},
		{"cicd.worker.name", "$NODE_NAME"},
		{"vcs.repository.url.full", "$GIT_URL"},
		{"vcs.ref.head.name", "$CHANGE_BRANCH", "$BRANCH_NAME", "$GIT_BRANCH"},
		{"vcs.ref.head.revision", "$GIT_COMMIT"},
		{"vcs.ref.base.name", "$CHANGE_TARGET"},
		{"vcs.change.id", "$CHANGE_ID"},
	}},
	{"CIRCLECI", [][]string{
		{"cicd.pipeline.name", "$CIRCLE_PROJECT_REPONAME"},
		{"cicd.pipeline.run.id", "$CIRCLE_WORKFLOW_ID"},
		{"cicd.pipeline.task.name", "$CIRCLE_JOB"},
		{"cicd.pipeline.task.run.id", "$CIRCLE_WORKFLOW_JOB_ID"},
		{"cicd.pipeline.task.run.url.full", "$CIRCLE_BUILD_URL"},
		{"vcs.owner.name", "$CIRCLE_PROJECT_USERNAME"},
		{"vcs.repository.name", "$CIRCLE_PROJECT_REPONAME"},
		{"vcs.repository.url.full", "$CIRCLE_REPOSITORY_URL"},
		{"vcs.ref.head.name", "$CIRCLE_BRANCH", "$CIRCLE_TAG"},
		{"vcs.ref.head.revision", "$CIRCLE_SHA1"},
		{"vcs.ref.head.type", "${CIRCLE_TAG:+tag}", "branch"},
		{"vcs.change.id", "$CIRCLE_PR_NUMBER"},
	}},
	{"TF_BUILD", [][]string{ // Azure Pipelines
		{"cicd.pipeline.name", "$BUILD_DEFINITIONNAME"},
		{"cicd.pipeline.run.id", "$BUILD_BUILDID"},
		{"cicd.pipeline.run.url.full", "$SYSTEM_COLLECTIONURI$SYSTEM_TEAMPROJECT/_build/results?buildId=$BUILD_BUILDID"},
		{"cicd.pipeline.task.name", "$SYSTEM_JOBDISPLAYNAME"},
		{"cicd.pipeline.task.run.id", "$SYSTEM_JOBID"},
		{"cicd.worker.id", "$AGENT_ID"},
		{"cicd.worker.name", "$AGENT_NAME"},
		{"vcs.repository.name", "$BUILD_REPOSITORY_NAME"},
		{"vcs.repository.url.full", "$BUILD_REPOSITORY_URI"},
		{"vcs.ref.head.name", "$SYSTEM_PULLREQUEST_SOURCEBRANCH", "$BUILD_SOURCEBRANCH"},
		{"vcs.ref.head.revision", "$BUILD_SOURCEVERSION"},
		{"vcs.ref.base.name", "$SYSTEM_PULLREQUEST_TARGETBRANCH"},
		{"vcs.change.id", "$SYSTEM_PULLREQUEST_PULLREQUESTNUMBER", "$SYSTEM_PULLREQUEST_PULLREQUESTID"},
	}},
}

// detectCI reads the attributes of the job from the first CI system found.
func detectCI(set func(key, value string)) {
	i := slices.IndexFunc(ciSystems, func(ci ciSystem) bool {
		v := os.Getenv(ci.marker)
		return v != "" && !strings.EqualFold(v, "false")
	})
	if i < 0 {
		return
	}
	for _, a := range ciSystems[i].attributes {
		for _, template := range a[1:] {
			if value := normalize(a[0], expand(template)); value != "" {
				set(a[0], value)
				break
			}
		}
	}
}

// expand returns a template with the values of its variables, "" if one is not set.
func expand(template string) string {
	complete := true
	value := os.Expand(template, func(name string) string {
		name, text, conditional := strings.Cut(name, ":+")
		v := os.Getenv(name)
		complete = complete && v != ""
		if conditional {
			return text
		}
		return v
	})
	if !complete {
		return ""
	}
	return value
}

// normalize returns the value of an attribute, "" if it can be none.
func normalize(key, value string) string {
	switch {
	case key == "vcs.repository.url.full":
		return repositoryURL(value)
	case key == "vcs.repository.name":
		return value[strings.LastIndex(value, "/")+1:] // not the owner
	case key == "vcs.change.id": // a number, the ref of a pull request, "false" or another ref
		value, _, _ = strings.Cut(strings.TrimPrefix(value, "refs/pull/"), "/")
		if strings.Trim(value, "0123456789") != "" {
			return ""
		}
	case strings.HasPrefix(key, "vcs.ref."):
		return strings.TrimPrefix(strings.TrimPrefix(value, "refs/heads/"), "refs/tags/")
	case strings.HasSuffix(key, ".url.full"):
		if u, err := url.Parse(value); err == nil {
			return u.String() // a name in it may have spaces
		}
	}
	return value
}

// repositoryURL returns the URL of a remote's web page, without credentials. The
// remote may be git@host:owner/name.git, or contain a token.
func repositoryURL(remote string) string {
	if host, path, ok := strings.Cut(remote, ":"); ok && !strings.Contains(remote, "://") {
		remote = "https://" + host[strings.LastIndex(host, "@")+1:] + "/" + strings.TrimPrefix(path, "/")
	}
	u, err := url.Parse(remote)
	if err != nil || u.Host == "" { // a path, or not clearly a URL
		return ""
	}
	if u.Scheme != "http" {
		u.Scheme = "https"
		u.Host = u.Hostname()
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return strings.TrimSuffix(u.String(), ".git")
}
