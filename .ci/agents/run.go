package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A runInfo is what is known of one run of an agent, besides its files. It is kept as run.json:
//
//	run.json        this
//	scenario.txt    the scenario as it was then
//	stream.jsonl    what the agent printed
//	arrivals.txt    when: seconds since 1970, and the bytes so far
//	stderr.txt      of the agent
//	requests.jsonl  the truth of the model's server
//	clock.txt       the truth of the commands
//	logs/           the session logs, without long texts
//	growth.txt      when they grew: seconds, the lines so far, and the file
//	pipe.*          what spantee said of the stream as it came
type runInfo struct {
	Agent    string   `json:"agent"`
	Version  string   `json:"version"`
	Scenario string   `json:"scenario"`
	Part     int      `json:"part"`
	Way      string   `json:"way"` // wayPipe or wayExec
	Command  []string `json:"command"`
	Model    string   `json:"model"`
	Start    float64  `json:"start"`
	End      float64  `json:"end"`
	Signaled float64  `json:"signaled,omitempty"` // when the agent got the scenario's signal
	Exit     string   `json:"exit"`               // a status, or a signal
	Spantee  string   `json:"spantee"`            // its exit, in the same words
	TimedOut bool     `json:"timed_out,omitempty"`
	SameData bool     `json:"same_bytes"`
	Trouble  []string `json:"trouble,omitempty"` // what the script did not foresee
	Others   []string `json:"others,omitempty"`  // requests that are no model call
	AgentCPU float64  `json:"agent_cpu"`
	CPU      float64  `json:"cpu"`     // of spantee
	PeakKiB  int64    `json:"peak_kb"` // of spantee
}

const (
	wayPipe      = "pipe"
	wayExec      = "exec"
	wayRecording = "recording"
	wayLog       = "log"
	wayFollow    = "follow"
)

// maxRun is how long an agent may take: some need minutes of a busy machine before they begin.
const maxRun = 15 * time.Minute

// A runner runs an agent in scenarios.
type runner struct {
	entry     *agentEntry
	installed string // the unpacked package
	bin       string // in place of it
	node      string // the unpacked Node.js
	cache     string
	spantee   string
	kit       string // this program
}

