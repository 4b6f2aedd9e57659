// Bench pits spantee against cat, tee and jq, in rounds, and prints ratios: the
// times of a shared machine mean nothing by themselves.
//
//	.ci/bench/run [--short]
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spantee/spantee/mapping/redact"
)

var (
	short  = flag.Bool("short", false, "a tenth of everything, to see that it works")
	rounds = flag.Int("rounds", 7, "runs of each command")
	server = flag.String("collector", "", "be a collector that bench starts")
)

const mb = 1 << 20

func main() {
	log.SetFlags(0)
	flag.Parse()
	if *server != "" {
		collect(*server)
		return
	}
	scale := 1
	if *short {
		scale, *rounds = 10, 3
	}
	dir, err := os.MkdirTemp("", "spantee-bench")
	check(err)
	defer os.RemoveAll(dir)
	b := &bench{spantee: install(dir), collector: startCollector(decodes), counter: startCollector(counts)}
	os.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", b.collector.endpoint)
	os.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state")) // where spools are

	mixed, deltas, tools := mixedSession(16*mb), deltaSession(16*mb), toolSession(16*mb)
	for _, size := range []int{10, 100, 1024} {
		b.throughput("mixed", mixed, size*mb/scale)
	}
	b.throughput("deltas", deltas, 1024*mb/scale)
	b.latency(deltas, 3000/scale)
	b.replay("mixed", mixed, 300*mb/scale)
	b.replay("deltas", deltas, 300*mb/scale)
	b.replay("small tool call", tools, 300*mb/scale)
	b.replay("mixed", mixed, 100*mb/scale, "--content=full")
	b.redaction(mixed)
	b.memory(mixed, scale)
	b.startup()
}

// install returns a binary like that of a release, which comes out of an archive. The
// linker's own output starts a tenth slower while it is in the page cache: it was
// written through a mapping, and therefore is there in single pages.
func install(dir string) string {
	linked := filepath.Join(dir, "linked")
	build := exec.Command("go", "build", "-trimpath", "-tags=grpcnotrace", "-ldflags=-s -w", "-o", linked, "./cmd/spantee")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // loading libc takes most of a millisecond
	build.Stderr = os.Stderr
	check(build.Run())
	binary, err := os.ReadFile(linked)
	check(err)
	installed := filepath.Join(dir, "spantee")
	check(os.WriteFile(installed, binary, 0o700))
	return installed
}

func check(err error) {
	if err != nil {
		log.Fatal("bench: ", err)
	}
}

type bench struct {
	spantee   string
	collector *collector // where spans go unless --endpoint says otherwise
	counter   *collector
}

// A result is what one run of a command cost.
type result struct {
	wall   time.Duration
	rss    int64 // bytes
	stderr string
}

// pump runs a command, writes block to it until size bytes are through, and
// reads what it prints. Wall is until all has come out, not until it exits:
// that is what the next in the pipe waits for.
func pump(block []byte, size int, args ...string) result {
	cmd := exec.Command(args[0], args[1:]...)
	in, err := cmd.StdinPipe()
	check(err)
	out, err := cmd.StdoutPipe()
	check(err)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	began := time.Now()
	check(cmd.Start())
	peak := make(chan int64, 1)
	go func() { peak <- watchMemory(cmd.Process.Pid) }()
	go func() {
		for left := size; left > 0; left -= len(block) {
			in.Write(block)
		}
		in.Close()
	}()
	buf := make([]byte, mb)
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, out, buf)
	check(err)
	wall := time.Since(began)
	rss := <-peak
	check(cmd.Wait())
	if args[0] != "jq" && n < int64(size) {
		log.Fatalf("bench: %s passed %d of %d bytes", args[0], n, size)
	}
	return result{wall, rss, stderr.String()}
}

// watchMemory returns the most memory that a process had until it ended. What
// wait4 says of it includes what this program had when it forked.
func watchMemory(pid int) (peak int64) {
	for {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, rest, ok := strings.Cut(string(status), "VmHWM:")
		if err != nil || !ok { // gone, or only its exit status is left
			return peak
		}
		var kb int64
		fmt.Sscan(rest, &kb)
		peak = kb << 10
		time.Sleep(10 * time.Millisecond)
	}
}

