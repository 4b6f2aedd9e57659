package exporter

import (
	"cmp"
	"net/url"
	"os"
	"strings"
)

// A ciSystem is recognized by a variable it sets in every job. Each entry of
// attributes is an attribute of the CI/CD and VCS conventions and the variables it
// may come from; the first one that is set counts.
type ciSystem struct {
	marker     string
	attributes [][]string
	more       func(set func(key, value string))
}

var ciSystems = []ciSystem{
	{
		marker: "GITHUB_ACTIONS",
		attributes: [][]string{
			{"cicd.pipeline.name", "GITHUB_WORKFLOW"},
			{"cicd.pipeline.run.id", "GITHUB_RUN_ID"},
			{"cicd.pipeline.task.name", "GITHUB_JOB"},
			{"cicd.worker.name", "RUNNER_NAME"},
			{"vcs.owner.name", "GITHUB_REPOSITORY_OWNER"},
			{"vcs.ref.head.name", "GITHUB_HEAD_REF", "GITHUB_REF_NAME"},
			{"vcs.ref.head.revision", "GITHUB_SHA"},
			{"vcs.ref.head.type", "GITHUB_REF_TYPE"},
			{"vcs.ref.base.name", "GITHUB_BASE_REF"},
		},
		more: func(set func(key, value string)) {
			set("vcs.provider.name", "github")
			repository := os.Getenv("GITHUB_REPOSITORY")
			if repository == "" {
				return
			}
			server := cmp.Or(os.Getenv("GITHUB_SERVER_URL"), "https://github.com")
			set("vcs.repository.name", repository[strings.Index(repository, "/")+1:])
			set("vcs.repository.url.full", server+"/"+repository)
			if id := os.Getenv("GITHUB_RUN_ID"); id != "" {
				set("cicd.pipeline.run.url.full", server+"/"+repository+"/actions/runs/"+id)
			}
			if number, ok := strings.CutPrefix(os.Getenv("GITHUB_REF"), "refs/pull/"); ok {
				number, _, _ = strings.Cut(number, "/")
				set("vcs.change.id", number)
			}
		},
	},
	{
		marker: "GITLAB_CI",
		attributes: [][]string{
			{"cicd.pipeline.name", "CI_PIPELINE_NAME", "CI_PROJECT_PATH"},
			{"cicd.pipeline.run.id", "CI_PIPELINE_ID"},
			{"cicd.pipeline.run.url.full", "CI_PIPELINE_URL"},
			{"cicd.pipeline.task.name", "CI_JOB_NAME"},
			{"cicd.pipeline.task.run.id", "CI_JOB_ID"},
			{"cicd.pipeline.task.run.url.full", "CI_JOB_URL"},
			{"cicd.worker.id", "CI_RUNNER_ID"},
			{"cicd.worker.name", "CI_RUNNER_DESCRIPTION"},
			{"vcs.owner.name", "CI_PROJECT_NAMESPACE"},
			{"vcs.repository.name", "CI_PROJECT_NAME"},
			{"vcs.repository.url.full", "CI_PROJECT_URL"},
			{"vcs.ref.head.name", "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME"},
			{"vcs.ref.head.revision", "CI_COMMIT_SHA"},
			{"vcs.ref.base.name", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME"},
			{"vcs.change.id", "CI_MERGE_REQUEST_IID"},
		},
		more: func(set func(key, value string)) {
			set("vcs.provider.name", "gitlab")
			set("vcs.ref.head.type", refType("CI_COMMIT_TAG"))
		},
	},
	{
		marker: "BUILDKITE",
		attributes: [][]string{
			{"cicd.pipeline.name", "BUILDKITE_PIPELINE_SLUG"},
			{"cicd.pipeline.run.id", "BUILDKITE_BUILD_ID"},
			{"cicd.pipeline.run.url.full", "BUILDKITE_BUILD_URL"},
			{"cicd.pipeline.task.name", "BUILDKITE_LABEL"},
			{"cicd.pipeline.task.run.id", "BUILDKITE_JOB_ID"},
			{"cicd.worker.id", "BUILDKITE_AGENT_ID"},
			{"cicd.worker.name", "BUILDKITE_AGENT_NAME"},
			{"vcs.repository.url.full", "BUILDKITE_REPO"},
			{"vcs.ref.head.name", "BUILDKITE_BRANCH"},
			{"vcs.ref.head.revision", "BUILDKITE_COMMIT"},
			{"vcs.ref.base.name", "BUILDKITE_PULL_REQUEST_BASE_BRANCH"},
			{"vcs.change.id", "BUILDKITE_PULL_REQUEST"}, // or "false"
		},
		more: func(set func(key, value string)) { set("vcs.ref.head.type", refType("BUILDKITE_TAG")) },
	},
	{
		marker: "JENKINS_URL",
		attributes: [][]string{
			{"cicd.pipeline.name", "JOB_NAME"},
			{"cicd.pipeline.run.id", "BUILD_ID"},
			{"cicd.pipeline.run.url.full", "BUILD_URL"},
			{"cicd.pipeline.task.name", "STAGE_NAME"},
			{"cicd.worker.name", "NODE_NAME"},
			{"vcs.repository.url.full", "GIT_URL"},
			{"vcs.ref.head.name", "CHANGE_BRANCH", "BRANCH_NAME", "GIT_BRANCH"},
			{"vcs.ref.head.revision", "GIT_COMMIT"},
			{"vcs.ref.base.name", "CHANGE_TARGET"},
			{"vcs.change.id", "CHANGE_ID"},
		},
	},
	{
		marker: "CIRCLECI",
		attributes: [][]string{
			{"cicd.pipeline.name", "CIRCLE_PROJECT_REPONAME"},
			{"cicd.pipeline.run.id", "CIRCLE_WORKFLOW_ID"},
			{"cicd.pipeline.task.name", "CIRCLE_JOB"},
			{"cicd.pipeline.task.run.id", "CIRCLE_WORKFLOW_JOB_ID"},
			{"cicd.pipeline.task.run.url.full", "CIRCLE_BUILD_URL"},
			{"vcs.owner.name", "CIRCLE_PROJECT_USERNAME"},
			{"vcs.repository.name", "CIRCLE_PROJECT_REPONAME"},
			{"vcs.repository.url.full", "CIRCLE_REPOSITORY_URL"},
			{"vcs.ref.head.name", "CIRCLE_BRANCH", "CIRCLE_TAG"},
			{"vcs.ref.head.revision", "CIRCLE_SHA1"},
			{"vcs.change.id", "CIRCLE_PR_NUMBER"},
		},
		more: func(set func(key, value string)) { set("vcs.ref.head.type", refType("CIRCLE_TAG")) },
	},
	{
		marker: "TF_BUILD", // Azure Pipelines
		attributes: [][]string{
			{"cicd.pipeline.name", "BUILD_DEFINITIONNAME"},
			{"cicd.pipeline.run.id", "BUILD_BUILDID"},
			{"cicd.pipeline.task.name", "SYSTEM_JOBDISPLAYNAME"},
			{"cicd.pipeline.task.run.id", "SYSTEM_JOBID"},
			{"cicd.worker.id", "AGENT_ID"},
			{"cicd.worker.name", "AGENT_NAME"},
			{"vcs.repository.name", "BUILD_REPOSITORY_NAME"},
			{"vcs.repository.url.full", "BUILD_REPOSITORY_URI"},
			{"vcs.ref.head.name", "SYSTEM_PULLREQUEST_SOURCEBRANCH", "BUILD_SOURCEBRANCH"},
			{"vcs.ref.head.revision", "BUILD_SOURCEVERSION"},
			{"vcs.ref.base.name", "SYSTEM_PULLREQUEST_TARGETBRANCH"},
			{"vcs.change.id", "SYSTEM_PULLREQUEST_PULLREQUESTNUMBER", "SYSTEM_PULLREQUEST_PULLREQUESTID"},
		},
		more: func(set func(key, value string)) {
			collection, project, id := os.Getenv("SYSTEM_COLLECTIONURI"), os.Getenv("SYSTEM_TEAMPROJECT"), os.Getenv("BUILD_BUILDID")
			if collection != "" && project != "" && id != "" {
				set("cicd.pipeline.run.url.full", strings.TrimSuffix(collection, "/")+"/"+url.PathEscape(project)+"/_build/results?buildId="+url.QueryEscape(id))
			}
		},
	},
}

func refType(tagVariable string) string {
	if os.Getenv(tagVariable) != "" {
		return "tag"
	}
	return "branch"
}

// detectCI reads the attributes of the job from the first CI system found.
func detectCI(set func(key, value string)) {
	for _, ci := range ciSystems {
		if v := os.Getenv(ci.marker); v == "" || strings.EqualFold(v, "false") {
			continue
		}
		setFrom(set, ci.attributes)
		if ci.more != nil {
			ci.more(set)
		}
		return
	}
}

// setFrom sets attributes, each from the first of its variables that is set.
func setFrom(set func(key, value string), attributes [][]string) {
	for _, a := range attributes {
		key := a[0]
		for _, variable := range a[1:] {
			value := os.Getenv(variable)
			switch {
			case value == "" || key == "vcs.change.id" && value == "false":
				continue
			case key == "vcs.repository.url.full":
				value = repositoryURL(value)
			case strings.HasPrefix(key, "vcs.ref."):
				value = strings.TrimPrefix(strings.TrimPrefix(value, "refs/heads/"), "refs/tags/")
			}
			set(key, value)
			break
		}
	}
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
