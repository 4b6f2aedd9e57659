package resource_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spantee/spantee/exporter/resource"
)

// clearCI unsets what the machine that runs the tests says of itself.
func clearCI(t *testing.T) {
	t.Helper()
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		for _, prefix := range []string{"GITHUB_", "CI", "GITLAB_", "BUILD", "JENKINS_", "CIRCLE", "TF_", "OTEL_"} {
			if strings.HasPrefix(name, prefix) {
				t.Setenv(name, "") // to be restored
				os.Unsetenv(name)
			}
		}
	}
}

func detected(t *testing.T, from resource.Sources) map[string]string {
	t.Helper()
	r, err := resource.New(from)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, kv := range r.Attributes {
		found[kv.Key] = kv.Value.GetStringValue()
	}
	return found
}

// TestCI has the variables of a job of each CI system, as their manuals have them.
func TestCI(t *testing.T) {
	for name, test := range map[string]struct{ env, want map[string]string }{
		"GitHub Actions, pull request": {
			map[string]string{
				"GITHUB_ACTIONS": "true", "GITHUB_WORKFLOW": "CI", "GITHUB_RUN_ID": "16", "GITHUB_JOB": "fix", "RUNNER_NAME": "r1",
				"GITHUB_REPOSITORY": "acme/shop", "GITHUB_REPOSITORY_OWNER": "acme", "GITHUB_SERVER_URL": "https://github.com",
				"GITHUB_REF": "refs/pull/7/merge", "GITHUB_REF_NAME": "7/merge", "GITHUB_HEAD_REF": "feature", "GITHUB_BASE_REF": "main",
				"GITHUB_SHA": "ffac537", "GITHUB_REF_TYPE": "branch",
			},
			map[string]string{
				"cicd.pipeline.name": "CI", "cicd.pipeline.run.id": "16", "cicd.pipeline.run.url.full": "https://github.com/acme/shop/actions/runs/16",
				"cicd.pipeline.task.name": "fix", "cicd.worker.name": "r1", "vcs.provider.name": "github", "vcs.owner.name": "acme",
				"vcs.repository.name": "shop", "vcs.repository.url.full": "https://github.com/acme/shop", "vcs.change.id": "7",
				"vcs.ref.head.name": "feature", "vcs.ref.head.revision": "ffac537", "vcs.ref.head.type": "branch", "vcs.ref.base.name": "main",
			},
		},
		"GitLab": {
			map[string]string{
				"GITLAB_CI": "true", "CI_PROJECT_PATH": "acme/shop", "CI_PIPELINE_ID": "1", "CI_PIPELINE_URL": "https://gitlab.com/acme/shop/-/pipelines/1",
				"CI_JOB_NAME": "fix", "CI_JOB_ID": "2", "CI_PROJECT_URL": "https://gitlab.com/acme/shop", "CI_PROJECT_NAME": "shop", "CI_COMMIT_REF_NAME": "v1", "CI_COMMIT_TAG": "v1",
				"NODE_NAME": "not GitLab's", "AGENT_NAME": "nor this one",
			},
			map[string]string{
				"cicd.pipeline.name": "acme/shop", "cicd.pipeline.run.id": "1", "cicd.pipeline.run.url.full": "https://gitlab.com/acme/shop/-/pipelines/1",
				"cicd.pipeline.task.name": "fix", "cicd.pipeline.task.run.id": "2", "vcs.provider.name": "gitlab", "vcs.repository.name": "shop",
				"vcs.repository.url.full": "https://gitlab.com/acme/shop", "vcs.ref.head.name": "v1", "vcs.ref.head.type": "tag",
			},
		},
		"Buildkite": {
			map[string]string{"BUILDKITE": "true", "BUILDKITE_PIPELINE_SLUG": "shop", "BUILDKITE_REPO": "git@github.com:acme/shop.git", "BUILDKITE_PULL_REQUEST": "false", "BUILDKITE_BRANCH": "main"},
			map[string]string{"cicd.pipeline.name": "shop", "vcs.repository.url.full": "https://github.com/acme/shop", "vcs.ref.head.name": "main", "vcs.ref.head.type": "branch"},
		},
		"Jenkins": {
			map[string]string{"JENKINS_URL": "http://jenkins/", "JOB_NAME": "shop", "BUILD_ID": "3", "GIT_URL": "https://user:secret@git.acme.io/shop.git?token=secret", "BRANCH_NAME": "main"},
			map[string]string{"cicd.pipeline.name": "shop", "cicd.pipeline.run.id": "3", "vcs.repository.url.full": "https://git.acme.io/shop", "vcs.ref.head.name": "main"},
		},
		"CircleCI": {
			map[string]string{"CIRCLECI": "true", "CIRCLE_PROJECT_REPONAME": "shop", "CIRCLE_WORKFLOW_ID": "w", "CIRCLE_BRANCH": "main"},
			map[string]string{"cicd.pipeline.name": "shop", "cicd.pipeline.run.id": "w", "vcs.repository.name": "shop", "vcs.ref.head.name": "main", "vcs.ref.head.type": "branch"},
		},
		"Azure": {
			map[string]string{"TF_BUILD": "True", "BUILD_DEFINITIONNAME": "shop", "BUILD_BUILDID": "4", "SYSTEM_COLLECTIONURI": "https://dev.azure.com/acme/", "SYSTEM_TEAMPROJECT": "the shop", "BUILD_SOURCEBRANCH": "refs/heads/main"},
			map[string]string{"cicd.pipeline.name": "shop", "cicd.pipeline.run.id": "4", "cicd.pipeline.run.url.full": "https://dev.azure.com/acme/the%20shop/_build/results?buildId=4", "vcs.ref.head.name": "main"},
		},
		"none": {map[string]string{"GITHUB_WORKFLOW": "CI", "CIRCLECI": "false"}, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			clearCI(t)
			for key, value := range test.env {
				t.Setenv(key, value)
			}
			if got := detected(t, resource.Sources{CI: true}); !maps.Equal(got, test.want) {
				t.Errorf("found %v, want %v", got, test.want)
			}
		})
	}
}

