package agent

import "testing"

func TestProgram(t *testing.T) {
	for command, want := range map[string]string{
		"go test ./...":                           "go",
		"A=1 /usr/bin/make all":                   "make",
		"cd /x && go build":                       "go",
		"cd":                                      "cd",
		`cd "a && secret b" && ls`:                "cd",
		"/bin/zsh -lc ls":                         "ls",
		"/bin/zsh -lc 'wc -c made.txt && od'":     "wc",
		`/bin/zsh -lc "sh -c 'sleep 25; echo x'"`: "sleep",
		"bash -lc 'cd /x && npm ci'":              "npm",
		"bash -c 'a' 'b'":                         "bash",
		"bash script.sh":                          "bash",
		`bash -lc "$SECRET x"`:                    "",
		"":                                        "",
	} {
		if got := program([]byte(command)); got != want {
			t.Errorf("program of %q = %q, want %q", command, got, want)
		}
	}
}
