package cilog

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
)

// reads says how each system finds commands, as its own parser does.
var reads = map[string]func(line string) bool{
	"Azure Pipelines": func(line string) bool {
		line = strings.ToLower(visible(line))
		return strings.Contains(line, "##vso[") || strings.Contains(line, "##[")
	},
	"GitHub Actions": func(line string) bool {
		return strings.HasPrefix(strings.TrimSpace(visible(line)), "::") || strings.Contains(line, "##[")
	},
	"GitLab": func(line string) bool {
		return strings.Contains(line, "section_start:") || strings.Contains(line, "section_end:")
	},
	"TeamCity":       func(line string) bool { return strings.Contains(line, "##teamcity[") },
	"Octopus Deploy": func(line string) bool { return strings.Contains(line, "##octopus[") },
	"MyGet":          func(line string) bool { return strings.Contains(line, "##myget[") },
	"LUCI, Buildbot": func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "@@@") },
	"Jenkins":        func(line string) bool { return strings.Contains(line, "\x1b[8mha:") },
	"Buildkite": func(line string) bool {
		line = strings.ReplaceAll(strings.TrimSpace(visible(line)), "\t", " ") + " "
		for _, marker := range []string{"--- ", "+++ ", "~~~ ", "^^^ "} {
			if strings.HasPrefix(line, marker) {
				return len(strings.TrimSpace(line)) > 3
			}
		}
		return false
	},
	"Travis": func(line string) bool {
		return strings.Contains(line, "travis_fold:") || strings.Contains(line, "travis_time:")
	},
}

// visible drops what a comparison that depends on a culture drops.
func visible(s string) string {
	for _, r := range []string{"\u200b", "\u200d", "\u00ad", "\u034f", "\ufe0f", "\u180b", "\u2060", "\x1b[1m", "\x1b[0m", "\x1b[2K"} {
		s = strings.ReplaceAll(s, r, "")
	}
	return s
}

var commands = map[string][]string{
	"Azure Pipelines": {
		"##vso[task.setvariable variable=X]pwn", "go test ##vso[task.complete result=Failed;]", "##VSO[task.prependpath]/tmp",
		"x ##[section]Y", "###vso[a]b", "##vso[##vso[task.x]y", "####[group]", "#\u200b#vso[task.x]y", "#\u034f#\ufe0fvso[task.x]y", "##v\u00adso[task.x]y",
		"a##[error]b##[error]c",
	},
	"GitHub Actions": {
		"::add-mask::x", "  ::set-output name=a::b", "\t::error file=x::y", "::stop-commands::z", "::::", "##[add-path]/tmp", "it ran ##[set-env name=PATH]/tmp",
		"\u2004::error::y", "\u00a0\v\u0085::error::y", "\u2028 \u200b::error::y",
		"\u200b::error::y", "one\n::error::two", "status\r::error::y", "\r\x1b[2K::error::y",
	},
	"GitLab":         {"section_start:1:x\r\x1b[0K", "go section_end:1:x", "\x1b[0Ksection_start:1:x[collapsed=true]", "section_section_start:1:x"},
	"TeamCity":       {"##teamcity[buildStatus text='x']", "ran ##teamcity[setParameter name='x']", "###teamcity[x]"},
	"Octopus Deploy": {"##octopus[setVariable name='x' value='y']", "ran ##octopus[x]"},
	"MyGet":          {"##myget[buildNumber 'x']"},
	"LUCI, Buildbot": {"@@@STEP_FAILURE@@@", " @@@SET_BUILD_PROPERTY@x@1@@@"},
	"Jenkins":        {"\x1b[8mha:AAAA\x1b[0m", "ran \x1b[8mha:AAAA"},
	"Buildkite":      {"--- x", "+++ x", "^^^ +++", "~~~ x", "  --- x", "---\tx", "a\n--- x", "\x1b[1m+++ x"},
	"Travis":         {"travis_fold:start:x", "ran travis_time:start:x"},
}

func TestBreak(t *testing.T) {
	for system, lines := range commands {
		for _, line := range lines {
			if !obeyed(system, line) {
				t.Errorf("%s would not read %q", system, line)
			}
			got := Break(line)
			if strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(line, " ", "") || Break(got) != got {
				t.Errorf("%q became %q, and again %q", line, got, Break(got))
			}
			for system := range reads {
				if obeyed(system, got) {
					t.Errorf("%s reads %q", system, got)
				}
			}
		}
	}
}

func obeyed(system, lines string) bool {
	for line := range strings.FieldsFuncSeq(lines, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if reads[system](line) {
			return true
		}
	}
	return false
}

// What is no command stays as it is.
func TestBreakLeavesTheRest(t *testing.T) {
	for _, text := range []string{
		"", "\n", "std::vector<int>", "+00:03.1  chat GPT-5  3.06s", "## Heading", "#[derive(Debug)]", "#include <x>", "├─ shell go   ██ 2s",
		"spantee: invalid --to \"::1\"", "[::1]:4317", "git log --- x", "a +++ b", "x^^^ y", "section_starts", "a -- b", "---", "\x1b[1mcursor-agent\x1b[0m", "# [x]",
	} {
		if got := Break(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestWriter(t *testing.T) {
	var got bytes.Buffer
	w := NewWriter(&got)
	for _, piece := range strings.SplitAfter("a ##vso[x]\n::error::y\nlast\n", "") {
		fmt.Fprint(w, piece)
	}
	if want := "a # #vso[x]\n: :error::y\nlast\n"; got.String() != want {
		t.Errorf("got %q, want %q", got.String(), want)
	}
	closed, in := io.Pipe()
	closed.Close()
	if _, err := NewWriter(in).Write([]byte("a\n")); err == nil {
		t.Error("no error")
	}
}

func FuzzBreak(f *testing.F) {
	for _, lines := range commands {
		for _, line := range lines {
			f.Add(line)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Break(text)
		for system := range reads {
			if obeyed(system, got) {
				t.Errorf("%s reads %q, of %q", system, got, text)
			}
		}
		if Break(got) != got {
			t.Errorf("%q became %q, and again %q", text, got, Break(got))
		}
	})
}
