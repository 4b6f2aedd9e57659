// Command agents runs coding agents against a scripted model, and judges spantee's traces by
// the clocks of the model's server and of the commands that the agents run. It is run in the
// root of the repository: go run ./.ci/agents --agent codex --scenario tool
package main

import (
	"context"
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
	err := readBuilds()
	switch {
	case err != nil:
	case len(os.Args) == 5 && os.Args[1] == insideFlag:
		if err = enterNamespace(os.Args[3], os.Args[4]); err == nil {
			err = inside(os.Args[2])
		}
	default:
		err = outside()
	}
	var status *exec.ExitError
	switch {
	case errors.As(err, &status): // the one inside has said why
		os.Exit(status.ExitCode())
	case errors.Is(err, errNoNamespace):
		fmt.Fprintln(os.Stderr, "agents:", err)
		os.Exit(statusRefused)
	case errors.Is(err, errWrong):
		fmt.Fprintln(os.Stderr, "agents:", err)
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "agents:", err)
		os.Exit(2)
	}
}

// statusRefused says that nothing was run, because an agent might have reached a network.
const statusRefused = 3

// A list is a flag that may be given several times.
type list []string

func (n *list) String() string     { return strings.Join(*n, ",") }
func (n *list) Set(s string) error { *n = append(*n, strings.Split(s, ",")...); return nil }

// A choice says which runs are wanted.
type choice struct{ Agents, Scenarios list }

func (c *choice) whole() bool { return len(c.Scenarios) == 0 }

func (c *choice) has(agent, scenario string) bool {
	return (len(c.Agents) == 0 || slices.Contains(c.Agents, agent)) && (len(c.Scenarios) == 0 || slices.Contains(c.Scenarios, scenario))
}

func (c *choice) check(all map[string]*scenario) error {
	for _, name := range c.Scenarios {
		if all[name] == nil {
			return fmt.Errorf("unknown scenario %q (want one of %s)", name, strings.Join(scenarioNames(all), ", "))
		}
	}
	for _, name := range c.Agents {
		if findEntry(name) == nil {
			return fmt.Errorf("unknown agent %q", name)
		}
	}
	return nil
}

// A plan is what is to be done inside the namespace.
type plan struct {
	Choice  choice
	Agents  []planned
	Spantee string
	Kit     string
	Cache   string
	Node    string
	Keep    string
	Accept  bool
	Newest  bool
}

// A planned is an agent that is installed.
type planned struct{ Name, Version, Folder, Bin string }

