package resource

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
)

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