// run plays all parts of a scenario, each into a folder of its own.
func (r *runner) run(sc *scenario, way string, folders []string) error {
	home, err := os.MkdirTemp("", "agent")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	for i := range sc.Parts {
		if err := r.part(sc, i, way, home, folders[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) part(sc *scenario, number int, way, home, folder string) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	for _, dir := range []string{folder, filepath.Join(home, "work")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	// The command writes beside its own folder, which is the run's.
	scratch, err := os.MkdirTemp("", "kit")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	bin := filepath.Join(scratch, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		return err
	}
	for name := range programs {
		if err := os.Symlink(r.kit, filepath.Join(bin, name)); err != nil {
			return err
		}
	}

	part := &sc.Parts[number]
	v := &resolver{clock: filepath.Join(bin, "clock"), work: filepath.Join(home, "work"), extra: r.entry.Extra, mcp: r.entry.MCP}
	m := &model{answers: part.Answers, auxiliary: r.entry.Auxiliary, resolve: v.resolve, stops: r.entry.Stops, wait: r.entry.Wait, finish: r.entry.Finish}
	port, err := m.serve()
	if err != nil {
		return err
	}
	defer m.server.Close() //nolint:errcheck // nothing is left to say

	fill := strings.NewReplacer("{home}", home, "{work}", v.work, "{bin}", bin, "{cache}", r.cache, "{port}", fmt.Sprint(port), "{version}", r.entry.build())
	if err := r.prepare(sc, number, home, fill); err != nil {
		return err
	}
	info := &runInfo{Agent: r.entry.Name, Version: r.entry.build(), Scenario: sc.Name, Part: number, Way: way, Model: r.entry.Model}
	info.Command = r.commandLine(sc, part, strings.NewReplacer())
	p := &process{info: info, command: r.commandLine(sc, part, fill), folder: folder, home: home, scratch: scratch, signal: sc.Signal}
	p.env = r.environment(home, fill)
	growth := watchLogs(home, r.entry.Logs)
	err = p.run(r.spantee)
	grown := growth.stop()
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	info.Trouble, info.Others = m.trouble, m.others
	if sc.Signal == nil {
		info.Trouble = append(info.Trouble, m.unused()...)
	}
	if err := keepRun(folder, scratch, sc, info, m.requests); err != nil {
		return err
	}
	c := newCutter(sc)
	return errors.Join(c.cutStream(folder), c.keepLogs(folder, home, r.entry.Logs, grown))
}

// prepare writes the agent's settings and the scenario's files.
func (r *runner) prepare(sc *scenario, number int, home string, fill *strings.Replacer) error {
	files := maps.Clone(r.entry.Files)
	if files == nil {
		files = map[string]string{}
	}
	for path, text := range r.entry.Settings[sc.Needs].Files {
		if base, ok := strings.CutPrefix(path, "+"); ok {
			files[base] += text
		} else {
			files[path] = text
		}
	}
	if number == 0 {
		for path, text := range sc.Files {
			files["work/"+path] = text
		}
	}
	for path, text := range files {
		path = filepath.Join(home, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(fill.Replace(text)), 0o600); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(r.cache, "compiled"), 0o700)
}

func (r *runner) commandLine(sc *scenario, part *part, fill *strings.Replacer) []string {
	e, set := r.entry, r.entry.Settings[sc.Needs]
	command := e.command(r.installed, r.node)
	if r.bin != "" {
		command = []string{r.bin}
	}
	args := slices.DeleteFunc(slices.Clone(e.Args), func(a string) bool { return slices.Contains(set.Drop, a) })
	switch part.Resume {
	case "resume":
		if e.Name == "codex" { // a subcommand
			args = slices.Insert(args, 1, e.Resume...)
		} else {
			args = append(args, e.Resume...)
		}
	case "fork":
		args = append(args, append(slices.Clone(e.Resume), "--fork-session")...)
	}
	args = append(append(args, set.Args...), e.Prompt...)
	args = append(args, part.Prompts...)
	for i := range args {
		args[i] = fill.Replace(args[i])
	}
	if fill.Replace("{home}") == "{home}" { // as it is kept: without this machine's folders
		for i := range command {
			command[i] = filepath.Base(command[i])
		}
	}
	return append(command, args...)
}

func (r *runner) environment(home string, fill *strings.Replacer) []string {
	path := "/usr/local/bin:/usr/bin:/bin"
	if r.entry.Node {
		path = filepath.Join(r.node, "bin") + ":" + path
	}
	env := []string{"HOME=" + home, "PATH=" + path, "TERM=dumb", "LANG=C.UTF-8", "TMPDIR=" + os.TempDir(), "NODE_COMPILE_CACHE=" + filepath.Join(r.cache, "compiled")}
	for _, v := range r.entry.Env {
		env = append(env, fill.Replace(v))
	}
	return env
}

// A process is the agent's, and spantee's beside it.
type process struct {
	info                  *runInfo
	command               []string
	folder, home, scratch string
	env                   []string
	signal                *sendSignal
}

func (p *process) create(name string) *os.File {
	file, err := os.OpenFile(filepath.Join(p.folder, name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		panic(err)
	}
	return file
}

// spanteeArgs are how spantee is told what to write, into files whose names begin with way.
func spanteeArgs(folder, way string) []string {
	return []string{"--to", filepath.Join(folder, way+".spans.jsonl"), "--receipt", filepath.Join(folder, way+".receipt.json"), "--content", "full", "--summary"}
}

// run runs the agent to its end: agent | stamp | spantee, or spantee exec -- agent | stamp.
func (p *process) run(spantee string) error {
	ctx, cancel := context.WithTimeout(context.Background(), maxRun)
	defer cancel()
	agentErr, spanteeErr := p.create("stderr.txt"), p.create(p.info.Way+".stderr.txt")
	defer agentErr.Close()
	defer spanteeErr.Close()

	command := p.command
	if p.info.Way == wayExec {
		command = slices.Concat([]string{spantee, "exec"}, spanteeArgs(p.folder, wayExec), []string{"--"}, command)
	}
	agent := exec.CommandContext(ctx, command[0], command[1:]...)
	agent.Dir, agent.Env, agent.Stderr = filepath.Join(p.home, "work"), p.env, agentErr
	agent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	agent.Cancel = func() error {
		p.info.TimedOut = true
		return syscall.Kill(-agent.Process.Pid, syscall.SIGKILL)
	}
	agent.WaitDelay = 10 * time.Second
	if p.info.Way == wayExec {
		agent.Stderr = spanteeErr
	}
	printed, into, err := os.Pipe()
	if err != nil {
		return err
	}
	agent.Stdout = into

	var filter *exec.Cmd
	var out io.WriteCloser
	passed := filepath.Join(p.scratch, "passed.jsonl")
	if p.info.Way == wayPipe {
		file, err := os.Create(passed)
		if err != nil {
			return err
		}
		defer file.Close()
		filter = exec.CommandContext(ctx, spantee, spanteeArgs(p.folder, wayPipe)...)
		filter.Dir, filter.Env, filter.Stdout, filter.Stderr = agent.Dir, p.env, file, spanteeErr
		if out, err = filter.StdinPipe(); err != nil {
			return err
		}
		if err := filter.Start(); err != nil {
			return err
		}
	}
	p.info.Start = seconds(time.Now())
	err = agent.Start()
	into.Close()
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	if p.signal != nil {
		go p.sendSignal(agent.Process.Pid, ended)
	}
	stamped := make(chan error, 1)
	go func() { stamped <- p.stamp(printed, out) }()
	err = agent.Wait()
	p.info.End = seconds(time.Now())
	close(ended)
	p.info.Exit = exitWords(agent, err)
	// What the agent left behind holds the pipe open.
	go func() {
		time.Sleep(2 * time.Second)
		_ = syscall.Kill(-agent.Process.Pid, syscall.SIGKILL)
		time.Sleep(10 * time.Second)
		printed.Close()
	}()
	if err := <-stamped; err != nil && !errors.Is(err, fs.ErrClosed) {
		return err
	}
	usage := agent.ProcessState
	p.info.AgentCPU = (usage.UserTime() + usage.SystemTime()).Seconds()
	if filter == nil {
		p.info.SameData = true // nothing to compare with: exec's output is the recording
		return nil
	}
	err = filter.Wait()
	p.info.Spantee = exitWords(filter, err)
	usage = filter.ProcessState
	p.info.CPU = (usage.UserTime() + usage.SystemTime()).Seconds()
	if u, ok := usage.SysUsage().(*syscall.Rusage); ok {
		p.info.PeakKiB = u.Maxrss
	}
	p.info.SameData, err = sameFiles(passed, filepath.Join(p.folder, "stream.jsonl"))
	return err
}

// stamp copies the stream, to a file and to out, and notes when each piece came.
func (p *process) stamp(from io.Reader, out io.WriteCloser) error {
	stream, arrivals := p.create("stream.jsonl"), p.create("arrivals.txt")
	defer stream.Close()
	defer arrivals.Close()
	if out != nil {
		defer func() { _ = out.Close() }() // a filter that ended early is judged by its exit
	}
	buf := make([]byte, 1<<20)
	total := 0
	for {
		n, err := from.Read(buf)
		if n > 0 {
			total += n
			fmt.Fprintln(arrivals, now(), total)
			if _, err := stream.Write(buf[:n]); err != nil {
				return err
			}
			if out != nil {
				_, _ = out.Write(buf[:n])
			}
		}
		if err != nil {
			fmt.Fprintln(arrivals, now(), "end")
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// sendSignal sends the scenario's signal to the agent, a second after the command began.
func (p *process) sendSignal(pid int, ended <-chan struct{}) {
	begun := p.signal.After + " begin"
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		if text, _ := os.ReadFile(filepath.Join(p.scratch, clockFile)); strings.Contains(string(text), begun) {
			break
		}
	}
	time.Sleep(time.Second)
	p.info.Signaled = seconds(time.Now())
	_ = syscall.Kill(pid, map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}[p.signal.Name])
}

func exitWords(cmd *exec.Cmd, err error) string {
	if cmd.ProcessState == nil {
		return fmt.Sprint(err)
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal().String()
	}
	return fmt.Sprint(cmd.ProcessState.ExitCode())
}

func sameFiles(a, b string) (bool, error) {
	x, err := os.ReadFile(a)
	if err != nil {
		return false, err
	}
	y, err := os.ReadFile(b)
	return string(x) == string(y), err
}

// keepRun writes what is known of the run.
func keepRun(folder, scratch string, sc *scenario, info *runInfo, requests []*request) error {
	slices.SortFunc(requests, func(a, b *request) int { return a.Number - b.Number })
	var lines strings.Builder
	for _, r := range requests {
		lines.WriteString(jsonText(r) + "\n")
	}
	clock, err := os.ReadFile(filepath.Join(scratch, clockFile))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for name, text := range map[string]string{"run.json": indent(info) + "\n", "scenario.txt": sc.Text, "requests.jsonl": lines.String(), clockFile: string(clock)} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// A logWatch notes how session logs grow.
type logWatch struct {
	home    string
	folders []string
	done    chan struct{}
	wait    sync.WaitGroup
	sizes   map[string]int64
	grown   []growth
}

// A growth is the size of a log at a time.
type growth struct {
	at   float64
	file string // in HOME
	size int64
}

func watchLogs(home string, folders []string) *logWatch {
	w := &logWatch{home: home, folders: folders, done: make(chan struct{}), sizes: map[string]int64{}}
	w.look() // what an earlier part of the scenario wrote
	w.wait.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-w.done:
				return
			case <-tick.C:
				w.look()
			}
		}
	})
	return w
}

func (w *logWatch) look() {
	at := seconds(time.Now())
	for _, folder := range w.folders {
		_ = filepath.WalkDir(filepath.Join(w.home, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil //nolint:nilerr // it is not there yet
			}
			info, err := d.Info()
			if err != nil || w.sizes[path] == info.Size() {
				return nil //nolint:nilerr // it has gone
			}
			w.sizes[path] = info.Size()
			name, _ := filepath.Rel(w.home, path)
			w.grown = append(w.grown, growth{at: at, file: name, size: info.Size()})
			return nil
		})
	}
}

func (w *logWatch) stop() []growth {
	close(w.done)
	w.wait.Wait()
	w.look()
	return w.grown
}

// keepLogs copies the session logs, and how they grew. Long texts are left out: they are the
// agent's instructions.
func (c *cutter) keepLogs(folder, home string, logs []string, grown []growth) error {
	offsets := map[string][]int64{} // in the file, where its lines end
	for _, from := range logs {
		err := filepath.WalkDir(filepath.Join(home, from), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil //nolint:nilerr // an agent may write none
			}
			name, _ := filepath.Rel(home, path)
			ends, err := c.copyLog(path, filepath.Join(folder, "logs", name))
			offsets[name] = ends
			return err
		})
		if err != nil {
			return err
		}
	}
	var text strings.Builder
	for _, g := range grown {
		lines, _ := slices.BinarySearch(offsets[g.file], g.size+1)
		fmt.Fprintf(&text, "%.6f %d %s\n", g.at, lines, g.file)
	}
	return os.WriteFile(filepath.Join(folder, "growth.txt"), []byte(text.String()), 0o600)
}

