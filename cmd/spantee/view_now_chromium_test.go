package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// What the agent does this second is on the page, from the first line on.
func TestChromiumNow(t *testing.T) {
	c := startChromium(t)
	stdin, lines, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	defer lines.Close()
	v := startView(t, stdin, "--view", "--content", "full")
	c.open(v.page + "/")
	c.await(`document.querySelector(".empty h2").innerText === "No sessions yet"`)

	recorded := bytes.SplitAfter(fixture(t, "fix-failing-test.jsonl"), []byte("\n"))
	written := 0
	write := func(until string) {
		t.Helper()
		for done := false; !done; written++ {
			done = strings.Contains(string(recorded[written]), until)
			if _, err := lines.Write(recorded[written]); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(`"init"`)
	c.await(`document.querySelector(".sessions .outcome.running")`)
	c.screenshot("list")
	c.press(".sessions tbody a")
	c.await(`%s >= 1 && %s.trace.live`, rowCount, waterfall)
	write(`"shellToolCall"`)
	c.await(`document.querySelector(".head .outcome.running").textContent.startsWith("running shell")`)
	c.await(`document.querySelector(".entry.tool.open .command").innerText === "$ go test ./..."`)
	before := eval[float64](c, `%s.trace.duration`, waterfall)
	c.await(`%s.trace.duration > %f + 3e6`, waterfall, before) // it ticks, however long nothing comes
	c.await(`/^running shell go test \.\/\.\.\. for [3-9]s/.test(document.querySelector(".head .outcome.running").textContent)`)
	c.screenshot("running")
	for ; written < len(recorded); written++ {
		if _, err := lines.Write(recorded[written]); err != nil {
			t.Fatal(err)
		}
	}
	lines.Close()
	c.await(`document.querySelector(".head .outcome").textContent === "ended, 1 error" && %s.trace.nodes.length === 11 && !%s.trace.live`, waterfall, waterfall)
	c.await(`document.querySelectorAll(".entry").length === 11 && !document.querySelector(".entry.open")`)
	c.screenshot("ended")
}

// The run of another process, over both protocols, is there from its first line, and gone after
// the process was killed.
func TestChromiumKilled(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol[:4], func(t *testing.T) {
			c := startChromium(t)
			v := viewFiles(t)
			endpoint := v.grpc
			if protocol != "grpc" {
				endpoint = v.http
			}
			c.open(v.page + "/")
			c.await(`document.querySelector(".empty h2")`)
			stdin, lines, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			defer lines.Close()
			filter := spantee(t, nil, "--endpoint", endpoint, "--protocol", protocol)
			filter.Stdin, filter.Env = stdin, v.cmd.Env
			if err := filter.Start(); err != nil {
				t.Fatal(err)
			}
			first, _, _ := bytes.Cut(fixture(t, "fix-failing-test.jsonl"), []byte("\n"))
			if _, err := lines.Write(append(first, '\n')); err != nil {
				t.Fatal(err)
			}
			written := time.Now()
			c.await(`document.querySelector(".outcome.running").textContent.startsWith("waiting for the model")`)
			t.Logf("pace: in the list %v after its first line", time.Since(written).Round(10*time.Millisecond))
			c.await(`/^waiting for the model for [6-9]s, silent for [6-9]s/.test(document.querySelector(".outcome.running").textContent)`)
			if err := filter.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = filter.Wait() // it was killed
			killed := time.Now()
			c.await(`document.querySelector(".outcome.gone")`)
			t.Logf("pace: gone %v after it was killed", time.Since(killed).Round(10*time.Millisecond))
			c.screenshot("gone")
			c.press(".sessions tbody a")
			c.await(`%s === 2 && document.querySelector(".head .outcome.gone") && !%s.trace.live`, rowCount, waterfall)
		})
	}
}

