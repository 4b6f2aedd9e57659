package main

import (
	"context"
	"os/exec"
	"runtime"
)

// openBrowser opens url in the user's browser, and does not wait: some browsers run for
// as long as their window is open. Nothing reaches stdout, which carries the stream.
func openBrowser(url string) {
	commands := [][]string{{"xdg-open"}, {"x-www-browser"}, {"www-browser"}, {"wslview"}}
	switch runtime.GOOS {
	case "darwin":
		commands = [][]string{{"open"}}
	case "windows":
		commands = [][]string{{"rundll32", "url.dll,FileProtocolHandler"}}
	}
	for _, command := range commands {
		if _, err := exec.LookPath(command[0]); err == nil {
			go func() { _ = exec.CommandContext(context.Background(), command[0], append(command[1:], url)...).Run() }()
			return
		}
	}
}