func median[T int64 | float64 | time.Duration](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

// throughput compares pipe to pipe times. jq gets a part of the input only.
func (b *bench) throughput(name string, block []byte, size int) {
	commands := [][]string{{"tee", "/dev/null"}, {"cat"}, {b.spantee}, {b.spantee, "--content=full"}, {"jq", "-c", "."}}
	walls := make([][]float64, len(commands)) // in seconds per MB
	var lost string
	for range *rounds {
		for _, i := range rand.Perm(len(commands)) {
			args, size := commands[i], size
			if args[0] == "jq" {
				if _, err := exec.LookPath("jq"); err != nil {
					continue
				}
				size = max(size/20, mb)
			}
			r := pump(wholeLines(block, size), size, args...)
			walls[i] = append(walls[i], r.wall.Seconds()/float64(size)*mb)
			if args[0] == b.spantee && r.stderr != "" {
				lost = "\n    spantee said: " + strings.TrimSpace(r.stderr)
			}
		}
	}
	fmt.Printf("%s lines, %d MB pipe to pipe, wall against tee:", name, size/mb)
	for i, args := range commands {
		if len(walls[i]) > 0 {
			fmt.Printf("  %s %.2f", strings.Join(append([]string{filepath.Base(args[0])}, args[1:]...), " "), ratio(walls[i], walls[0]))
		}
	}
	fmt.Printf("  (tee %.0f MB/s)%s\n", 1/median(walls[0]), lost)
}

// wholeLines returns the lines of block within size bytes.
func wholeLines(block []byte, size int) []byte {
	if len(block) <= size {
		return block
	}
	return block[:bytes.LastIndexByte(block[:size], '\n')+1]
}

// ratio returns the median of the ratios of each run to the other's of the same
// round.
func ratio(of, to []float64) float64 {
	ratios := make([]float64, len(of))
	for i := range of {
		ratios[i] = of[i] / to[i]
	}
	return median(ratios)
}

// latency compares how long one line takes from pipe to pipe.
func (b *bench) latency(block []byte, lines int) {
	line := block[:bytes.IndexByte(block, '\n')+1]
	one := func(args ...string) time.Duration {
		cmd := exec.Command(args[0], args[1:]...)
		in, err := cmd.StdinPipe()
		check(err)
		out, err := cmd.StdoutPipe()
		check(err)
		check(cmd.Start())
		var took []time.Duration
		buf := make([]byte, len(line))
		for range lines {
			began := time.Now()
			in.Write(line)
			_, err := io.ReadFull(out, buf)
			check(err)
			took = append(took, time.Since(began))
		}
		in.Close()
		io.Copy(io.Discard, out)
		check(cmd.Wait())
		return median(took)
	}
	var cat, added, full, down []time.Duration
	for range *rounds {
		c := one("cat")
		cat = append(cat, c)
		added = append(added, one(b.spantee)-c)
		full = append(full, one(b.spantee, "--content=full")-c)
		down = append(down, one(b.spantee, "-q", "--endpoint="+nobody)-c)
	}
	fmt.Printf("a line through the pipe: spantee takes %v longer than cat (cat %v), with --content=full %v, and %v with no collector\n",
		median(added), median(cat), median(full), median(down))
}

// nobody is where nobody listens.
const nobody = "http://127.0.0.1:1"

// replay compares the CPU time of mapping and delivering a file with cat's. It does so
// with both collectors: for one that decodes here, spantee has to wait all the time,
// and the two share memory and caches.
func (b *bench) replay(name string, block []byte, size int, args ...string) {
	file, err := os.CreateTemp("", "spantee-bench")
	check(err)
	defer os.Remove(file.Name())
	for left := size; left > 0; left -= len(block) {
		_, err := file.Write(block)
		check(err)
	}
	var cat, own, decoded []float64 // in seconds
	var spans int64
	deliver := func(to *collector) (cpu float64) {
		before := to.received()
		cpu = fromFile(file, append([]string{b.spantee, "--flush-timeout=1m", "--endpoint=" + to.endpoint}, args...)...)
		n := to.received() - before
		if spans != 0 && n != spans {
			log.Fatalf("bench: %d spans arrived, and another time %d", spans, n)
		}
		spans = n
		return cpu
	}
	for range *rounds {
		cat = append(cat, fromFile(file, "cat"))
		own = append(own, deliver(b.counter))
		decoded = append(decoded, deliver(b.collector))
	}
	check(file.Close())
	speed := func(cpu []float64) string {
		return fmt.Sprintf("%.1f times cat's CPU time, %.0f MB per CPU second", ratio(cpu, cat), float64(size)/mb/median(cpu))
	}
	fmt.Printf("%s lines, a file of %d MB mapped and delivered%s: %s; to a collector that decodes here, %s; %d spans\n",
		name, size/mb, strings.Join(append([]string{""}, args...), " "), speed(own), speed(decoded), spans)
}

// fromFile returns the CPU time, in seconds, of a command between a file and a pipe.
func fromFile(file *os.File, args ...string) float64 {
	_, err := file.Seek(0, io.SeekStart)
	check(err)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stderr = file, os.Stderr
	out, err := cmd.StdoutPipe()
	check(err)
	check(cmd.Start())
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, out, make([]byte, mb))
	check(err)
	check(cmd.Wait())
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
}

