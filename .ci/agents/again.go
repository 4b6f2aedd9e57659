package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Kept runs are mapped again with another spantee: the same bytes at the same times, so that
// only spantee differs. Its clock is set to the time of the run, and its stream and its session
// logs come as fast as they came then, except that it does not wait for an agent to start.

// maxStartup is how long a mapping waits for the first line.
const maxStartup = 3 * time.Second

// shiftVariable sets the clock of a spantee that was built with a shifted clock: nanoseconds.
const shiftVariable = "SPANTEE_KIT_SHIFT"

// shiftedClock writes the files that build a program with a clock that can be set, and returns
// the overlay that names them.
func shiftedClock(dir string, more map[string]string) (overlay string, err error) {
	root, err := exec.CommandContext(context.Background(), "go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return "", err
	}
	const now = "sec, nsec, mono := runtimeNow()\n"
	begin := bytes.Index(text, []byte("func Now() Time {"))
	at := bytes.Index(text[max(begin, 0):], []byte(now))
	if begin < 0 || at < 0 {
		return "", errors.New("this version of Go has another time.Now")
	}
	at += begin + len(now)
	shifted := string(text[:at]) + "\tsec, nsec = shifted(sec, nsec)\n" + string(text[at:])
	const shift = `package time

import "syscall"

// clockShift is added to the wall clock.
var clockShift = func() (shift int64) {
	text, _ := syscall.Getenv("` + shiftVariable + `")
	negative := len(text) > 0 && text[0] == '-'
	for _, c := range []byte(text) {
		if c >= '0' && c <= '9' {
			shift = shift*10 + int64(c-'0')
		}
	}
	if negative {
		return -shift
	}
	return shift
}()

func shifted(sec int64, nsec int32) (int64, int32) {
	sec += clockShift / 1e9
	n := int64(nsec) + clockShift%1e9
	switch {
	case n < 0:
		return sec - 1, int32(n + 1e9)
	case n >= 1e9:
		return sec + 1, int32(n - 1e9)
	}
	return sec, int32(n)
}
`
	replace := map[string]string{}
	add := func(of, name, text string) error {
		path := filepath.Join(dir, name)
		replace[of] = path
		return os.WriteFile(path, []byte(text), 0o600)
	}
	if err := errors.Join(add(filepath.Join(source, "time.go"), "time.go", shifted), add(filepath.Join(source, "shift.go"), "shift.go", shift)); err != nil {
		return "", err
	}
	n := 0
	for of, text := range more {
		n++
		if err := add(of, fmt.Sprintf("more%d.go", n), text); err != nil {
			return "", err
		}
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, []byte(jsonText(object{"Replace": replace})), 0o600)
}

// buildShifted builds spantee with a clock that can be set. more are files of the tree that
// are replaced.
func buildShifted(tree, binary, dir string, more map[string]string) error {
	overlay, err := shiftedClock(dir, more)
	if err != nil {
		return err
	}
	return buildSpantee(tree, binary, "-overlay", overlay)
}

// findRuns returns the folders of kept runs, sorted.
func findRuns(dir string) (folders []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "run.json" {
			folders = append(folders, filepath.Dir(path))
		}
		return err
	})
	slices.Sort(folders)
	return folders, err
}

// mapAgain maps runs anew, several at once, and judges them.
func mapAgain(spantee string, runs []*keptRun, into func(*keptRun) (string, error)) ([]*result, error) {
	results := make([]*result, len(runs))
	failures := make([]error, len(runs))
	var wait sync.WaitGroup
	room := make(chan struct{}, 6*runtime.NumCPU()) // most of the time they wait
	for i, k := range runs {
		room <- struct{}{}
		wait.Go(func() {
			defer func() { <-room }()
			dir, err := into(k)
			if err == nil {
				results[i], err = k.again(spantee, dir)
			}
			if err != nil {
				failures[i] = fmt.Errorf("%s: %w", k.name(), err)
			}
		})
	}
	wait.Wait()
	return results, errors.Join(failures...)
}

