package follow

import (
	"iter"
	"os"
	"path/filepath"

	"github.com/spantee/spantee/mapping/agent"
)

// DefaultFolders returns the folders of this user's agents, by the agents' names.
func DefaultFolders() iter.Seq2[string, string] {
	return func(yield func(agent, folder string) bool) {
		for _, a := range agent.Agents {
			for _, folder := range agentFolders(a.Folders) {
				if !yield(a.Name, folder) {
					return
				}
			}
		}
	}
}

// agentFolders returns the paths of an agent's folders for this user.
func agentFolders(f agent.Folders) (folders []string) {
	dir := os.Getenv(f.Variable)
	if dir == "" {
		home, _ := os.UserHomeDir()
		dir = filepath.Join(home, filepath.FromSlash(f.Default))
	}
	for _, name := range f.Names {
		if path := filepath.Join(dir, name); filepath.IsAbs(path) {
			folders = append(folders, path)
		}
	}
	return folders
}
