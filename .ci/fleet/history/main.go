// History compares the alerts and panels of testdata/recipes/fleet with what a person must be
// told and the truth, over 140 days of jobs that run every few minutes to every two weeks. It
// writes the samples that a gateway would have sent, which restarts under its own name and
// forgets what has not run for a day, and asks a real Prometheus three times an hour.
//
//	history -fleet testdata/recipes/fleet -work DIR -port PORT
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

const (
	days  = 140
	drawn = 40 // days of panels
	day   = 24 * time.Hour
	step  = 20 * time.Minute // a job that runs every six minutes has run in the five before each
)

// A run is one run of a job.
type run struct {
	at     time.Time // when its sample is stored
	failed bool
}

// A job is a service and its runs.
type job struct {
	name string
	runs []run
}

// jobs returns the services, and what became of each of their runs.
func jobs(start, end time.Time) []job {
	const night = 3 * time.Hour
	never := func(int) bool { return false }
	always := func(int) bool { return true }
	between := func(from, to int) func(n int) bool { return func(n int) bool { return from <= n && n < to } }
	// every returns a job that runs at an interval in [from, to), in days, and whose nth run fails
	// if it says so.
	every := func(name string, interval time.Duration, from, to float64, failed func(n int) bool) job {
		j := job{name: name}
		for at := start.Add(time.Duration(from * float64(day))); at.Before(end) && at.Before(start.Add(time.Duration(to*float64(day)))); at = at.Add(interval) {
			j.runs = append(j.runs, run{at.Add(7 * time.Second), failed(len(j.runs))})
		}
		return j
	}
	nightly := func(name string, from, to float64, failed func(n int) bool) job {
		return every(name, day, from+night.Hours()/24, to, failed)
	}
	// without removes the runs that began on some days.
	without := func(j job, skip func(at time.Time) bool) job {
		j.runs = slices.DeleteFunc(j.runs, func(r run) bool { return skip(r.at) })
		return j
	}
	paused := func(from, to float64) func(time.Time) bool {
		return func(at time.Time) bool { d := at.Sub(start).Hours() / 24; return from <= d && d < to }
	}
	weekend := func(at time.Time) bool { return at.Weekday() == time.Saturday || at.Weekday() == time.Sunday }
	const week, fortnight, first = 7 * day, 14 * day, 0.125
	return []job{
		every("busy", 6*time.Minute, 0, days, func(n int) bool { return between(17*240, 18*240)(n) && n%5 != 0 || n%40 == 0 }),
		every("hourly", time.Hour, 0.01, days, func(n int) bool { return between(9*24, 10*24)(n) || n%7 == 3 }),
		every("hourly-flaky", time.Hour, 0.02, days, func(n int) bool { return n%3 == 0 }),
		every("hourly-ended", time.Hour, 0.03, 60, never),
		nightly("nightly", 0, days, func(n int) bool { return n%10 == 4 }),
		nightly("nightly-fails", 0, days, always),
		nightly("nightly-fails-at-first", 0, days, between(0, 3)),
		nightly("nightly-fails-twice", 0, days, between(20, 22)),
		nightly("nightly-fails-at-last", 0, 104, between(100, 104)),
		nightly("nightly-every-second", 0, days, func(n int) bool { return n%2 == 1 }),
		nightly("nightly-three-of-four", 0, days, func(n int) bool { return n%4 != 3 }),
		without(nightly("nightly-paused", 0, days, between(15, 16)), paused(15, 23)),
		nightly("nightly-ended", 0, 30, never),
		nightly("nightly-young", 130, days, never),
		without(nightly("weekdays", 0, days, never), weekend),
		every("every-second-day", 2*day, first, days, never),
		every("weekly", week, first, days, never),
		every("weekly-fails", week, first, days, func(n int) bool { return n >= 2 }),
		every("weekly-every-second", week, first, days, func(n int) bool { return n%2 == 1 }),
		every("weekly-ended", week, first, 71, never),
		every("fortnightly", fortnight, first, days, never),
		every("fortnightly-fails", fortnight, first, days, always),
		every("fortnightly-fails-later", fortnight, first, days, func(n int) bool { return n >= 2 }),
		every("fortnightly-every-second", fortnight, first, days, func(n int) bool { return n%2 == 1 }),
		every("fortnightly-ended", fortnight, first, 29, never),
		every("fortnightly-ended-late", fortnight, first, 99, never),
		without(every("fortnightly-paused", fortnight, first, days, never), paused(42, 43)),
		every("by-hand-four-times", time.Hour, 50.4, 50.55, func(n int) bool { return n%2 == 1 }),
		every("by-hand-on-two-days", day, 5.4, 7, never),
		every("by-hand-on-three-days", day, 5.4, 8, never),
		every("by-hand-once", day, 20.4, 21, always),
	}
}

