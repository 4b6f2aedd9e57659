// History compares the alerts and panels of testdata/recipes/fleet with the truth, over 40
// days of jobs that run every few minutes, hourly, nightly, weekly and every two weeks. It
// writes the samples that a gateway would have sent, which restarts under its own name and
// forgets what has not run for a day, and asks a real Prometheus at every quarter of an hour.
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
	days = 40
	day  = 24 * time.Hour
	step = 15 * time.Minute
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
	// every returns a job that runs at an interval, and fails if it says so.
	every := func(name string, interval, offset time.Duration, failed func(n int, at time.Time) bool, skip func(at time.Time) bool) job {
		j := job{name: name}
		for at := start.Add(offset); at.Before(end); at = at.Add(interval) {
			if skip == nil || !skip(at) {
				j.runs = append(j.runs, run{at.Add(7 * time.Second), failed(len(j.runs), at)})
			}
		}
		return j
	}
	never := func(int, time.Time) bool { return false }
	always := func(int, time.Time) bool { return true }
	since := func(from, to int) func(time.Time) bool {
		return func(at time.Time) bool { d := int(at.Sub(start) / day); return from <= d && d < to }
	}
	const night = 3 * time.Hour
	return []job{
		every("busy", 6*time.Minute, 0, func(n int, at time.Time) bool { return since(17, 18)(at) && n%5 != 0 || n%40 == 0 }, nil),
		every("hourly", time.Hour, 20*time.Minute, func(n int, at time.Time) bool { return since(9, 10)(at) || n%7 == 3 }, nil),
		every("nightly", day, night, func(n int, _ time.Time) bool { return n%10 == 4 }, nil),
		every("nightly-fails", day, night, always, nil),
		every("nightly-fails-twice", day, night, func(n int, _ time.Time) bool { return n == 20 || n == 21 }, nil),
		every("nightly-paused", day, night, func(n int, _ time.Time) bool { return n == 15 }, since(15, 23)), // fails once, after the pause
		every("nightly-ended", day, night, never, since(30, days)),
		every("weekdays", day, night, never, func(at time.Time) bool { return at.Weekday() == time.Saturday || at.Weekday() == time.Sunday }),
		every("weekly", 7*day, night, never, nil),
		every("weekly-fails", 7*day, night, func(n int, _ time.Time) bool { return n >= 2 }, nil),
		every("fortnightly", 14*day, night, never, nil),
		every("fortnightly-fails", 14*day, night, always, nil),
	}
}

// restarts are when the gateway began anew, under its own name.
func restarts(start time.Time) (at []time.Time) {
	for _, hours := range []float64{31.5, 131.02, 404.1, 405.2, 700.7, 820} {
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

func failed(r run) bool    { return r.failed }
func succeeded(r run) bool { return !r.failed }
func anyRun(run) bool      { return true }

// alerts say when each alert is due.
var alerts = map[string]func(j *job, at time.Time) bool{
	"AgentErrors": func(j *job, at time.Time) bool {
		n := j.count(at, time.Hour, anyRun)
		return n >= 5 && float64(j.count(at, time.Hour, failed))/float64(n) > 0.2
	},
	"AgentErrorBudgetBurn": func(j *job, at time.Time) bool {
		n, few := j.count(at, time.Hour, anyRun), j.count(at, 5*time.Minute, anyRun)
		return n >= 10 && few > 0 && float64(j.count(at, time.Hour, failed))/float64(n) > 0.72 &&
			float64(j.count(at, 5*time.Minute, failed))/float64(few) > 0.72
	},
	"AgentKeepsFailing": func(j *job, at time.Time) bool {
		for _, window := range []time.Duration{3 * time.Hour, 50 * time.Hour, 15 * day, 29 * day} {
			if j.count(at, window, failed) >= 2 && j.count(at, window, succeeded) == 0 {
				return true
			}
		}
		return false
	},
	"AgentsSilent": func(j *job, at time.Time) bool {
		active := 0
		for midnight := at.Truncate(day); midnight.After(at.Add(-28 * day)); midnight = midnight.Add(-day) {
			if j.count(midnight, day, anyRun) > 0 {
				active++
			}
		}
		for _, c := range []struct {
			days   int
			silent time.Duration
		}{{26, 26 * time.Hour}, {12, 74 * time.Hour}, {3, 8 * day}, {2, 15 * day}} {
			if active >= c.days && j.count(at, c.silent, anyRun) == 0 {
				return true
			}
		}
		return false
	},
}

// mustFire are the jobs for which an alert fires at least once; for all others it never does.
var mustFire = map[string][]string{
	"AgentErrors":          {"busy"},
	"AgentErrorBudgetBurn": {"busy"},
	"AgentKeepsFailing":    {"fortnightly-fails", "hourly", "nightly-fails", "nightly-fails-twice", "weekly-fails"},
	"AgentsSilent":         {"nightly-ended", "nightly-paused"},
}

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
		"step": {strconv.Itoa(int(step.Seconds()))}, "timeout": {"10m"},
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

func check(fleet, work, port string) error {
	end := time.Now().Truncate(day)
	start := end.Add(-days * day)
	all := jobs(start, end)
	metrics, data := filepath.Join(work, "metrics.txt"), filepath.Join(work, "tsdb")
	if err := write(metrics, all, restarts(start)); err != nil {
		return err
	}
	if out, err := exec.Command("promtool", "tsdb", "create-blocks-from", "openmetrics", metrics, data).CombinedOutput(); err != nil {
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
		"--web.listen-address=127.0.0.1:"+port, "--log.level=error", "--query.max-samples=200000000")
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
	for _, name := range slices.Sorted(maps.Keys(alerts)) {
		n, err := p.checkAlert(name, named[name], all, start, end)
		if err != nil {
			return err
		}
		wrong += n
	}
	n, err := p.checkPanels(filepath.Join(fleet, "dashboards", "fleet.json"), all, start, end)
	if err != nil {
		return err
	}
	if wrong += n; wrong > 0 {
		return fmt.Errorf("%d values are wrong", wrong)
	}
	return nil
}

// checkAlert compares at every step for which services an alert is active.
func (p prometheus) checkAlert(name, query string, all []job, start, end time.Time) (wrong int, err error) {
	got, err := p.points(query, start, end, step)
	if err != nil {
		return 0, err
	}
	var fired []string
	checked := 0
	for i := range all {
		j := &all[i]
		due := false
		for at := start; !at.After(end); at = at.Add(step) {
			want := alerts[name](j, at)
			due = due || want
			checked++
			if _, is := got[j.name][at.Unix()]; is != want {
				if wrong++; wrong < 10 {
					log.Printf("%s of %s at day %.2f: %v, want %v", name, j.name, at.Sub(start).Hours()/24, is, want)
				}
			}
		}
		if due {
			fired = append(fired, j.name)
		}
	}
	slices.Sort(fired)
	if !slices.Equal(fired, mustFire[name]) {
		log.Printf("%s fires for %v, want %v", name, fired, mustFire[name])
		wrong++
	}
	fmt.Printf("%s: fires for %s; %d instants, %d wrong\n", name, strings.Join(fired, ", "), checked, wrong)
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
