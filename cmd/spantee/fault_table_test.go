package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
)

// faultTable is what the tests of faults come to.
type faultTable struct {
	mu   sync.Mutex
	rows []faultRow
}

// A faultRow is a fault, and what became of the spans that ended in it. What
// follows a comma in its name tells one of several variants.
type faultRow struct {
	fault                             string
	ended, delivered, recovered, lost int
}

func (f *faultTable) add(fault string, ended, delivered, recovered, lost int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows = append(f.rows, faultRow{fault, ended, delivered, recovered, lost})
}

var faults faultTable

// print shows the table with go test -v.
func (f *faultTable) print(w io.Writer) {
	if len(f.rows) == 0 || !testing.Verbose() {
		return
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\nfault\tspans ended\tdelivered\trecovered\tdropped")
	for _, r := range f.rows {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\n", r.fault, r.ended, r.delivered, r.recovered, r.lost)
	}
	tw.Flush()
}

// check compares the table with the one in the documentation, which has a row
// for each fault and says where spans may be lost.
func (f *faultTable) check() error {
	page, err := os.ReadFile("../../exporter/README.md")
	if err != nil {
		return err
	}
	_, section, _ := strings.Cut(string(page), "\n## Faults\n")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \|$`).FindAllStringSubmatch(section, -1) {
		documented[row[1]] = row[2]
	}
	var errs []error
	met := map[string]bool{"fault": true}
	for _, r := range f.rows {
		fault, _, _ := strings.Cut(r.fault, ",")
		met[fault] = true
		switch outcome, ok := documented[fault]; {
		case !ok:
			errs = append(errs, fmt.Errorf("exporter/README.md has no row for the fault %q", fault))
		case r.lost > 0 && !strings.Contains(outcome, "lost"):
			errs = append(errs, fmt.Errorf("exporter/README.md says of the fault %q %q, but %d spans were lost", fault, outcome, r.lost))
		}
	}
	all := runtime.GOOS == "linux" && !testing.Short()
	for _, selects := range []string{"test.run", "test.skip", "test.list"} {
		all = all && flag.Lookup(selects).Value.String() == ""
	}
	for fault := range documented {
		if all && !met[fault] {
			errs = append(errs, fmt.Errorf("exporter/README.md has the fault %q, which no test prints", fault))
		}
	}
	return errors.Join(errs...)
}