// A page that was open when the viewer was restarted shows what is there now.
func TestChromiumRestart(t *testing.T) {
	c := startChromium(t)
	state := t.TempDir()
	ports := freeAddresses(t, 3)
	run := func() viewerRun {
		t.Helper()
		return startViewIn(t, state, "view", "--listen", ports[0], "--otlp-grpc", ports[1], "--otlp-http", ports[2])
	}
	v := run()
	send := func(name string) {
		t.Helper()
		m := newMade(name)
		m.span(nil, "invoke_agent "+name, 0, 1000)
		if err := upload(v.grpc, m.request()); err != nil {
			t.Fatal(err)
		}
	}
	send("before")
	c.open("http://" + ports[0] + "/")
	c.await(`document.querySelector("#live").innerText === "live" && document.body.innerText.includes("before")`) // it knows which viewer that is
	v.kill(t)
	c.await(`document.querySelector("#live.down")`)
	c.reloaded(func() { v = run() })
	c.await(` document.querySelectorAll(".sessions tbody tr").length === 1`) // it was kept
	send("after")
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 2 && document.body.innerText.includes("after")`)
}

// 200 sessions at 1,000 spans a second, with the list open.
func TestChromiumBusyList(t *testing.T) {
	c := startChromium(t)
	v := viewFiles(t)
	c.open(v.page + "/")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	sent := 0
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		made := make([]*made, 200)
		for i := range made {
			made[i] = newMade(fmt.Sprint("busy ", i))
			made[i].span(nil, "invoke_agent cursor-agent", 0, 1000)
		}
		for {
			request := newMade("")
			for i := range 100 {
				m := made[(sent+i)%len(made)]
				request.spans = append(request.spans, m.span(m.spans[0], "execute_tool shell", float64(sent), float64(sent+50)))
			}
			if err := upload(v.grpc, request.request()); err != nil {
				done <- err
				return
			}
			sent += 100
			select {
			case <-tick.C:
			case <-ctx.Done():
				done <- nil
				return
			}
		}
	}()
	c.await(`document.querySelectorAll(".sessions tbody tr").length === 200`)
	frames := eval[map[string]float64](c, `new Promise((resolve) => {
		const began = performance.now();
		let n = 0, last = began, worst = 0;
		const frame = (now) => {
			worst = Math.max(worst, now - last);
			last = now;
			n++;
			if (now - began < 5000) requestAnimationFrame(frame);
			else resolve({ second: n / (now - began) * 1000, worst });
		};
		requestAnimationFrame(frame);
	})`)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Logf("pace: 200 sessions and %d spans, with the list open: %.0f frames a second, the longest of %.0f ms", sent, frames["second"], frames["worst"])
}

// 50,000 spans.
func TestChromiumHuge(t *testing.T) {
	c := startChromium(t)
	v := viewFiles(t, bigSession(50_000).file(t))
	c.open(v.page + "/#/trace/" + v.id)
	c.await(`performance.getEntriesByName("waterfall").length > 0`)
	t.Logf("pace: a session of 50,000 spans is drawn after %.0f ms", eval[float64](c, `performance.getEntriesByName("waterfall")[0].startTime`))
	c.await(`%s.trace.nodes.length === 50000`, waterfall)
	t.Logf("pace: and is whole after %.0f ms", eval[float64](c, `performance.now()`))
	for _, motion := range []struct{ name, step string }{
		{"scrolling", "w.scroller.scrollTop = 1000000 * (1 - Math.cos(turn)) / 2"},
		{"zooming", "w.timeline.set(0, w.timeline.total * Math.exp(-6 * (1 - Math.cos(turn))))"},
	} {
		frames := c.frames(motion.step)
		t.Logf("pace: 50,000 spans, %s: %.0f frames a second, the longest of %.0f ms", motion.name, frames["second"], frames["worst"])
	}
	// Wherever one zooms, spans are in sight.
	eval[bool](c, `(() => { const w = %s; w.timeline.set(w.timeline.total * 0.7, w.timeline.total * 0.7001); return true; })()`, waterfall)
	c.await(`%s > 1 && %s < 200 && %s.rows.some((n) => n !== %s.trace.root)`, rowCount, rowCount, waterfall, waterfall)
	c.screenshot("zoomed")
}