// A telling is what a person must be told of a job, in days since the start.
type telling struct {
	from float64 // the job is well before it
	by   float64 // when the alert must be active at the latest
	till float64 // the alert is over by then, and the job is well again, or gone
	kept bool    // from by on, the alert is active without a break until till
}

// tellings say when a person must be told, and of which jobs nothing is told. They are what a
// person expects of a job, and know nothing of the rules.
var tellings = map[string]map[string][]telling{
	"AgentErrors": {
		"busy":                     {{17, 17.1, 18.2, false}},
		"hourly":                   {{9, 9.5, 11, false}},
		"hourly-flaky":             {{0, 1, days, true}},
		"nightly-fails":            {{0, 4.2, days, true}},
		"nightly-fails-at-first":   {{0, 4.2, 6, false}},
		"nightly-fails-twice":      {{20, 22, 25, false}},
		"nightly-fails-at-last":    {{100, 102, 110, false}},
		"nightly-every-second":     {{0, 4.2, days, true}},
		"nightly-three-of-four":    {{0, 4.2, days, true}},
		"weekly-fails":             {{14, 22, days, true}},
		"weekly-every-second":      {{0, 22, days, true}},
		"fortnightly-fails":        {{0, 43, days, true}},
		"fortnightly-fails-later":  {{28, 43, days, true}},
		"fortnightly-every-second": {{0, 43, days, true}},
		"by-hand-four-times":       {{50, 51, 53, false}},
	},
	"AgentErrorBudgetBurn": {"busy": {{17, 17.1, 18.1, false}}},
	"AgentKeepsFailing": {
		"hourly":                  {{9, 9.2, 10.1, false}},
		"nightly-fails":           {{0, 2, days, true}},
		"nightly-fails-at-first":  {{0, 2, 3.2, false}},
		"nightly-fails-twice":     {{20, 22, 22.2, false}},
		"nightly-fails-at-last":   {{100, 102, 112, false}},
		"nightly-three-of-four":   {{0, 2, days, false}},
		"weekly-fails":            {{14, 23, days, true}},
		"fortnightly-fails":       {{0, 15, days, true}},
		"fortnightly-fails-later": {{28, 44, days, true}},
	},
	"AgentsSilent": {
		"hourly-ended":           {{60, 61.5, 90, false}},
		"nightly-paused":         {{15, 18, 24, false}},
		"nightly-ended":          {{30, 31, 60, false}},
		"nightly-fails-at-last":  {{104, 105, 135, false}},
		"weekly-ended":           {{71, 79, 100, false}},
		"fortnightly-ended":      {{29, 43, 60, false}},
		"fortnightly-ended-late": {{99, 113, 130, false}},
		"fortnightly-paused":     {{42, 43, 56.2, false}},
	},
}

// restarts are when the gateway began anew, under its own name.
func restarts(start time.Time) (at []time.Time) {
	for _, hours := range []float64{31.5, 131.02, 404.1, 405.2, 700.7, 820, 1500.3, 2200.9, 3001.4} {
		at = append(at, start.Add(time.Duration(hours*float64(time.Hour))))
	}
	return at
}

