package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// runHeader says which run a request is of.
const runHeader = "x-run"

// A busy stands before a collector. It answers every fourth request of a run with
// 503 and Retry-After, by turns in seconds and as a date, and keeps watch that
// nothing more of that kind comes from the run before.
type busy struct {
	url  string
	next http.Handler

	mu       sync.Mutex
	requests map[string]int       // by run and path
	notUntil map[string]time.Time // the same
	told     map[string]time.Time // when that was said
	refused  int
	early    []error
}

// underway is how long a request may take to arrive that was sent before an answer
// to another was there: what is new and what was spooled are sent side by side.
const underway = 100 * time.Millisecond

func startBusy(collector string) (*busy, error) {
	to, err := url.Parse(collector)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &busy{
		url: "http://" + l.Addr().String(), next: httputil.NewSingleHostReverseProxy(to),
		requests: map[string]int{}, notUntil: map[string]time.Time{}, told: map[string]time.Time{},
	}
	go func() { _ = http.Serve(l, b) }() //nolint:gosec // until this program ends
	return b, nil
}

func (b *busy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/traces" && r.URL.Path != "/v1/metrics" {
		http.NotFound(w, r) // it is no viewer
		return
	}
	if after := b.refuse(r.Header.Get(runHeader)+" "+r.URL.Path, time.Now()); after != "" {
		w.Header().Set("Retry-After", after)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	b.next.ServeHTTP(w, r)
}

// refuse returns a Retry-After, empty if the request may pass.
func (b *busy) refuse(key string, now time.Time) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	early, since := b.notUntil[key].Sub(now), now.Sub(b.told[key])
	if early > 0 && since > underway {
		b.early = append(b.early, fmt.Errorf("run %s: a request came %v early, %v after that was said", key, early, since))
	}
	b.requests[key]++
	if b.requests[key]%4 != 2 {
		return ""
	}
	b.refused++
	b.told[key] = now
	if b.refused%2 == 0 {
		b.notUntil[key] = now.Add(time.Second)
		return "1"
	}
	date := now.Add(2 * time.Second).Truncate(time.Second)
	b.notUntil[key] = date
	return date.UTC().Format(http.TimeFormat)
}

func (b *busy) counts() (requests, refused int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.requests {
		requests += n
	}
	return requests, b.refused
}

func (b *busy) violations() []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.early
}
