// Bench measures spantee against cat, tee and jq, in rounds and in random order, and
// prints each figure beside its limit: the times of a shared machine mean little by
// themselves.
//
//	.ci/bench/run [--short]
package main

import (
	"bytes"
	"errors"
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
)

var (
	short  = flag.Bool("short", false, "a tenth of everything, to see that it works")
	rounds = flag.Int("rounds", 7, "runs of each command")
	server = flag.Bool("collector", false, "be the collector that bench starts")
)

const mb = 1 << 20

func main() {
	log.SetFlags(0)
	flag.Parse()
	if *server {
		collect()
		return
	}
	scale := 1
	if *short {
		scale, *rounds = 10, 3
	}
	dir, err := os.MkdirTemp("", "spantee-bench")
	check(err)
	defer os.RemoveAll(dir)
	b := &bench{spantee: install(dir), collector: startCollector()}
	os.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", b.collector.endpoint)
	os.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state")) // where spools are

	block := sessions(32 * mb)
	fmt.Printf("sessions of several agents, %d bytes a line on average\n", len(block)/bytes.Count(block, newline))
	b.bulk(block, 10*mb)
	b.bulk(block, 100*mb/scale)
	b.bulk(block, 1024*mb/scale)
	b.latency(block, 3000/scale)
	b.steady(block, 10*time.Second/time.Duration(scale))
	b.startup()
	b.mapping("sessions", block, 300*mb/scale, 150)
	b.mapping("deltas", deltas(16*mb), 300*mb/scale, 200)
	b.mapping("small tool calls", calls(16*mb), 300*mb/scale, 60)
	b.mapping("sessions", block, 100*mb/scale, 50, "--content=full")
}

var newline = []byte{'\n'}

// install returns a binary like that of a release, which comes out of an archive. The
// linker's own output starts a tenth slower while it is in the page cache: it was
// written through a mapping, so the cache holds it in single pages.
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
	collector *collector
}

// contest runs each of the commands once a round, in random order, and returns what
// run returns for each, by command and round.
func contest(commands [][]string, run func(args []string) float64) [][]float64 {
	figures := make([][]float64, len(commands))
	for range *rounds {
		for _, i := range rand.Perm(len(commands)) {
			figures[i] = append(figures[i], run(commands[i]))
		}
	}
	return figures
}

func median(figures []float64) float64 { return slices.Sorted(slices.Values(figures))[len(figures)/2] }

// ratio returns the median of the ratios of each run to the other's of the same round.
func ratio(of, to []float64) float64 {
	ratios := make([]float64, len(of))
	for i := range of {
		ratios[i] = of[i] / to[i]
	}
	return median(ratios)
}

// start starts a command between two pipes.
func start(args ...string) (cmd *exec.Cmd, in io.WriteCloser, out io.Reader) {
	cmd = exec.Command(args[0], args[1:]...)
	in, err := cmd.StdinPipe()
	check(err)
	out, err = cmd.StdoutPipe()
	check(err)
	cmd.Stderr = os.Stderr
	check(cmd.Start())
	return cmd, in, out
}

