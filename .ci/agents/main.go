// Command agents runs coding agents against a scripted model, and judges spantee's traces by
// the clocks of the model's server and of the commands that the agents run.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if run := program(); run != nil {
		os.Exit(run(os.Args[1:]))
	}
	// What a shell runs in the background ignores SIGINT, and so would the agents.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	go func() {
		<-interrupted
		os.Exit(130)
	}()
	var err error
	if len(os.Args) == 3 && os.Args[1] == "inside" {
		err = inside(os.Args[2])
	} else {
		err = outside()
	}
	var status *exec.ExitError
	switch {
	case errors.As(err, &status): // the one inside has said why
		os.Exit(status.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "agents:", err)
		os.Exit(2)
	}
}

// A names is a flag that may be given several times.
type names []string

func (n *names) String() string     { return strings.Join(*n, ",") }
func (n *names) Set(s string) error { *n = append(*n, strings.Split(s, ",")...); return nil }

// A plan is what is to be done inside the namespace.
type plan struct {
	Agents    []planned
	Scenarios []string
	Spantee   string
	Kit       string
	Cache     string
	Node      string
	Keep      string
}

// A planned is an agent that is installed.
type planned struct{ Name, Version, Folder string }

func outside() error {
	var agents, chosen, bins names
	flag.Var(&agents, "agent", "run only the agent `NAME`; repeatable")
	flag.Var(&chosen, "scenario", "run only the scenario `NAME`; repeatable")
	flag.Var(&bins, "bin", "run `NAME=PATH` in place of the agent's package; repeatable")
	newestBuilds := flag.Bool("newest", false, "run the newest builds, not the pinned ones")
	keep := flag.String("keep", "", "keep the runs in `DIR`")
	again := flag.String("again", "", "map the runs that were kept in `DIR` again, with the present spantee")
	tree := flag.String("tree", ".", "build spantee in the source tree `DIR`")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	all, err := scenarios()
	if err != nil {
		return err
	}
	for _, name := range chosen {
		if all[name] == nil {
			return fmt.Errorf("unknown scenario %q (want one of %s)", name, strings.Join(scenarioNames(all), ", "))
		}
	}
	for _, name := range agents {
		if findEntry(name) == nil {
			return fmt.Errorf("unknown agent %q", name)
		}
	}
	if *again != "" {
		return outsideAgain(*again, *tree, *keep, agents, chosen)
	}
	if len(chosen) == 0 {
		chosen = scenarioNames(all)
	}
	p := plan{Scenarios: chosen}
	if p.Cache, err = cacheFolder(); err != nil {
		return err
	}
	for _, e := range entries {
		if len(agents) > 0 && !slices.Contains(agents, e.Name) {
			continue
		}
		version := e.Version
		if *newestBuilds {
			if version, err = newest(e.Package); err != nil {
				return err
			}
		}
		installed := planned{Name: e.Name, Version: version}
		if installed.Folder, err = unpack(p.Cache, e.Package, version); err != nil {
			return err
		}
		p.Agents = append(p.Agents, installed)
	}
	if p.Node, err = unpack(p.Cache, nodePackage, nodeVersion); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "kit")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if p.Spantee = os.Getenv("KIT_SPANTEE"); p.Spantee == "" {
		p.Spantee = filepath.Join(tmp, "spantee")
		if err := buildSpantee(*tree, p.Spantee); err != nil {
			return err
		}
	}
	if p.Kit, err = os.Executable(); err != nil {
		return err
	}
	if p.Keep = *keep; p.Keep == "" {
		p.Keep = filepath.Join(tmp, "runs")
	}
	if p.Keep, err = filepath.Abs(p.Keep); err != nil {
		return err
	}
	path := filepath.Join(tmp, "plan.json")
	if err := os.WriteFile(path, []byte(jsonText(p)), 0o600); err != nil {
		return err
	}
	return inNamespace(path)
}

// buildSpantee builds the binary of a source tree.
func buildSpantee(tree, binary string, more ...string) error {
	build := exec.Command("go", append(append([]string{"build"}, more...), "-trimpath", "-tags=grpcnotrace", "-o", binary, "./cmd/spantee")...)
	build.Dir, build.Stdout, build.Stderr = tree, os.Stderr, os.Stderr
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	return build.Run()
}

// inside runs the plan, in the namespace.
func inside(path string) error {
	if err := enterNamespace(); err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var p plan
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	all, err := scenarios()
	if err != nil {
		return err
	}
	var runs []*keptRun
	for _, a := range p.Agents {
		e := findEntry(a.Name)
		e.Version = a.Version
		r := &runner{entry: e, installed: a.Folder, node: p.Node, cache: p.Cache, spantee: p.Spantee, kit: p.Kit}
		for _, name := range p.Scenarios {
			sc := all[name]
			if why := e.noWay(sc); why != "" {
				fmt.Printf("%s %s: not run: %s\n", e.Name, name, why)
				continue
			}
			var folders []string
			for i := range sc.Parts {
				folder := filepath.Join(p.Keep, e.Name, name)
				if i > 0 {
					folder += fmt.Sprint(".", i+1)
				}
				folders = append(folders, folder)
			}
			if err := r.run(sc, wayPipe, folders); err != nil {
				return fmt.Errorf("%s %s: %w", e.Name, name, err)
			}
			for _, folder := range folders {
				k, err := readRun(folder)
				if err != nil {
					return err
				}
				runs = append(runs, k)
			}
		}
	}
	results, err := mapAgain(p.Spantee, runs, func(k *keptRun) (string, error) { return k.folder, nil })
	if err != nil {
		return err
	}
	return printResults(results)
}

// outsideAgain maps kept runs anew with the spantee of a source tree.
func outsideAgain(dir, tree, keep string, agents, chosen []string) error {
	folders, err := findRuns(dir)
	if err != nil {
		return err
	}
	var runs []*keptRun
	for _, folder := range folders {
		k, err := readRun(folder)
		if err != nil {
			return err
		}
		if (len(agents) == 0 || slices.Contains(agents, k.info.Agent)) && (len(chosen) == 0 || slices.Contains(chosen, k.info.Scenario)) {
			runs = append(runs, k)
		}
	}
	if len(runs) == 0 {
		return fmt.Errorf("no runs in %s", dir)
	}
	tmp, err := os.MkdirTemp("", "kit")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	spantee := os.Getenv("KIT_SHIFTED")
	if spantee == "" {
		spantee = filepath.Join(tmp, "spantee")
		if err := buildShifted(tree, spantee, tmp, nil); err != nil {
			return err
		}
	}
	if keep == "" {
		keep = filepath.Join(tmp, "again")
	}
	results, err := mapAgain(spantee, runs, func(k *keptRun) (string, error) {
		name, err := filepath.Rel(dir, k.folder)
		return filepath.Join(keep, name), err
	})
	if err != nil {
		return err
	}
	return printResults(results)
}

// errWrong says that something is wrong that was printed.
var errWrong = errors.New("not all is right")

func printResults(results []*result) error {
	x, err := readExceptions(exceptionsText)
	if err != nil {
		return fmt.Errorf("exceptions.txt: %w", err)
	}
	right := true
	for _, r := range results {
		x.excuse(r)
		r.print(os.Stdout)
		right = right && !slices.ContainsFunc(r.verdicts, func(v *verdict) bool { return !v.right() })
	}
	summarize(os.Stdout, results)
	passing := x.passing()
	for _, row := range passing {
		fmt.Printf("is right now, remove it from exceptions.txt: %s\n", row)
	}
	if !right || len(passing) > 0 {
		return errWrong
	}
	return nil
}