// A series is a total as a gateway holds it.
type series struct {
	since, last time.Time
	total       int
}

// write writes the samples of all jobs in the format of OpenMetrics.
func write(file string, all []job, restarts []time.Time) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	const forgotten = day // max_stale
	for _, metric := range []string{"spantee_run_count_total", "gen_ai_client_inference_usage_input_tokens_total"} {
		fmt.Fprintf(w, "# TYPE %s counter\n", strings.TrimSuffix(metric, "_total"))
		for _, j := range all {
			held := map[string]*series{}
			for _, r := range j.runs {
				labels, added := `spantee_outcome="`+map[bool]string{false: "success", true: "error"}[r.failed]+`"`, 1
				if metric != "spantee_run_count_total" {
					labels, added = `gen_ai_request_model="m"`, tokens
				}
				s := held[labels]
				restarted := s != nil && slices.ContainsFunc(restarts, func(at time.Time) bool { return s.last.Before(at) && at.Before(r.at) })
				if s == nil || restarted || r.at.Sub(s.last) > forgotten {
					s = &series{since: r.at}
					held[labels] = s
				}
				s.total, s.last = s.total+added, r.at
				fmt.Fprintf(w, "%s{service_name=%q,gen_ai_agent_name=\"a\",gateway=\"gateway-0\",since=%q,%s} %d %d\n",
					metric, j.name, s.since.Format(time.RFC3339), labels, s.total, r.at.Unix())
			}
		}
	}
	fmt.Fprintln(w, "# EOF")
	return w.Flush()
}

const tokens = 1000 // of a run

// count returns how many runs of a job ended in a window that ends at an instant.
func (j *job) count(at time.Time, window time.Duration, of func(run) bool) (n int) {
	from := sort.Search(len(j.runs), func(i int) bool { return j.runs[i].at.After(at.Add(-window)) })
	for _, r := range j.runs[from:] {
		if r.at.After(at) {
			break
		}
		if of(r) {
			n++
		}
	}
	return n
}

func succeeded(r run) bool { return !r.failed }
func anyRun(run) bool      { return true }

// A prometheus answers queries.
type prometheus struct{ url string }

func (p prometheus) get(path string, values url.Values, data any) error {
	resp, err := http.Get(p.url + path + "?" + values.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", values.Get("query"), answer.Error)
	}
	return nil
}

// points returns the values of a query at each step, by service.
func (p prometheus) points(query string, start, end time.Time, step time.Duration) (map[string]map[int64]float64, error) {
	var data struct {
		Result []struct {
			Metric map[string]string
			Values [][2]any
		}
	}
	err := p.get("/api/v1/query_range", url.Values{
		"query": {query}, "start": {strconv.FormatInt(start.Unix(), 10)}, "end": {strconv.FormatInt(end.Unix(), 10)},
		"step": {strconv.Itoa(int(step.Seconds()))}, "timeout": {"30m"},
	}, &data)
	all := map[string]map[int64]float64{}
	for _, r := range data.Result {
		service := r.Metric["service_name"]
		if all[service] == nil {
			all[service] = map[int64]float64{}
		}
		for _, v := range r.Values {
			n, err := strconv.ParseFloat(v[1].(string), 64)
			if err != nil {
				return nil, err
			}
			all[service][int64(v[0].(float64))] += n
		}
	}
	return all, err
}

// rules returns the expressions of all rules by name. Those of recording rules are put in the
// place of their names, because nothing was recorded.
func (p prometheus) rules() (map[string]string, error) {
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Query string }
		}
	}
	if err := p.get("/api/v1/rules", nil, &data); err != nil {
		return nil, err
	}
	all := map[string]string{}
	recorded := regexp.MustCompile(`agent:\w+:\w+`)
	for _, g := range data.Groups {
		for _, r := range g.Rules { // a rule uses only those above it
			all[r.Name] = recorded.ReplaceAllStringFunc(r.Query, func(name string) string { return "(" + all[name] + ")" })
		}
	}
	return all, nil
}