func outside() error {
	p := plan{}
	var bins list
	flag.Var(&p.Choice.Agents, "agent", "run only the agent `NAME`; repeatable")
	flag.Var(&p.Choice.Scenarios, "scenario", "run only the scenario `NAME`; repeatable")
	flag.Var(&bins, "bin", "run the agent `NAME=PATH`, not its package; repeatable")
	flag.BoolVar(&p.Newest, "newest", false, "run the newest builds, not the pinned ones")
	flag.BoolVar(&p.Accept, "accept", false, "write the shapes, tables and pinned builds of what was run")
	flag.StringVar(&p.Keep, "keep", "", "keep the runs in `DIR`")
	again := flag.String("again", "", "map the runs that were kept in `DIR` again")
	tree := flag.String("tree", ".", "build the spantee in the source tree `DIR`")
	check := flag.Bool("check", false, "only check that the tables are of the pinned builds")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	all, err := scenarios()
	if err == nil {
		err = p.Choice.check(all)
	}
	switch {
	case err != nil:
		return err
	case *check:
		return checkPinned()
	case p.Accept && !p.Choice.whole():
		return errors.New("--accept needs all scenarios")
	}
	tmp, err := os.MkdirTemp("", "kit")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if *again != "" {
		return mapKept(&p, *again, *tree, tmp)
	}
	if err := canIsolate(); err != nil {
		return err
	}
	if err := install(&p, bins); err != nil {
		return err
	}
	p.Spantee = filepath.Join(tmp, "spantee")
	if err := buildSpantee(*tree, p.Spantee); err != nil {
		return err
	}
	if p.Kit, err = os.Executable(); err != nil {
		return err
	}
	if p.Keep == "" {
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

// install unpacks the agents.
func install(p *plan, bins []string) (err error) {
	if p.Cache, err = cacheFolder(); err != nil {
		return err
	}
	paths := map[string]string{}
	for _, bin := range bins {
		name, path, ok := strings.Cut(bin, "=")
		if !ok || findEntry(name) == nil {
			return fmt.Errorf("invalid --bin %q (want NAME=PATH of a known agent)", bin)
		}
		if paths[name], err = filepath.Abs(path); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if len(p.Choice.Agents) > 0 && !slices.Contains(p.Choice.Agents, e.Name) {
			continue
		}
		a := planned{Name: e.Name, Version: e.Version, Bin: paths[e.Name]}
		if a.Bin == "" {
			if !e.packaged() {
				if len(p.Choice.Agents) > 0 {
					return fmt.Errorf("%s is %s", e.Title, unavailable[e.Title])
				}
				continue
			}
			if p.Newest {
				if a.Version, err = newest(e); err != nil {
					return err
				}
			}
			if a.Folder, err = unpack(p.Cache, e.Package, a.Version); err != nil {
				return err
			}
		}
		p.Agents = append(p.Agents, a)
	}
	p.Node, err = unpack(p.Cache, nodePackage, nodeVersion)
	return err
}

// buildSpantee builds the binary of a source tree.
func buildSpantee(tree, binary string, more ...string) error {
	build := exec.CommandContext(context.Background(), "go", append(append([]string{"build"}, more...), "-trimpath", "-tags=grpcnotrace", "-o", binary, "./cmd/spantee")...)
	build.Dir, build.Stdout, build.Stderr = tree, os.Stderr, os.Stderr
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	return build.Run()
}

// inside runs the plan, in the namespace.
func inside(path string) error {
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
	var results []*result
	for _, a := range p.Agents {
		e := findEntry(a.Name)
		e.Version = a.Version
		r := &runner{entry: e, installed: a.Folder, bin: a.Bin, node: p.Node, cache: p.Cache, spantee: p.Spantee, kit: p.Kit}
		var runs []*keptRun
		for _, name := range scenarioNames(all) {
			if !p.Choice.has(e.Name, name) {
				continue
			}
			of, err := r.runs(all[name], p.Keep)
			if err != nil {
				return fmt.Errorf("%s %s: %w", e.Name, name, err)
			}
			runs = append(runs, of...)
		}
		of, err := mapAgain(p.Spantee, runs, func(k *keptRun) (string, error) { return k.folder, nil })
		if err != nil {
			return err
		}
		results = append(results, of...)
	}
	return report(results, &p)
}

// execScenarios are run by spantee exec, too.
var execScenarios = []string{"tool", "fail"}

// runs runs a scenario in all ways, and returns the runs.
func (r *runner) runs(sc *scenario, keep string) (runs []*keptRun, err error) {
	if why := r.entry.noWay(sc); why != "" {
		fmt.Printf("%s %s: not run: %s\n", r.entry.Name, sc.Name, why)
		return nil, nil
	}
	ways := []string{wayPipe}
	if slices.Contains(execScenarios, sc.Name) {
		ways = append(ways, wayExec)
	}
	for _, way := range ways {
		var folders []string
		for i := range sc.Parts {
			folder := filepath.Join(keep, r.entry.Name, sc.Name)
			if i > 0 {
				folder += fmt.Sprint(".", i+1)
			}
			if way != wayPipe {
				folder += "." + way
			}
			folders = append(folders, folder)
		}
		fmt.Fprintf(os.Stderr, "%s %s\n", r.entry.Name, sc.Name)
		if err := r.run(sc, way, folders); err != nil {
			return nil, err
		}
		for _, folder := range folders {
			k, err := readRun(folder)
			if err != nil {
				return nil, err
			}
			runs = append(runs, k)
		}
	}
	return runs, nil
}

// mapKept maps kept runs anew with the spantee of a source tree.
func mapKept(p *plan, dir, tree, tmp string) error {
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
		if p.Choice.has(k.info.Agent, k.info.Scenario) && k.info.Way == wayPipe {
			runs = append(runs, k)
		}
	}
	if len(runs) == 0 {
		return fmt.Errorf("no runs in %s", dir)
	}
	spantee := filepath.Join(tmp, "spantee")
	if err := buildShifted(tree, spantee, tmp, nil); err != nil {
		return err
	}
	keep := p.Keep
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
	return report(results, p)
}
