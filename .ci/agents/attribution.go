package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// An attribution says how much of a run's time the trace gives to the wrong kind of work.
//
// At each moment a run is in one of three kinds: tool, if a command runs; else model, if the
// model is asked; else the agent's own. The truth is the command's own clock, and the
// server's: from a request to the last byte of its answer and, where that failed and was asked
// again, on to the next request, because the wait is the call's. The trace has execute_tool
// spans without children of their own, chat spans, calls that wait for a sub-agent, and the rest.
type attribution struct {
	Run      float64            // from the first request to the agent's end
	Wrong    float64            // of which the kinds differ
	Unmarked float64            // of which no span is said to be estimated
	Startup  float64            // before the first request, drawn as the model's or a tool's
	Edge     float64            // the largest difference of an edge of a command or a call
	Kinds    map[string]float64 // "model as tool": of Wrong
	Pieces   []piece            // of Wrong, longer than longPiece
	Skipped  string             // why there is none
}

// A piece is a stretch of a run in which the trace is wrong.
type piece struct {
	From, To    float64
	True, Drawn string
	Marked      bool
	Cause       string
}

// longPiece is the length of a stretch that is put down to a line.
const longPiece = 0.2

type interval struct{ from, to float64 }

func during(list []interval, t float64) bool {
	return slices.ContainsFunc(list, func(i interval) bool { return i.from <= t && t < i.to })
}

// modelTimes returns when the model was asked.
func modelTimes(requests []*request) (times []interval) {
	own := ownOf(requests)
	slices.SortFunc(own, func(a, b *request) int { return cmp.Compare(a.Received, b.Received) })
	for i, r := range own {
		end := r.over()
		if r.failed() {
			for _, next := range own[i+1:] {
				if next.Of == r.Of {
					end = max(end, next.Received)
					break
				}
			}
		}
		times = append(times, interval{r.Received, end})
	}
	return times
}

// ownOf returns those requests that are a turn of the agent or of its sub-agents.
func ownOf(requests []*request) []*request {
	return slices.DeleteFunc(slices.Clone(requests), func(r *request) bool { return r.Of == auxiliary })
}

// over returns when a request was over: answered, or broken off.
func (r *request) over() float64 { return max(r.End, r.Last, r.Received) }

func (r *request) failed() bool { return r.Status != 200 || r.Dropped }

// attribute measures a trace against the truth.
func attribute(info *runInfo, requests []*request, commands []timed, spans []*span) *attribution {
	model := modelTimes(requests)
	if len(model) == 0 {
		return &attribution{Skipped: "the model was not asked"}
	}
	var tool []interval
	for _, c := range commands {
		if strings.HasPrefix(c.Name, "hook-") {
			continue // the agent's own time
		}
		end := c.End
		if end == 0 {
			end = info.End // it ended with the agent
		}
		tool = append(tool, interval{c.Begin, min(end, info.End)})
	}
	var chats, calls, waits, marked []interval
	for _, s := range spans {
		i := interval{s.Start, s.End}
		switch {
		case s.is("chat"):
			chats = append(chats, i)
		case strings.HasPrefix(s.Name, "execute_tool wait"):
			waits = append(waits, i)
		case (s.is("execute_tool") || s.is("background")) && len(s.Children) == 0:
			calls = append(calls, i)
		default:
			continue
		}
		if s.estimated() {
			marked = append(marked, i)
		}
	}
	first, end := model[0].from, info.End
	a := &attribution{Run: end - first, Kinds: map[string]float64{}}
	low := info.Start
	for _, i := range slices.Concat(chats, calls, waits) {
		low = min(low, i.from)
	}
	cuts := map[float64]bool{low: true, first: true, end: true}
	for _, i := range slices.Concat(model, tool, chats, calls, waits, marked) {
		cuts[i.from], cuts[i.to] = true, true
	}
	at := slices.DeleteFunc(slices.Sorted(maps.Keys(cuts)), func(t float64) bool { return t < low || t > end })
	for i := 0; i+1 < len(at); i++ {
		from, to := at[i], at[i+1]
		t := (from + to) / 2
		truth, drawn := kindAt(tool, model, t), kindAt(calls, chats, t)
		if drawn == "own" && during(waits, t) {
			drawn = "tool"
		}
		if t < first {
			if drawn != "own" {
				a.Startup += to - from
			}
			continue
		}
		if truth == drawn {
			continue
		}
		a.Wrong += to - from
		mark := during(marked, t)
		if !mark {
			a.Unmarked += to - from
		}
		a.Kinds[truth+" as "+drawn] += to - from
		if last := len(a.Pieces) - 1; last >= 0 && a.Pieces[last].To == from && a.Pieces[last].True == truth && a.Pieces[last].Drawn == drawn {
			a.Pieces[last].To = to
			a.Pieces[last].Marked = a.Pieces[last].Marked && mark
		} else {
			a.Pieces = append(a.Pieces, piece{From: from, To: to, True: truth, Drawn: drawn, Marked: mark})
		}
	}
	a.Pieces = slices.DeleteFunc(a.Pieces, func(p piece) bool { return p.To-p.From <= longPiece })
	a.Edge = largestEdge(info, commands, spans)
	return a
}

func kindAt(tool, model []interval, t float64) string {
	switch {
	case during(tool, t):
		return "tool"
	case during(model, t):
		return "model"
	}
	return "own"
}

// largestEdge compares each command with its call.
func largestEdge(info *runInfo, commands []timed, spans []*span) (edge float64) {
	for _, c := range commands {
		for _, s := range spans {
			if !s.is("execute_tool") || s.command() != c.Name {
				continue
			}
			edge = max(edge, math.Abs(s.Start-c.Begin))
			if c.End != 0 && c.End < info.End {
				edge = max(edge, math.Abs(s.End-c.End))
			}
		}
	}
	return edge
}

func (a *attribution) String() string {
	if a.Skipped != "" {
		return "not measured: " + a.Skipped
	}
	text := fmt.Sprintf("%.1f s, misattributed %.2f s = %.1f %% (unmarked %.1f %%), start-up drawn %.2f s, edge %.2f s", a.Run, a.Wrong, 100*a.Wrong/a.Run, 100*a.Unmarked/a.Run, a.Startup, a.Edge)
	for _, kind := range slices.SortedFunc(maps.Keys(a.Kinds), func(x, y string) int { return cmp.Compare(a.Kinds[y], a.Kinds[x]) }) {
		text += fmt.Sprintf(", %s %.2f", kind, a.Kinds[kind])
	}
	return text
}