// redaction tells how fast secrets are looked for, in texts as long as are
// looked at.
func (b *bench) redaction(block []byte) {
	r, err := redact.New(nil, nil)
	check(err)
	r.Find("") // load the rules
	var perSecond []float64
	for range *rounds {
		began := time.Now()
		for text := range slices.Chunk(block, 16<<10) {
			r.Find(string(text))
		}
		perSecond = append(perSecond, float64(len(block))/mb/time.Since(began).Seconds())
	}
	fmt.Printf("secrets are looked for in %.0f MB a second\n", median(perSecond))
}

// memory tells whether it depends on the input's size or on a turn's length.
func (b *bench) memory(mixed []byte, scale int) {
	hour := hourLongTurn()
	inputs := []struct {
		block []byte
		size  int
	}{{mixed, 10 * mb}, {mixed, 100 * mb}, {mixed, 1024 * mb / scale}, {hour, len(hour)}}
	peaks := make([][]float64, len(inputs)) // in MB
	for range *rounds {
		for i, in := range inputs {
			r := pump(wholeLines(in.block, in.size), in.size, b.spantee)
			peaks[i] = append(peaks[i], float64(r.rss)/mb)
		}
	}
	fmt.Print("most memory:")
	for i, in := range inputs {
		fmt.Printf("  %d MB of input %.0f MB (%.2f x), at most %.0f MB", in.size/mb, median(peaks[i]), ratio(peaks[i], peaks[0]), slices.Max(peaks[i]))
	}
	fmt.Println("; the last input is an hour-long turn")
}

// startup tells what a short session costs from start to exit.
func (b *bench) startup() {
	session, err := os.ReadFile("testdata/cursor/fix-failing-test.jsonl")
	check(err)
	// A spool of its own, because the others would look through what waits in it.
	elsewhere := append(os.Environ(), "XDG_STATE_HOME="+os.Getenv("XDG_STATE_HOME")+"-down")
	time1 := func(env []string, args ...string) time.Duration {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stdin = bytes.NewReader(session)
		cmd.Env = env
		began := time.Now()
		check(cmd.Run())
		return time.Since(began)
	}
	var cat, own, down, bare, child []time.Duration
	commands := []func(){
		func() { cat = append(cat, time1(nil, "cat")) },
		func() { own = append(own, time1(nil, b.spantee)) },
		func() { down = append(down, time1(elsewhere, b.spantee, "-q", "--endpoint="+nobody)) },
		func() { bare = append(bare, firstByte("echo", "hello")) },
		func() { child = append(child, firstByte(b.spantee, "exec", "-q", "--", "echo", "hello")) },
	}
	for range 5 * *rounds {
		for _, i := range rand.Perm(len(commands)) {
			commands[i]()
		}
	}
	ms := func(d []time.Duration) float64 { return median(d).Seconds() * 1e3 }
	fmt.Printf("a session of %d lines, start to exit: %.1f ms, %.1f x cat's (%.1f ms), with no collector %.1f ms\n",
		bytes.Count(session, []byte("\n")), ms(own), ms(own)/ms(cat), ms(cat), ms(down))
	fmt.Printf("start to first byte: %.1f ms with exec, %.1f ms without\n", ms(child), ms(bare))
}

// firstByte is how long a command takes from its start to what it prints.
func firstByte(args ...string) time.Duration {
	cmd := exec.Command(args[0], args[1:]...)
	out, err := cmd.StdoutPipe()
	check(err)
	began := time.Now()
	check(cmd.Start())
	_, err = io.ReadFull(out, make([]byte, 1))
	check(err)
	took := time.Since(began)
	_, err = io.Copy(io.Discard, out)
	check(err)
	check(cmd.Wait())
	return took
}