func main() {
	log.SetFlags(0)
	fleet := flag.String("fleet", "testdata/recipes/fleet", "the folder of the recipes")
	work := flag.String("work", "", "a folder for Prometheus' data")
	port := flag.String("port", "", "where Prometheus listens")
	flag.Parse()
	if err := check(*fleet, *work, *port); err != nil {
		log.Fatal(err)
	}
}

// keepsEnough returns an error unless the recipe's Prometheus keeps as many days as a rule looks
// back, and the longest range more.
func keepsEnough(fleet string) error {
	rules, err := os.ReadFile(filepath.Join(fleet, "alerts.yml"))
	if err != nil {
		return err
	}
	compose, err := os.ReadFile(filepath.Join(fleet, "../../../docker-compose.yml"))
	if err != nil {
		return err
	}
	hours := func(n, unit string) int {
		count, _ := strconv.Atoi(n)
		return count * map[string]int{"d": 24, "h": 1}[unit] // minutes do not matter
	}
	longest, back := 0, 0
	for _, m := range regexp.MustCompile(`\[(\d+)([mhd])(?::1d)?\](?: offset (\d+)([mhd]))?`).FindAllStringSubmatch(string(rules), -1) {
		longest, back = max(longest, hours(m[1], m[2])), max(back, hours(m[1], m[2])+hours(m[3], m[4]))
	}
	kept := regexp.MustCompile(`retention\.time=(\d+)(d)`).FindStringSubmatch(string(compose))
	if kept == nil || longest == 0 || hours(kept[1], kept[2]) < back+longest {
		return fmt.Errorf("Prometheus keeps %q, want %d days: the rules look %d back", kept, (back+longest)/24, back/24)
	}
	return nil
}

func check(fleet, work, port string) error {
	if err := keepsEnough(fleet); err != nil {
		return err
	}
	end := time.Now().Truncate(day)
	start := end.Add(-days * day)
	all := jobs(start, end)
	metrics, data := filepath.Join(work, "metrics.txt"), filepath.Join(work, "tsdb")
	if err := write(metrics, all, restarts(start)); err != nil {
		return err
	}
	// Of each block, promtool reads the whole file.
	if out, err := exec.Command("promtool", "tsdb", "create-blocks-from", "--max-block-duration=720h", "openmetrics", metrics, data).CombinedOutput(); err != nil {
		return fmt.Errorf("promtool: %w: %s", err, out)
	}
	rules, err := filepath.Abs(filepath.Join(fleet, "alerts.yml"))
	if err != nil {
		return err
	}
	config := filepath.Join(work, "history.yml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "rule_files: [%q]\n", rules), 0o600); err != nil {
		return err
	}
	server := exec.Command("prometheus", "--config.file="+config, "--storage.tsdb.path="+data, "--storage.tsdb.retention.time=1y",
		"--web.listen-address=127.0.0.1:"+port, "--log.level=error", "--query.max-samples=200000000", "--query.timeout=30m")
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		return err
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	p := prometheus{"http://127.0.0.1:" + port}
	var named map[string]string
	for deadline := time.Now().Add(time.Minute); len(named) == 0; time.Sleep(100 * time.Millisecond) { // until it serves
		if named, err = p.rules(); err != nil && time.Now().After(deadline) {
			return err
		}
	}
	wrong := 0
	for _, name := range slices.Sorted(maps.Keys(tellings)) {
		n, err := p.checkAlert(name, named[name], all, start, end)
		if err != nil {
			return err
		}
		wrong += n
	}
	n, err := p.checkPanels(filepath.Join(fleet, "dashboards", "fleet.json"), all, end.Add(-drawn*day), end)
	if err != nil {
		return err
	}
	if wrong += n; wrong > 0 {
		return fmt.Errorf("%d values are wrong", wrong)
	}
	return nil
}

