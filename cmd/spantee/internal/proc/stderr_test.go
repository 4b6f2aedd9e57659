//go:build unix

package proc

import (
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A stderr that accepts nothing is waited for until the deadline, and not for its
// patience once more.
func TestOneDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		s := NewStderr(w, time.Hour)
		_, _ = io.WriteString(s, "message\n")
		began := time.Now()
		s.EndBy(began.Add(time.Second))
		time.Sleep(900 * time.Millisecond) // what else has to end
		if s.Flush() {
			t.Error("stderr was read")
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
		r.Close()
		r, w = io.Pipe()
		late := NewStderr(w, time.Hour)
		late.EndBy(began)
		began = time.Now()
		_, _ = io.WriteString(late, "message\n")
		if late.Flush() || time.Since(began) != MinPatience {
			t.Errorf("after the deadline, it took %v", time.Since(began))
		}
		r.Close()
	})
}

// A status that nobody reads is not waited for, and not piled up.
func TestStatusIsUnread(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	v := NewStderr(w, time.Millisecond)
	for range 10_000 {
		v.Status("cursor-agent 1s · thinking for 1s")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.buffer) > 100 {
		t.Errorf("%d bytes wait", len(v.buffer))
	}
}

// What is offered never waits, and takes no room from messages.
func TestOfferNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		defer r.Close()
		s := NewStderr(w, time.Hour)
		line := []byte("a line of the log\n")
		began, accepted := time.Now(), 0
		for s.Offer(line) {
			accepted++
		}
		if n, err := s.Write(line); n != len(line) || err != nil || time.Since(began) > 0 {
			t.Errorf("a message after %d lines: %v, %v", accepted, err, time.Since(began))
		}
		if s.Offer(line) || len(line)*accepted < maxOffered-len(line) {
			t.Errorf("%d lines were accepted", accepted)
		}
		go io.Copy(io.Discard, r)
		if !s.Flush() || !s.Offer(line) || !s.Flush() {
			t.Error("nothing is accepted once there is room")
		}
	})
}

// A message erases the status, and so does the end.
func TestStatusIsErased(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	v := NewStderr(w, 2*time.Second)
	v.Status("one")
	v.Flush()
	_, _ = io.WriteString(v, "message\n")
	_, _ = io.WriteString(v, "another\n")
	v.Flush()
	v.Status("two")
	v.Flush()
	v.Status("")
	v.Status("")
	v.Flush()
	v.Status("three")
	v.Flush()
	v.ForgetStatus()
	_, _ = io.WriteString(v, "last\n")
	v.Flush()
	w.Close()
	got, err := io.ReadAll(r)
	const e = "\r\x1b[2K"
	if want := e + "one\r" + e + "message\nanother\n" + e + "two\r" + e + e + "three\r" + "last\n"; err != nil || string(got) != want {
		t.Errorf("%v, got %q, want %q", err, got, want)
	}
}
