package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/spantee/spantee/cmd/spantee/internal/cli"
)

const (
	flagsBegin = "<!-- flags -->\n"
	flagsEnd   = "<!-- end of flags -->\n"
)

func readREADME(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The README has the flags of all commands, as --help describes them.
func TestREADMEFlags(t *testing.T) {
	text := readREADME(t)
	before, rest, begins := strings.Cut(text, flagsBegin)
	_, after, ends := strings.Cut(rest, flagsEnd)
	if !begins || !ends {
		t.Fatal("README.md has no place for the flags")
	}
	want := before + flagsBegin + flagList(rootCommand()) + flagsEnd + after
	if text == want {
		return
	}
	if !*update {
		t.Fatal("README.md does not have the flags of --help; rewrite it with -update")
	}
	if err := os.WriteFile("README.md", []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Each flag in the groups of --help is one of a command.
func TestFlagGroups(t *testing.T) {
	root := rootCommand()
	for _, group := range help.Groups {
		for name := range strings.FieldsSeq(group.Flags) {
			has := func(cmd *cobra.Command) bool { return cmd.Flags().Lookup(name) != nil }
			if !slices.ContainsFunc(append(root.Commands(), root), has) {
				t.Errorf("no command has --%s, which is in the group %q", name, group.Title)
			}
		}
	}
}

// flagList has a list for each set of commands that have flags in common, by name and
// description.
func flagList(root *cobra.Command) string {
	all := append([]*cobra.Command{root}, root.Commands()...)
	commands := map[[3]string]string{} // by flag
	for _, cmd := range all {
		for _, f := range cli.FlagsOf(cmd.Flags().VisitAll) {
			flag := [3]string{f.Name, f.Usage, f.DefValue}
			commands[flag] = strings.TrimPrefix(commands[flag]+", "+cmd.Name(), ", ")
		}
	}
	var groups []string // of commands
	lists := map[string]*cobra.Command{}
	for _, cmd := range all {
		for _, f := range cli.FlagsOf(cmd.Flags().VisitAll) {
			of := commands[[3]string{f.Name, f.Usage, f.DefValue}]
			if lists[of] == nil {
				groups = append(groups, of)
				lists[of] = new(cobra.Command)
				lists[of].Flags().SortFlags = false
			}
			if list := lists[of].Flags(); list.Lookup(f.Name) == nil {
				list.AddFlag(f)
			}
		}
	}
	b := new(strings.Builder)
	for _, of := range groups {
		fmt.Fprintf(b, "%s:\n%s\n", of, lists[of].Flags().FlagUsagesWrapped(cli.Width))
	}
	return "\n```text\n" + strings.TrimSuffix(b.String(), "\n") + "```\n\n"
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// firstColumn returns what the first cells of a section's table rows have.
func firstColumn(t *testing.T, heading string, pattern *regexp.Regexp) map[string]bool {
	t.Helper()
	_, section, found := strings.Cut(readREADME(t), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("README.md has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string]bool{}
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, match := range pattern.FindAllStringSubmatch(cells[1], -1) {
				listed[match[1]] = true
			}
		}
	}
	return listed
}

func wantSame(t *testing.T, what string, listed, real map[string]bool) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(real)) {
		if !listed[name] {
			t.Errorf("README.md has no row for %s %s", what, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !real[name] {
			t.Errorf("README.md lists %s %s, which is not in the code", what, name)
		}
	}
}

func TestREADMEVariables(t *testing.T) {
	read := map[string]bool{ // by libraries: envcar, and the SDK's resource
		"TRACESTATE": true, "OTEL_SERVICE_NAME": true, "OTEL_RESOURCE_ATTRIBUTES": true,
	}
	variable := regexp.MustCompile(`^(OTEL|SPANTEE|XDG)_[A-Z_]*[A-Z]$`)
	listed := firstColumn(t, "Variables", codeSpan)
	expanded := regexp.MustCompile(`\$([A-Z][A-Z_]*[A-Z])`)
	eachCode(t, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			if err == nil && n.Kind == token.STRING && variable.MatchString(text) {
				read[text] = true
			}
			for _, m := range expanded.FindAllStringSubmatch(text, -1) { // a template of os.Expand, of which README.md lists some variables
				read[m[1]] = read[m[1]] || listed[m[1]]
			}
		case *ast.CallExpr:
			args := stringArguments(n)
			switch called(n) {
			case "Getenv", "LookupEnv":
				if len(args) == 1 {
					read[args[0]] = true
				}
			case "lookup": // of exporter/otlp: a setting's value and its name
				if len(args) > 0 {
					setting := args[len(args)-1]
					read["OTEL_EXPORTER_OTLP_"+strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))] = true
				}
			}
		}
	})
	maps.DeleteFunc(read, func(_ string, is bool) bool { return !is })
	wantSame(t, "variable", listed, read)
}

func TestREADMEExitStatuses(t *testing.T) {
	real := map[string]bool{"0": true, "129": true, "130": true, "131": true, "141": true, "143": true} // success and signals
	eachCodeIn(t, []string{"internal/proc"}, func(n ast.Node) {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Status") || len(spec.Values) != 1 {
			return
		}
		if code, ok := spec.Values[0].(*ast.BasicLit); ok && code.Kind == token.INT {
			real[code.Value] = true
		}
	})
	wantSame(t, "status", firstColumn(t, "Exit statuses", regexp.MustCompile(`\b(\d+)\b`)), real)
}

// eachCode visits the code that spantee is built from.
func eachCode(t *testing.T, visit func(ast.Node)) {
	t.Helper()
	eachCodeIn(t, []string{".", "../../exporter", "../../mapping"}, visit)
}

func eachCodeIn(t *testing.T, dirs []string, visit func(ast.Node)) {
	t.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				visit(n)
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// called returns the name of the function or method that a call calls.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

func stringArguments(call *ast.CallExpr) (args []string) {
	for _, arg := range call.Args {
		if literal, ok := arg.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				args = append(args, text)
			}
		}
	}
	return args
}
