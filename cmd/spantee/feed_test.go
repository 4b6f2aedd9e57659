package main

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// A consumer that is behind rests while the stream pours in, and works while it
// only flows.
func TestTapRests(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan struct{}) // closed once the consumer is behind
		seen := &recorder{each: func(offset int) {
			if offset == 0 {
				<-begun
			}
		}}
		tap := newTap(seen, true, dir, 1<<30)
		tap.cpu = func() time.Duration { return 0 }
		r, w := io.Pipe()
		copied := make(chan error)
		go func() { copied <- newPassthrough(r, io.Discard, tap).run() }()
		in := bytes.Repeat(lines(pourSize), 25)
		sent := 0
		send := func(size int) (waiting int) {
			w.Write(in[sent : sent+size])
			if sent == 0 {
				close(begun)
			}
			sent += size
			time.Sleep(pourLook)
			synctest.Wait()
			return sent - seen.seen.Len()
		}
		for range 10 {
			if waiting := send(2 * pourSize); waiting < sent-ringSize {
				t.Errorf("%d bytes of %d were consumed", sent-waiting, sent)
			}
		}
		for range 3 {
			send(1000)
		}
		if waiting := send(1000); waiting > 0 {
			t.Errorf("%d bytes wait although the stream only flows", waiting)
		}
		send(2 * pourSize)
		w.Close()
		<-copied
		tap.close(true)
		<-tap.done
		seen.want(t, in[:sent])
	})
}