// end closes a command's stdin, reads the rest and waits for its end.
func end(cmd *exec.Cmd, in io.Closer, out io.Reader) (cpu time.Duration) {
	in.Close()
	_, err := io.Copy(io.Discard, out)
	check(err)
	check(cmd.Wait())
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// bulk measures when the process in the middle of a pipe has ended, with cat in front and
// behind, and its peak memory. jq gets a part of the input.
func (b *bench) bulk(block []byte, size int) {
	dir, err := os.MkdirTemp("", "spantee-bulk")
	check(err)
	defer os.RemoveAll(dir)
	write := func(name string, size int) string {
		f, err := os.Create(filepath.Join(dir, name))
		check(err)
		for left := size; left > 0; left -= len(block) {
			_, err := f.Write(wholeLines(block, left))
			check(err)
		}
		check(f.Close())
		return f.Name()
	}
	whole, part := write("whole", size), write("part", max(size/20, mb))
	var peaks []float64 // in MB
	ended := contest([][]string{{"tee", "/dev/null"}, {"cat"}, {b.spantee}, {"jq", "-c", ".type"}}, func(args []string) float64 {
		size, file := size, whole
		if args[0] == "jq" {
			size, file = max(size/20, mb), part
		}
		began := time.Now()
		front, middle, back := exec.Command("cat", file), exec.Command(args[0], args[1:]...), exec.Command("cat")
		middle.Stderr = os.Stderr
		var err error
		middle.Stdin, err = front.StdoutPipe()
		check(err)
		back.Stdin, err = middle.StdoutPipe()
		check(err)
		check(errors.Join(front.Start(), middle.Start(), back.Start()))
		peak := make(chan float64, 1)
		go func() { peak <- watchMemory(middle.Process.Pid) }()
		check(middle.Wait())
		took := time.Since(began)
		check(errors.Join(front.Wait(), back.Wait()))
		if args[0] == b.spantee {
			peaks = append(peaks, <-peak)
		}
		return took.Seconds() / float64(size)
	})
	fmt.Printf("%4d MB between two cats, against tee (%.0f MB/s): process ended %.1f (limit 8); cat %.2f, jq %.0f. Peak memory %.0f MB (limit 80)\n",
		size/mb, 1/median(ended[0])/mb, ratio(ended[2], ended[0]), ratio(ended[1], ended[0]), ratio(ended[3], ended[0]), slices.Max(peaks))
}

// wholeLines returns the lines of block within size bytes.
func wholeLines(block []byte, size int) []byte {
	if len(block) <= size {
		return block
	}
	return block[:bytes.LastIndexByte(block[:size], '\n')+1]
}

// watchMemory returns the peak memory of a process until its end, in MB. The peak that
// wait4 reports includes the memory that this program had when it forked.
func watchMemory(pid int) (peak float64) {
	for {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, rest, ok := strings.Cut(string(status), "VmHWM:")
		if err != nil || !ok { // gone, or only its exit status is left
			return peak
		}
		var kb float64
		fmt.Sscan(rest, &kb)
		peak = kb / 1024
		time.Sleep(10 * time.Millisecond)
	}
}

// latency measures how long one line takes from pipe to pipe.
func (b *bench) latency(block []byte, lines int) {
	took := contest([][]string{{"tee", "/dev/null"}, {b.spantee}, {"jq", "--unbuffered", "-c", "."}}, func(args []string) float64 {
		cmd, in, out := start(args...)
		var took []float64
		buf := make([]byte, mb)
		for line := range bytes.Lines(wholeLines(block, lines*800)) {
			began := time.Now()
			_, err := in.Write(line)
			check(err)
			for n := 0; n == 0 || buf[n-1] != '\n'; {
				more, err := out.Read(buf[n:])
				check(err)
				n += more
			}
			took = append(took, float64(time.Since(began))/1e3)
		}
		end(cmd, in, out)
		return median(took)
	})
	fmt.Printf("a line through the pipe takes %.0f us longer than through tee (limit 15; tee takes %.0f us, jq %.0f us)\n",
		median(took[1])-median(took[0]), median(took[0]), median(took[2]))
}

// steady measures the CPU time of 1,000 lines a second, which is more than agents print.
func (b *bench) steady(block []byte, length time.Duration) {
	core := contest([][]string{{"tee", "/dev/null"}, {b.spantee}, {"jq", "-c", ".type"}}, func(args []string) float64 {
		cmd, in, out := start(args...)
		go io.Copy(io.Discard, out)
		began, n := time.Now(), 0
		for line := range bytes.Lines(block) {
			_, err := in.Write(line)
			check(err)
			n++
			if time.Sleep(time.Until(began.Add(time.Duration(n) * time.Millisecond))); time.Since(began) > length {
				break
			}
		}
		in.Close()
		check(cmd.Wait())
		return 100 * (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds() / time.Since(began).Seconds()
	})
	fmt.Printf("1,000 lines a second take %.1f %% of a core (limit tee + 1; tee takes %.1f %%, jq %.1f %%)\n", median(core[1]), median(core[0]), median(core[2]))
}

// startup measures a short session from start to exit.
func (b *bench) startup() {
	session, err := os.ReadFile("testdata/cursor/fix-failing-test.jsonl")
	check(err)
	*rounds *= 5
	took := contest([][]string{{"cat"}, {b.spantee}, {"jq", "-c", ".type"}}, func(args []string) float64 {
		began := time.Now()
		cmd, in, out := start(args...)
		_, err := in.Write(session)
		check(err)
		end(cmd, in, out)
		return time.Since(began).Seconds() * 1e3
	})
	*rounds /= 5
	fmt.Printf("a session of %d lines takes %.1f ms from start to exit, %.1f times cat (limit 9; cat %.1f ms, jq %.1f times)\n",
		bytes.Count(session, newline), median(took[1]), ratio(took[1], took[0]), median(took[0]), ratio(took[2], took[0]))
}

// mapping measures the CPU time to map and deliver a file, and checks that all spans
// arrive.
func (b *bench) mapping(name string, block []byte, size int, limit float64, args ...string) {
	file, err := os.CreateTemp("", "spantee-bench")
	check(err)
	defer os.Remove(file.Name())
	for left := size; left > 0; left -= len(block) {
		_, err := file.Write(wholeLines(block, left))
		check(err)
	}
	var spans int64
	cpu := contest([][]string{append([]string{b.spantee, "--flush-timeout=1m"}, args...)}, func(args []string) float64 {
		before := b.collector.received()
		_, err := file.Seek(0, io.SeekStart)
		check(err)
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stdin, cmd.Stderr = file, os.Stderr
		check(cmd.Run())
		n := b.collector.received() - before
		if spans != 0 && n != spans {
			log.Fatalf("bench: %d spans arrived, and another time %d", n, spans)
		}
		spans = n
		return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	})
	check(file.Close())
	fmt.Printf("%s, a file of %d MB%s: %.0f MB per CPU second mapped and delivered (limit %.0f), %d spans\n",
		name, size/mb, strings.Join(append([]string{""}, args...), " "), float64(size)/mb/median(cpu[0]), limit, spans)
}
