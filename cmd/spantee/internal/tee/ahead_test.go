package tee

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The first bytes wait for a consumer that is ahead, within a limit, and no others do.
func TestTheFirstBytesWaitForTheConsumer(t *testing.T) {
	const ahead, second = 250 * time.Millisecond, time.Hour
	consumeIn := func(work time.Duration) func(*Tee) {
		return func(tee *Tee) {
			buf := make([]byte, 100)
			for {
				if _, err := tee.Next(buf, time.Now().Add(time.Hour)); err != nil {
					return
				}
				time.Sleep(work)
			}
		}
	}
	for name, tt := range map[string]struct {
		consume func(*Tee)
		takes   time.Duration
	}{
		"done":  {consumeIn(50 * time.Millisecond), 50 * time.Millisecond},
		"rests": {consumeIn(gatherTime / 10), gatherTime / 10},
		"hangs": {func(tee *Tee) {
			_, _ = tee.Next(make([]byte, 100), time.Now().Add(time.Hour))
		}, ahead},
		"detached": {func(tee *Tee) {
			_, _ = tee.Next(make([]byte, 100), time.Now().Add(time.Hour))
			tee.Detach(errors.New("a bug"))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in, more := io.Pipe()
				out, written := io.Pipe()
				tee := New(in, written, Options{Ahead: ahead})
				go tt.consume(tee)
				copied := make(chan error)
				go func() { copied <- tee.Copy() }()
				var took []time.Duration
				for _, line := range []string{"one\n", "two\n"} {
					start := time.Now()
					go io.WriteString(more, line)
					got := make([]byte, len(line))
					if _, err := io.ReadFull(out, got); err != nil || string(got) != line {
						t.Fatalf("%q came out, %v", got, err)
					}
					took = append(took, time.Since(start))
					time.Sleep(second)
				}
				more.Close()
				if err := <-copied; err != nil {
					t.Error(err)
				}
				tee.End(true)
				if took[0] != tt.takes || took[1] != 0 {
					t.Errorf("the lines took %v, want %v and no time", took, tt.takes)
				}
			})
		})
	}
}

// A consumer that is ahead sees the first bytes once.
func TestAheadIsExact(t *testing.T) {
	seen := new(recorder)
	var out strings.Builder
	tee := seen.follow(strings.NewReader("one\ntwo\n"), &out, Options{Ahead: time.Hour})
	if err := tee.Copy(); err != nil {
		t.Fatal(err)
	}
	tee.End(true)
	<-seen.done
	if out.String() != "one\ntwo\n" {
		t.Errorf("%q came out", out.String())
	}
	seen.want(t, []byte(out.String()))
}