// again maps a run into dir, in every way of reading. In the run's own folder, the pipe's spans
// are there already, and spantee's clock is the present.
func (k *keptRun) again(spantee, dir string) (*result, error) {
	if k.info.Way == wayExec {
		return k.judgeAll(dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp("", "again")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(home)
	p, err := newPlayer(k, home, dir != k.folder)
	if err != nil {
		return nil, err
	}
	if err := p.play(spantee, dir); err != nil {
		return nil, err
	}
	if err := k.replay(spantee, dir, p.env("replay")); err != nil {
		return nil, err
	}
	return k.judgeAll(dir)
}

// replay reads the kept stream and the session logs as recordings.
func (k *keptRun) replay(spantee, dir string, env []string) error {
	tmp, err := os.MkdirTemp("", "replay")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	text, err := os.ReadFile(filepath.Join(k.folder, "stream.jsonl"))
	if err != nil {
		return err
	}
	stream := filepath.Join(tmp, "stream.jsonl")
	if err := os.WriteFile(stream, text, 0o600); err != nil {
		return err
	}
	written := time.UnixMicro(int64(k.info.End * 1e6))
	if err := os.Chtimes(stream, written, written); err != nil { // the end of a recording without stamps
		return err
	}
	if err := runSpantee(spantee, dir, wayRecording, env, "replay", stream); err != nil {
		return err
	}
	if logs := filepath.Join(k.folder, "logs"); k.entry.readsLog() && exists(logs) {
		return runSpantee(spantee, dir, wayLog, env, "replay", "-r", logs)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// runSpantee runs a command of spantee. Its exit status is 1 if a file could not be read,
// which the judge sees.
func runSpantee(spantee, dir, way string, env []string, command ...string) error {
	said, err := beginOutput(dir, way)
	if err != nil {
		return err
	}
	defer said.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, spantee, slices.Concat(command[:1], spanteeArgs(dir, way), command[1:])...)
	cmd.Env, cmd.Stderr = env, said
	err = cmd.Run()
	var status *exec.ExitError
	if errors.As(err, &status) && status.ExitCode() == 1 {
		return nil
	}
	return err
}

// A player gives a kept run's stream and logs to spantee as they came.
type player struct {
	k        *keptRun
	home     string
	stream   []byte
	arrivals []arrival
	growth   []growth // size is in lines
	begin    float64  // when the mapping begins, by the run's clock
	started  time.Time
	past     bool // the mapping happens at the time of the run
}

// An arrival is when so many bytes had come.
type arrival struct {
	at    float64
	bytes int
}

func newPlayer(k *keptRun, home string, past bool) (*player, error) {
	p := &player{k: k, home: home, past: past, started: time.Now()}
	var err error
	if p.stream, err = os.ReadFile(filepath.Join(k.folder, "stream.jsonl")); err != nil {
		return nil, err
	}
	if err := eachRow(filepath.Join(k.folder, "arrivals.txt"), func(at float64, words []string) error {
		n := len(p.stream)
		if words[0] != "end" {
			var err error
			if n, err = strconv.Atoi(words[0]); err != nil {
				return err
			}
		}
		p.arrivals = append(p.arrivals, arrival{at, n})
		return nil
	}); err != nil {
		return nil, err
	}
	if err := eachRow(filepath.Join(k.folder, "growth.txt"), func(at float64, words []string) error {
		n, err := strconv.Atoi(words[0])
		p.growth = append(p.growth, growth{at: at, file: strings.Join(words[1:], " "), size: int64(n)})
		return err
	}); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	first := k.info.End
	if len(p.arrivals) > 0 {
		first = min(first, p.arrivals[0].at)
	}
	if len(k.requests) > 0 {
		first = min(first, k.requests[0].Received)
	}
	for _, g := range p.growth {
		if g.at > k.info.Start {
			first = min(first, g.at)
		}
	}
	p.begin = max(k.info.Start, first-maxStartup.Seconds())
	return p, nil
}

// eachRow reads a file of a time and words.
func eachRow(path string, row func(at float64, words []string) error) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			return fmt.Errorf("%s: invalid row %q", path, line)
		}
		at, err := strconv.ParseFloat(words[0], 64)
		if err == nil {
			err = row(at, words[1:])
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// env is the environment of a spantee with a state of its own, and the run's clock.
func (p *player) env(state string) []string {
	env := []string{
		"HOME=" + p.home, "PATH=/usr/local/bin:/usr/bin:/bin", "TERM=dumb", "TMPDIR=" + os.TempDir(),
		"XDG_STATE_HOME=" + filepath.Join(p.home, ".state", state), "XDG_CONFIG_HOME=" + filepath.Join(p.home, ".config"),
	}
	if p.past {
		env = append(env, shiftVariable+"="+strconv.FormatInt(int64(p.begin*1e9)-p.started.UnixNano(), 10))
	}
	for _, v := range p.k.entry.Env {
		if name, folder, _ := strings.Cut(v, "={home}"); folder != "" { // such as CODEX_HOME
			env = append(env, name+"="+p.home+folder)
		}
	}
	return env
}

// until waits for a time of the run's clock.
func (p *player) until(at float64) {
	time.Sleep(time.Until(p.started.Add(time.Duration((at - p.begin) * float64(time.Second)))))
}

// play runs the filter and follow side by side, with the stream and the logs as they came.
func (p *player) play(spantee, dir string) error {
	for _, folder := range p.k.entry.Logs {
		if err := os.MkdirAll(filepath.Join(p.home, folder), 0o700); err != nil {
			return err
		}
	}
	p.started = time.Now()
	if err := p.grow(0, p.k.info.Start); err != nil { // what earlier runs wrote
		return err
	}
	var wait sync.WaitGroup
	var piped, followed error
	if p.past {
		wait.Go(func() { piped = p.filter(spantee, dir) })
	}
	wait.Go(func() { followed = p.follow(spantee, dir) })
	wait.Wait()
	return errors.Join(piped, followed)
}

// beginOutput prepares the output of a spantee.
func beginOutput(dir, way string) (said *os.File, err error) {
	if err := os.RemoveAll(filepath.Join(dir, way+".spans.jsonl")); err != nil {
		return nil, err
	}
	return os.Create(filepath.Join(dir, way+".stderr.txt"))
}

// filter gives the stream to the filter.
func (p *player) filter(spantee, dir string) error {
	said, err := beginOutput(dir, wayPipe)
	if err != nil {
		return err
	}
	defer said.Close()
	filter := exec.CommandContext(context.Background(), spantee, spanteeArgs(dir, wayPipe)...)
	filter.Env, filter.Stderr = p.env("pipe"), said
	in, err := filter.StdinPipe()
	if err != nil {
		return err
	}
	if err := filter.Start(); err != nil {
		return err
	}
	from := 0
	for _, a := range p.arrivals {
		p.until(a.at)
		if _, err := in.Write(p.stream[from:a.bytes]); err != nil {
			break // its exit says why
		}
		from = a.bytes
	}
	return errors.Join(in.Close(), filter.Wait())
}

// follow lets follow read the logs, which grow as they grew.
func (p *player) follow(spantee, dir string) error {
	if !p.k.entry.readsLog() && !p.past {
		return nil
	}
	if !p.k.entry.readsLog() || len(p.growth) == 0 {
		return p.grow(p.k.info.Start, forever)
	}
	said, err := beginOutput(dir, wayFollow)
	if err != nil {
		return err
	}
	defer said.Close()
	idle := 3 * time.Second
	for i := range p.growth[1:] { // longer than any pause
		idle = max(idle, time.Duration((p.growth[i+1].at-p.growth[i].at+3)*float64(time.Second)))
	}
	args := slices.Concat([]string{"follow", "--idle", idle.String(), "--since", "2000-01-01"}, spanteeArgs(dir, wayFollow))
	for _, folder := range p.k.entry.Logs {
		args = append(args, filepath.Join(p.home, folder))
	}
	cmd := exec.CommandContext(context.Background(), spantee, args...)
	cmd.Env, cmd.Stderr = p.env("follow"), said
	if err := cmd.Start(); err != nil {
		return err
	}
	grew := p.grow(p.k.info.Start, forever)
	for end := time.Now().Add(idle + time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		all, err := readSpans(filepath.Join(dir, wayFollow+".spans.jsonl"))
		piped, failed := readSpans(filepath.Join(dir, wayPipe+".spans.jsonl")) // an agent may go on by itself
		if cmp.Or(err, failed) == nil && len(p.k.roots(all)) >= max(len(p.k.sc.Parts[p.k.info.Part].Prompts), len(p.k.roots(piped))) {
			break
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	var status *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &status) {
		return err
	}
	return grew
}

const forever = 1e18

// grow lets the logs grow as they grew from one time to another.
func (p *player) grow(from, to float64) error {
	written := map[string]int64{}
	for _, g := range p.growth {
		if g.at >= to {
			break
		}
		if g.at < from {
			written[g.file] = g.size
			continue
		}
		p.until(g.at)
		if err := p.growOne(g, written[g.file]); err != nil {
			return err
		}
		written[g.file] = g.size
	}
	return nil
}

func (p *player) growOne(g growth, from int64) error {
	text, err := os.ReadFile(filepath.Join(p.k.folder, "logs", g.file))
	if os.IsNotExist(err) { // the agent has removed it
		return nil
	}
	if err != nil {
		return err
	}
	lines := bytes.SplitAfter(text, []byte{'\n'})
	to := min(g.size, int64(len(lines)))
	path := filepath.Join(p.home, g.file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if from < to {
		if _, err := io.Copy(file, bytes.NewReader(bytes.Join(lines[from:to], nil))); err != nil {
			return err
		}
	}
	if !p.past {
		return nil
	}
	at := time.UnixMicro(int64(g.at * 1e6))
	return os.Chtimes(path, at, at)
}