// copyLog copies a log without its long texts, and returns where its lines ended.
func (c *cutter) copyLog(from, to string) (ends []int64, err error) {
	in, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return nil, err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	lines := bufio.NewReader(in)
	var at int64
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			at += int64(len(line))
			ends = append(ends, at)
			if _, err := out.Write(c.line(line)); err != nil {
				return nil, err
			}
		}
		if errors.Is(err, io.EOF) {
			return ends, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// A cutter leaves long texts out of what is kept: they are the agent's own, such as its
// instructions. own are the scenario's texts.
type cutter struct{ own []string }

const (
	maxKept   = 100  // bytes of a text that is not the scenario's
	maxReason = 400  // bytes of why something failed
	maxOwn    = 2000 // bytes of one that has a text of the scenario
)

func newCutter(sc *scenario) *cutter {
	c := &cutter{own: []string{"/bin/clock ", "/bin/hook ", "output of ", "error of ", "answer of "}}
	for _, part := range sc.Parts {
		c.own = append(c.own, part.Prompts...)
		for _, answers := range part.Answers {
			for _, a := range answers {
				c.own = append(c.own, a.Message)
				for _, s := range a.Steps {
					c.own = append(c.own, s.Text)
				}
			}
		}
	}
	c.own = slices.DeleteFunc(c.own, func(text string) bool { return len(text) < 5 })
	return c
}

// line returns a JSON line without its long texts.
func (c *cutter) line(line []byte) []byte {
	var v any
	numbers := json.NewDecoder(bytes.NewReader(line))
	numbers.UseNumber()
	if len(line) < 20 || numbers.Decode(&v) != nil {
		return line
	}
	short, changed := c.value("", v)
	if !changed {
		return line
	}
	return append([]byte(jsonText(short)), '\n')
}

// limit returns how long the text of a member may be.
func (c *cutter) limit(member, text string) int {
	switch {
	case slices.ContainsFunc(c.own, func(own string) bool { return strings.Contains(text, own) }):
		return maxOwn
	case member == "description": // of a tool
		return 0
	case slices.Contains([]string{"message", "error", "errorMessage", "reason"}, member):
		return maxReason
	}
	return maxKept
}

func (c *cutter) value(member string, v any) (short any, changed bool) {
	switch v := v.(type) {
	case string:
		if len(v) > c.limit(member, v) {
			return fmt.Sprintf("(%d bytes)", len(v)), true
		}
	case []any:
		for i := range v {
			var now bool
			v[i], now = c.value(member, v[i])
			changed = changed || now
		}
	case map[string]any:
		for k := range v {
			var now bool
			v[k], now = c.value(k, v[k])
			changed = changed || now
		}
	}
	return v, changed
}

// stream returns a stream without its long texts, and where in it an offset of the original is.
func (c *cutter) stream(text []byte) (cut []byte, at func(int) int) {
	var from, to []int // where lines begin
	begin := 0
	for line := range bytes.Lines(text) {
		from, to = append(from, begin), append(to, len(cut))
		begin += len(line)
		cut = append(cut, c.line(line)...)
	}
	from, to = append(from, begin), append(to, len(cut))
	return cut, func(offset int) int {
		i, exact := slices.BinarySearch(from, offset)
		if exact {
			return to[i]
		}
		i--
		return min(to[i]+offset-from[i], to[min(i+1, len(to)-1)]-1)
	}
}

// cutStream leaves long texts out of a kept stream.
func (c *cutter) cutStream(folder string) error {
	path, times := filepath.Join(folder, "stream.jsonl"), filepath.Join(folder, "arrivals.txt")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	cut, at := c.stream(text)
	var arrivals strings.Builder
	if err := eachRow(times, func(t float64, words []string) error {
		if n, err := strconv.Atoi(words[0]); err == nil {
			words[0] = strconv.Itoa(at(n))
		}
		fmt.Fprintf(&arrivals, "%.6f %s\n", t, words[0])
		return nil
	}); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path, cut, 0o600), os.WriteFile(times, []byte(arrivals.String()), 0o600))
}