// checkAlert compares when an alert is active with what a person must be told.
func (p prometheus) checkAlert(name, query string, all []job, start, end time.Time) (wrong int, err error) {
	got, err := p.points(query, start, end, step)
	if err != nil {
		return 0, err
	}
	for i := range all {
		j := &all[i]
		expected := tellings[name][j.name]
		first := make([]float64, len(expected)) // when the alert began, 0 for never
		for at := start; !at.After(end); at = at.Add(step) {
			d := at.Sub(start).Hours() / 24
			_, active := got[j.name][at.Unix()]
			of := slices.IndexFunc(expected, func(t telling) bool { return t.from <= d && d <= t.till })
			problem := ""
			switch {
			case active && of < 0:
				problem = "is told"
			case active:
				first[of] = cmp.Or(first[of], d)
			case of >= 0 && expected[of].kept && d >= expected[of].by:
				problem = "is not told any more"
			}
			if problem != "" {
				if wrong++; wrong < 20 {
					log.Printf("%s: %s %s at day %.2f", name, j.name, problem, d)
				}
			}
		}
		for i, t := range expected {
			if first[i] == 0 || first[i] > t.by {
				wrong++
				log.Printf("%s: %s is told at day %.2f, want by day %.2f (0: never)", name, j.name, first[i], t.by)
			} else {
				fmt.Printf("%s: %s is told at day %.2f\n", name, j.name, first[i])
			}
		}
	}
	return wrong, nil
}

// checkPanels compares what panels show for windows of a day to a month, and what they draw.
func (p prometheus) checkPanels(file string, all []job, start, end time.Time) (wrong int, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &board); err != nil {
		return 0, err
	}
	queries := map[string]string{}
	for _, panel := range board.Panels {
		if len(panel.Targets) > 0 {
			queries[panel.Title] = panel.Targets[0].Expr
		}
	}
	shown := func(title, service string, window time.Duration) string {
		w := strconv.Itoa(int(window.Hours())) + "h"
		return strings.NewReplacer("$service", service, "$agent", ".*", "$model", ".*", "$__range", w, "$__interval", w).Replace(queries[title])
	}
	checked := 0
	compare := func(what string, at time.Time, got, want float64) {
		checked++
		if math.Abs(got-want) > 1e-9 {
			if wrong++; wrong < 20 {
				log.Printf("panel %s at day %.2f: %v, want %v", what, at.Sub(start).Hours()/24, got, want)
			}
		}
	}
	for i := range all {
		j := &all[i]
		if strings.Contains(j.name, "-") { // the plain cadences will do
			continue
		}
		for _, window := range []time.Duration{time.Hour, day, 7 * day, 30 * day} {
			const apart = 5 * time.Hour
			for title, want := range map[string]func(at time.Time) float64{
				"Runs":            func(at time.Time) float64 { return float64(j.count(at, window, anyRun)) },
				"Runs by outcome": func(at time.Time) float64 { return float64(j.count(at, window, anyRun)) },
				"Tokens":          func(at time.Time) float64 { return float64(tokens * j.count(at, window, anyRun)) },
				"Success": func(at time.Time) float64 {
					return float64(j.count(at, window, succeeded)) / float64(cmp.Or(j.count(at, window, anyRun), 1))
				},
			} {
				got, err := p.points(shown(title, j.name, window), start, end, apart)
				if err != nil {
					return 0, err
				}
				byTime := map[int64]float64{} // by outcome, or without labels
				for _, points := range got {
					for at, v := range points {
						byTime[at] += v
					}
				}
				for at := start; !at.After(end); at = at.Add(apart) {
					compare(fmt.Sprintf("%s of %s, %s", title, j.name, window), at, byTime[at.Unix()], want(at))
				}
			}
		}
	}
	fmt.Printf("panels: %d values, %d wrong\n", checked, wrong)
	return wrong, nil
}
