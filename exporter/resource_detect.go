package exporter

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A detector finds out where, and for whom, spantee runs. It makes no requests and
// reads at most a few small files.
type detector struct {
	name   string
	detect func(set func(key, value string))
}

var detectors = []detector{
	{"ci", detectCI},
	{"k8s", detectKubernetes},
	{"container", detectContainer},
	{"vcs", detectRepository},
}

// HostDetector is the name of the detector that always runs, for the host's name.
const HostDetector = "host"

// DetectorNames returns the names of all detectors.
func DetectorNames() []string {
	names := []string{HostDetector}
	for _, d := range detectors {
		names = append(names, d.name)
	}
	return names
}

// detect returns the attributes that the detectors find, as keys and values.
func detect(names []string) (found [][2]string) {
	set := func(key, value string) {
		if value != "" {
			found = append(found, [2]string{key, value})
		}
	}
	for _, d := range detectors {
		if slices.Contains(names, d.name) {
			d.detect(set)
		}
	}
	return found
}

// detectKubernetes reads the variables that a pod's manifest sets from the downward
// API.
func detectKubernetes(set func(key, value string)) {
	if os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return
	}
	setFrom(set, [][]string{
		{"k8s.cluster.name", "$K8S_CLUSTER_NAME"},
		{"k8s.namespace.name", "$K8S_NAMESPACE_NAME", "$POD_NAMESPACE"},
		{"k8s.node.name", "$K8S_NODE_NAME", "$NODE_NAME"},
		{"k8s.pod.name", "$K8S_POD_NAME", "$POD_NAME"},
		{"k8s.pod.uid", "$K8S_POD_UID", "$POD_UID"},
		{"k8s.container.name", "$K8S_CONTAINER_NAME"},
		{"k8s.job.name", "$K8S_JOB_NAME"},
		{"k8s.cronjob.name", "$K8S_CRONJOB_NAME"},
	})
}

func detectContainer(set func(key, value string)) {
	for _, file := range []struct{ name, marker string }{{"/proc/self/cgroup", ""}, {"/proc/self/mountinfo", "/hostname"}} {
		b, err := os.ReadFile(file.name)
		if err != nil {
			return // not Linux
		}
		if id := findContainerID(b, file.marker); id != "" {
			set("container.id", id)
			return
		}
	}
}

// findContainerID searches the lines of b that contain marker. The id is in the
// path of a container's cgroup (v1), or of the files that are mounted into it
// (v2).
func findContainerID(b []byte, marker string) string {
	for line := range strings.Lines(string(b)) {
		if !strings.Contains(line, marker) {
			continue
		}
		for part := range strings.FieldsFuncSeq(line, func(r rune) bool { return strings.ContainsRune(" \t\n/", r) }) {
			part = strings.TrimSuffix(part, ".scope")
			part = part[strings.LastIndexByte(part, '-')+1:] // docker-ID, cri-containerd-ID
			if len(part) == 64 && strings.Trim(part, "0123456789abcdef") == "" {
				return part
			}
		}
	}
	return ""
}

// detectRepository reads the repository and the branch of the working directory
// from git's files.
func detectRepository(set func(key, value string)) {
	dir, err := os.Getwd()
	if err != nil {
		return
	}
	for ; ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			readRepository(filepath.Join(dir, ".git"), info.IsDir(), set)
			return
		}
		if dir == filepath.Dir(dir) {
			return
		}
	}
}

func readRepository(git string, isDir bool, set func(key, value string)) {
	common := git
	if !isDir { // a worktree: .git is a file that names a directory, which names the common one
		target, ok := strings.CutPrefix(firstLine(git), "gitdir: ")
		if !ok {
			return
		}
		git = resolve(filepath.Dir(git), target)
		common = git
		if c := firstLine(filepath.Join(git, "commondir")); c != "" {
			common = resolve(git, c)
		}
	}
	if branch, ok := strings.CutPrefix(firstLine(filepath.Join(git, "HEAD")), "ref: refs/heads/"); ok {
		set("vcs.ref.head.name", branch)
		set("vcs.ref.head.type", "branch")
	}
	if remote := originURL(filepath.Join(common, "config")); remote != "" {
		page := repositoryURL(remote)
		set("vcs.repository.url.full", page)
		set("vcs.repository.name", page[strings.LastIndex(page, "/")+1:])
	}
}

func resolve(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// firstLine returns the first line of a small file, "" if there is none.
func firstLine(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Scan()
	return strings.TrimSpace(s.Text())
}

// originURL returns the URL of the remote named origin in git's configuration.
func originURL(config string) string {
	b, err := os.ReadFile(config)
	if err != nil {
		return ""
	}
	origin := false
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			origin = line == `[remote "origin"]`
			continue
		}
		if key, value, ok := strings.Cut(line, "="); ok && origin && strings.TrimSpace(key) == "url" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