// The variable takes precedence over what was detected.
func TestDetectedBesideTheVariable(t *testing.T) {
	clearCI(t)
	t.Setenv("GITLAB_CI", "true")
	t.Setenv("CI_PIPELINE_ID", "1")
	t.Setenv("CI_JOB_NAME", "fix")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "cicd.pipeline.task.name=mine,k8s.pod.name=shop-1")
	want := map[string]string{"cicd.pipeline.run.id": "1", "cicd.pipeline.task.name": "mine", "k8s.pod.name": "shop-1"}
	got := detected(t, resource.Sources{CI: true, Environment: true})
	maps.DeleteFunc(got, func(key, _ string) bool { return strings.HasPrefix(key, "vcs.") })
	if !maps.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// TestRepository reads a repository and a worktree of it, from below.
func TestRepository(t *testing.T) {
	clearCI(t)
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("main/.git/HEAD", "ref: refs/heads/feature/x\n")
	write("main/.git/config", "[remote \"other\"]\n\turl = https://x/y\n[remote \"origin\"]\n\turl = https://token@github.com/acme/shop.git\n[branch \"main\"]\n\turl = no\n")
	write("main/deep/down/file", "")
	write("main/.git/worktrees/tree/HEAD", "ref: refs/heads/tree\n")
	write("main/.git/worktrees/tree/commondir", "../..\n")
	write("tree/.git", "gitdir: "+filepath.Join(dir, "main/.git/worktrees/tree")+"\n")
	for from, branch := range map[string]string{"main/deep/down": "feature/x", "tree": "tree"} {
		t.Chdir(filepath.Join(dir, from))
		want := map[string]string{
			"vcs.repository.url.full": "https://github.com/acme/shop", "vcs.repository.name": "shop",
			"vcs.ref.head.name": branch, "vcs.ref.head.type": "branch",
		}
		if got := detected(t, resource.Sources{Repository: true}); !maps.Equal(got, want) {
			t.Errorf("in %s: %v, want %v", from, got, want)
		}
	}
}
