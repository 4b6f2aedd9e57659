package resource

import (
	"net/url"
	"os"
	"slices"
	"strings"
)

// ciMarkers are variables of which a CI system sets one in every job: GitHub Actions, GitLab,
// Buildkite, CircleCI, Azure Pipelines and Jenkins.
var ciMarkers = []string{"GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "CIRCLECI", "TF_BUILD", "JENKINS_URL"}

// ciAttributes are attributes of the CI/CD and VCS conventions, each with the values that it may
// have. The first value counts of which all variables are set. ${NAME:+text} is text if NAME is set,
// for variables that others may set, too.
var ciAttributes = [][]string{
	{"cicd.pipeline.name", "$GITHUB_WORKFLOW", "$CI_PIPELINE_NAME", "$CI_PROJECT_PATH", "$BUILDKITE_PIPELINE_SLUG", "$CIRCLE_PROJECT_REPONAME", "$BUILD_DEFINITIONNAME", "${JENKINS_URL:+$JOB_NAME}"},
	{"cicd.pipeline.run.id", "$GITHUB_RUN_ID", "$CI_PIPELINE_ID", "$BUILDKITE_BUILD_ID", "$CIRCLE_WORKFLOW_ID", "$BUILD_BUILDID", "${JENKINS_URL:+$BUILD_ID}"},
	{
		"cicd.pipeline.run.url.full", "$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID", "$CI_PIPELINE_URL", "$BUILDKITE_BUILD_URL",
		"$SYSTEM_COLLECTIONURI$SYSTEM_TEAMPROJECT/_build/results?buildId=$BUILD_BUILDID", "${JENKINS_URL:+$BUILD_URL}",
	},
	{"cicd.pipeline.task.name", "$GITHUB_JOB", "$CI_JOB_NAME", "$BUILDKITE_LABEL", "$CIRCLE_JOB", "$SYSTEM_JOBDISPLAYNAME", "${JENKINS_URL:+$STAGE_NAME}"},
	{"cicd.pipeline.task.run.id", "$CI_JOB_ID", "$BUILDKITE_JOB_ID", "$CIRCLE_WORKFLOW_JOB_ID", "$SYSTEM_JOBID"},
	{"cicd.pipeline.task.run.url.full", "$CI_JOB_URL", "$CIRCLE_BUILD_URL"},
	{"cicd.worker.id", "$CI_RUNNER_ID", "$BUILDKITE_AGENT_ID", "${TF_BUILD:+$AGENT_ID}"},
	{"cicd.worker.name", "$RUNNER_NAME", "$CI_RUNNER_DESCRIPTION", "$BUILDKITE_AGENT_NAME", "${TF_BUILD:+$AGENT_NAME}", "${JENKINS_URL:+$NODE_NAME}"},
	{"vcs.provider.name", "${GITHUB_ACTIONS:+github}", "${GITLAB_CI:+gitlab}"},
	{"vcs.owner.name", "$GITHUB_REPOSITORY_OWNER", "$CI_PROJECT_NAMESPACE", "$CIRCLE_PROJECT_USERNAME"},
	{"vcs.repository.name", "$GITHUB_REPOSITORY", "$CI_PROJECT_NAME", "$CIRCLE_PROJECT_REPONAME", "$BUILD_REPOSITORY_NAME"},
	{"vcs.repository.url.full", "$GITHUB_SERVER_URL/$GITHUB_REPOSITORY", "$CI_PROJECT_URL", "$BUILDKITE_REPO", "$CIRCLE_REPOSITORY_URL", "$BUILD_REPOSITORY_URI", "${JENKINS_URL:+$GIT_URL}"},
	{
		"vcs.ref.head.name", "$GITHUB_HEAD_REF", "$GITHUB_REF_NAME", "$CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "$CI_COMMIT_REF_NAME", "$BUILDKITE_BRANCH", "$CIRCLE_BRANCH", "$CIRCLE_TAG",
		"$SYSTEM_PULLREQUEST_SOURCEBRANCH", "$BUILD_SOURCEBRANCH", "${JENKINS_URL:+$CHANGE_BRANCH}", "${JENKINS_URL:+$BRANCH_NAME}", "${JENKINS_URL:+$GIT_BRANCH}",
	},
	{"vcs.ref.head.revision", "$GITHUB_SHA", "$CI_COMMIT_SHA", "$BUILDKITE_COMMIT", "$CIRCLE_SHA1", "$BUILD_SOURCEVERSION", "${JENKINS_URL:+$GIT_COMMIT}"},
	{"vcs.ref.head.type", "$GITHUB_REF_TYPE", "${CI_COMMIT_TAG:+tag}", "${GITLAB_CI:+branch}", "${BUILDKITE_TAG:+tag}", "${BUILDKITE:+branch}", "${CIRCLE_TAG:+tag}", "${CIRCLECI:+branch}"},
	{"vcs.ref.base.name", "$GITHUB_BASE_REF", "$CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "$BUILDKITE_PULL_REQUEST_BASE_BRANCH", "$SYSTEM_PULLREQUEST_TARGETBRANCH", "${JENKINS_URL:+$CHANGE_TARGET}"},
	{
		"vcs.change.id", "$GITHUB_REF", "$CI_MERGE_REQUEST_IID", "$BUILDKITE_PULL_REQUEST", "$CIRCLE_PR_NUMBER",
		"$SYSTEM_PULLREQUEST_PULLREQUESTNUMBER", "$SYSTEM_PULLREQUEST_PULLREQUESTID", "${JENKINS_URL:+$CHANGE_ID}",
	},
}

// detectCI reads the attributes of the job.
func detectCI(set func(key, value string)) {
	isSet := func(marker string) bool {
		v := os.Getenv(marker)
		return v != "" && !strings.EqualFold(v, "false")
	}
	if !slices.ContainsFunc(ciMarkers, isSet) {
		return
	}
	for _, a := range ciAttributes {
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
			return os.ExpandEnv(text)
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
