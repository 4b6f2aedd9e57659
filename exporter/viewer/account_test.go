package viewer

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/mapping"
)

// accounts prints what the page says of the time of each trace.
const accounts = `
import { percentages, timeSpent } from "./web/breakdown.js";
import { Trace } from "./web/trace.js";
let text = "";
for await (const chunk of process.stdin) text += chunk;
console.log(JSON.stringify(JSON.parse(text).map((bars) => {
  const t = new Trace("t");
  t.merge({ session: { folder: "" }, seq: 1, spans: bars, open: [] });
  const spent = timeSpent(t);
  return { total: spent.total, percent: percentages(spent).reduce((sum, p) => sum + p, 0), parts: spent.parts.map((p) => ({ key: p.key, us: p.us, estimated: p.estimated })) };
})));
`

// The page and the terminal account for the time of each recording alike.
func TestPageAndTerminalAccountAlike(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs node")
	}
	files, err := filepath.Glob("../../testdata/*/*.jsonl")
	if err != nil || len(files) < 100 {
		t.Fatalf("%v, %d files", err, len(files))
	}
	var names []string
	var bars [][]Bar
	var want []runs.Account
	for _, file := range files {
		in, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := mapping.New(mapping.Options{Source: mapping.Recording, Written: time.Date(2026, 10, 2, 12, 0, 0, 0, time.UTC)})
		if err != nil {
			t.Fatal(err)
		}
		lines, drawn := map[string]*runs.Timeline{}, map[string][]Bar{}
		for out, err := range m.Read(in) {
			if err != nil || out.Span == nil {
				continue
			}
			sp := stored{wire: bytes.Clone(out.Span), n: 1}
			span := sp.read()
			id := string(span.TraceID)
			if lines[id] == nil {
				lines[id] = new(runs.Timeline)
			}
			lines[id].Add(span)
			bar, _ := newBar(sp)
			drawn[id] = append(drawn[id], bar)
		}
		in.Close()
		for id, line := range lines {
			if account := line.Account(); account.Total > 0 {
				names, bars, want = append(names, file), append(bars, drawn[id]), append(want, account)
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), node, "--input-type=module", "-e", accounts)
	b, err := json.Marshal(bars)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = bytes.NewReader(b)
	b, err = cmd.Output()
	var got []struct {
		Total   float64
		Percent int
		Parts   []struct {
			Key       string
			Us        float64
			Estimated bool
		}
	}
	if err == nil {
		err = json.Unmarshal(b, &got)
	}
	if err != nil || len(got) != len(want) || len(got) < 200 {
		t.Fatalf("%v, %d of %d", err, len(got), len(want))
	}
	keys := map[runs.Activity]string{runs.InWaiting: "wait", runs.InOutput: "model", runs.InHook: "hook", runs.InApproval: "approval", runs.InAgent: "own"}
	const rounded = 20 // microseconds
	for i, account := range want {
		page := map[string]float64{}
		estimated := map[string]bool{}
		for _, p := range got[i].Parts {
			page[p.Key], estimated[p.Key] = p.Us, p.Estimated
		}
		if got[i].Percent != 100 {
			t.Errorf("%s: %d %%", names[i], got[i].Percent)
		}
		for _, p := range account.Parts {
			key := keys[p.Activity]
			if p.Activity == runs.InTool {
				key = "tool " + p.Tool
			}
			us := float64(p.Time) / 1000
			if diff := page[key] - us; diff < -rounded || diff > rounded || us > rounded && estimated[key] != p.Estimated {
				t.Errorf("%s: %s is %.0f us, estimated %v; the page says %.0f us, %v", names[i], key, us, p.Estimated, page[key], estimated[key])
			}
			delete(page, key)
		}
		for key, us := range page {
			if us > rounded {
				t.Errorf("%s: only the page has %.0f us of %s", names[i], us, key)
			}
		}
	}
}
