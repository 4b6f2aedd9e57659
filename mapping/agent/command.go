package agent

import (
	"path"
	"slices"
	"strings"
)

// OfCommand returns the agent that a command line runs. A command that is not an agent's
// counts as an agent of its own, named after its executable.
func OfCommand(args []string) *Agent {
	args = withoutEnv(args)
	name := commandName(args[0])
	switch {
	case slices.Contains(packageRunners, name):
		if a := ofPackage(args[1:]); a != nil {
			return a
		}
	case shells[name]:
		if script := scriptOf(args[1:]); script != "" {
			if a := named(commandName(script)); a != nil {
				return a
			}
		}
	}
	if a := named(name); a != nil {
		return a
	}
	return &Agent{Name: strings.ToValidUTF8(name, "�")}
}

// Resumes reports whether a command line of the agent goes on with an earlier session.
func (a *Agent) Resumes(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		return slices.Contains(a.resume, name)
	})
}

var packageRunners = []string{"npx", "bunx"}

// named returns the agent with this command, nil if there is none.
func named(command string) *Agent {
	for _, a := range Agents {
		if slices.Contains(a.Commands, command) {
			return a
		}
	}
	return nil
}

// commandName returns the name of an executable, without its path and without the extensions
// that Windows adds.
func commandName(file string) string {
	name := path.Base(strings.ReplaceAll(file, `\`, "/"))
	for _, extension := range []string{".exe", ".cmd", ".bat"} {
		if cut := len(name) - len(extension); cut > 0 && strings.EqualFold(name[cut:], extension) {
			return name[:cut]
		}
	}
	return name
}

// withoutEnv returns the command that env runs, without env's options and assignments. It
// returns args if they run something else.
func withoutEnv(args []string) []string {
	if commandName(args[0]) != "env" {
		return args
	}
	rest := afterOptions(args[1:], "u", "unset", "C", "chdir", "S", "split-string")
	for len(rest) > 0 && strings.Contains(rest[0], "=") {
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return args
	}
	return withoutEnv(rest)
}

// ofPackage returns the agent whose package, or whose command in a package, npx or bunx is
// told to run. It returns nil if it is another package.
func ofPackage(args []string) *Agent {
	rest := afterOptions(args, "p", "package")
	if len(rest) == 0 {
		return nil
	}
	name := rest[0]
	if version := strings.LastIndexByte(name, '@'); version > 0 { // the first byte is that of a scope
		name = name[:version]
	}
	for _, a := range Agents {
		if slices.Contains(a.Packages, name) {
			return a
		}
	}
	return named(name)
}

// scriptOf returns the script that a shell is told to run, "" if it gets a command or reads
// its stdin.
func scriptOf(args []string) string {
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && strings.Contains(arg, "c") {
			return ""
		}
		if !isOption(arg) {
			break
		}
	}
	rest := afterOptions(args, "o", "O", "rcfile", "init-file")
	if len(rest) == 0 {
		return ""
	}
	return rest[0]
}

// afterOptions returns the arguments after the options. Those with a name in withValue are
// followed by their value.
func afterOptions(args []string, withValue ...string) []string {
	for len(args) > 0 && isOption(args[0]) {
		name := strings.TrimLeft(args[0], "-+")
		if args = args[1:]; name == "" { // "--", or env's "-"
			break
		}
		if slices.Contains(withValue, name) && len(args) > 0 {
			args = args[1:]
		}
	}
	return args
}

func isOption(arg string) bool { return strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "+") }
