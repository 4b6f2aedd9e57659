// Agents simulates a fleet: runs of 5 to 20 seconds, 50 at a time, each through a
// spantee of its own to a collector that is busy every now and then. Some spantees
// are killed. It prints what has to arrive, as JSON, and fails if spantee did not
// do as it was told.
//
//	agents -runs 60 -spantee PATH -collector http://127.0.0.1:4318
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/semconv"
)

var (
	runCount  = flag.Int("runs", 60, "how many")
	atOnce    = flag.Int("at-once", 50, "how many at the same time")
	spantee   = flag.String("spantee", "spantee", "the binary")
	collector = flag.String("collector", "http://127.0.0.1:4318", "where OTLP over HTTP goes")
)

// killedEvery run is one whose spantee gets SIGKILL.
const killedEvery = 20

// fixtures are what the agents print.
var fixtures = []string{
	"testdata/cursor/fix-failing-test.jsonl", "testdata/cursor/parallel-tools.jsonl", "testdata/cursor/tool-failures.jsonl",
	"testdata/cursor/retries.jsonl", "testdata/cursor/partial-output.jsonl", "testdata/cursor/result-error.jsonl",
	statesCost, ".ci/fleet/agents/looping.jsonl",
}

// statesCost states what it cost, and its tokens while it runs.
const statesCost = "testdata/claude/parallel-tools.jsonl"

// loop is how many repetitions of a call are one, as the dashboard has it.
const loop = 3

// A truth is what has to arrive.
type truth struct {
	Runs, Failed, Killed int // runs that failed are counted in Runs, too
	totals
	OfKilled          totals
	Requests, Refused int            // of the collector
	Spans             map[string]int // of each trace of a run that was not killed
}

type totals struct {
	Tools, ToolErrors, LinesAdded, LinesRemoved int64
	InputTokens, OutputTokens, CacheRead        int64
	Retries, Loops                              int64
	Cost                                        float64
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("agents: ")
	flag.Parse()
	busy, err := startBusy(*collector)
	if err != nil {
		log.Fatal(err)
	}
	f := &fleet{endpoint: busy.url, truth: truth{Spans: map[string]int{}}}
	numbers := make(chan int)
	var all sync.WaitGroup
	for range *atOnce {
		all.Go(func() {
			for n := range numbers {
				if err := f.run(n); err != nil {
					f.failed(fmt.Errorf("run %d: %w", n, err))
				}
			}
		})
	}
	for n := range *runCount {
		numbers <- n
	}
	close(numbers)
	all.Wait()
	f.truth.Requests, f.truth.Refused = busy.counts()
	for _, err := range append(f.errors, busy.violations()...) {
		log.Print(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(f.truth); err != nil {
		log.Fatal(err)
	}
	if len(f.errors)+len(busy.violations()) > 0 || f.truth.Refused == 0 {
		log.Fatal("spantee did not do as it was told")
	}
}

type fleet struct {
	endpoint string

	mu     sync.Mutex
	truth  truth
	errors []error
}

func (f *fleet) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errors = append(f.errors, err)
}

var (
	sessionID   = regexp.MustCompile(`"session_id":"[^"]*"`)
	summaryLine = regexp.MustCompile(`trace ([0-9a-f]{32}): (\d+) spans?,`)
)

// run is one agent, from its first line to the end of its spantee.
func (f *fleet) run(n int) error {
	killed := n%killedEvery == killedEvery/2
	fixture := fixtures[n%len(fixtures)]
	if killed {
		fixture = statesCost
	}
	stream, err := os.ReadFile(fixture)
	if err != nil {
		return err
	}
	stream = sessionID.ReplaceAll(stream, fmt.Appendf(nil, `"session_id":"run-%d"`, n))
	lines := bytes.SplitAfter(stream, []byte("\n"))
	service := "shop"
	if killed {
		service = "victims"
		lines = lines[:len(lines)*3/4]
	}
	cmd := exec.Command(*spantee, "--summary", "--flush-timeout=30s")
	cmd.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+f.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_SERVICE_NAME="+service, fmt.Sprintf("OTEL_RESOURCE_ATTRIBUTES=vcs.repository.name=shop,team=%d", n%7), fmt.Sprintf("OTEL_EXPORTER_OTLP_HEADERS=%s=%d", runHeader, n))
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.Discard, &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	pause := time.Duration(5000+rand.IntN(15000)) * time.Millisecond / time.Duration(len(lines))
	for _, line := range lines {
		if _, err := in.Write(line); err != nil {
			return errors.Join(err, cmd.Wait())
		}
		time.Sleep(pause)
	}
	if killed {
		time.Sleep(2 * time.Second) // what came is in the log after one
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.truth.Killed++
		_, err := f.truth.OfKilled.add(lines)
		return err
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		return fmt.Errorf("%w: %s", err, stderr.String())
	}
	return f.ended(lines, stderr.String())
}

// ended adds up a run that was not killed.
func (f *fleet) ended(lines [][]byte, stderr string) error {
	said := summaryLine.FindStringSubmatch(stderr)
	if said == nil || strings.Contains(stderr, "lost") {
		return fmt.Errorf("it said %q", stderr)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	failed, err := f.truth.add(lines)
	if failed {
		f.truth.Failed++
	}
	f.truth.Runs++
	f.truth.Spans[said[1]], _ = strconv.Atoi(said[2])
	return err
}

// add adds what the spans of a run say, and reports whether the run failed.
func (t *totals) add(lines [][]byte) (failed bool, err error) {
	m, err := mapping.New(mapping.Options{Source: mapping.Recording, Written: time.Now()})
	if err != nil {
		return false, err
	}
	for out, err := range m.Read(bytes.NewReader(bytes.Join(lines, nil))) {
		var span runs.Span
		if err != nil || out.Span == nil {
			continue
		}
		if err := span.Read(out.Span); err != nil {
			return failed, err
		}
		switch {
		case span.StatesTotals():
			used := span.Usage()
			failed = span.Failed
			t.InputTokens += used.InputTokens
			t.OutputTokens += used.OutputTokens
			t.CacheRead += used.CacheReadTokens
			t.Cost += used.Cost
			t.Retries += span.Stated().Retries
			if span.Stated().Repeats >= loop {
				t.Loops++
			}
		case span.Kind() == runs.Tool:
			t.Tools++
			if span.Failed {
				t.ToolErrors++
			}
			t.LinesAdded += span.Int(semconv.ToolLinesAdded)
			t.LinesRemoved += span.Int(semconv.ToolLinesRemoved)
		}
	}
	return failed, nil
}
