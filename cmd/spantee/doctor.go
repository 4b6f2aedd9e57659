package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/cmd/spantee/internal/follow"
	"github.com/spantee/spantee/cmd/spantee/internal/proc"
	"github.com/spantee/spantee/cmd/spantee/internal/sampler"
	"github.com/spantee/spantee/cmd/spantee/internal/tracer"
	"github.com/spantee/spantee/exporter/cilog"
	"github.com/spantee/spantee/exporter/otlp"
	"github.com/spantee/spantee/exporter/resource"
	"github.com/spantee/spantee/exporter/spool"
	"github.com/spantee/spantee/exporter/viewer"
)

const doctorUsage = `doctor shows where spans go and why, checks the connection, and sends a test
span. Its exit status is 1 if the test span cannot be delivered.`

func doctorCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out why spans do not arrive",
		Long:  doctorUsage,
		Args:  cobra.NoArgs,

		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return doctor(&o, cilog.NewWriter(os.Stdout)) },
	}
	addOTLPFlags(cmd, &o.otlp)
	return cmd
}

func doctor(o *options, stdout io.Writer) error {
	healthy := examine(stdout, o)
	examineSpool(stdout)
	examineSessions(stdout)
	for agent, folder := range follow.DefaultFolders() {
		if info, err := os.Stat(folder); err == nil && info.IsDir() {
			finding(stdout, "✓", "follow", fmt.Sprintf("%s's session logs are in %s", agent, folder))
		} else {
			finding(stdout, "-", "follow", fmt.Sprintf("%s has no session logs in %s", agent, folder))
		}
	}
	if !healthy {
		return proc.Status{Code: proc.StatusFailed}
	}
	return nil
}

// examine checks the way to the collector, and reports whether a span could be
// delivered.
func examine(w io.Writer, o *options) bool {
	to, err := o.destination()
	switch {
	case to.file != "":
		return examineFile(w, to)
	case err == nil && !to.isSet():
		finding(w, "✗", "span", "tracing is disabled by "+to.source)
		return false
	}
	settings, wrong := resolveOTLP(o.otlp)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range settings.List() { // as far as they are valid
		fmt.Fprintf(table, "  %s\t%s\t%s\n", s.Name, s.Value, whereSet(s))
	}
	_ = table.Flush()
	for _, err := range settings.Ignored() {
		finding(w, "!", "setting", err.Error())
	}
	warn(w)
	if err = cmp.Or(err, wrong); err != nil {
		finding(w, "✗", "span", withHint(err))
		return false
	}

	from, err := resource.New(resource.Sources{Host: true, Environment: true}, "service.name", "spantee", "service.version", tracer.Version())
	if err != nil {
		finding(w, "!", "resource", withHint(err))
	}
	span, id := testSpan()
	request := wrap(&tracer.Span{Wire: span, From: spool.NewOrigin(from, tracer.Scope())})
	ctx, cancel := context.WithTimeout(context.Background(), doctorPatience)
	defer cancel()
	healthy := false
	for check := range settings.Diagnose(ctx, request) {
		switch {
		case check.Err != nil:
			finding(w, "✗", check.Name, withHint(check.Err))
		case check.Name == "port":
			finding(w, "!", check.Name, check.Result)
		case check.Name == "span":
			healthy = true
			finding(w, "✓", check.Name, fmt.Sprintf("%s in %v, trace %s", check.Result, check.Took.Round(10*time.Microsecond), id))
		default:
			finding(w, "✓", check.Name, check.Result)
		}
	}
	return healthy
}

// whereSet says where a setting was set.
func whereSet(s otlp.Setting) string {
	switch {
	case s.Default:
		return "default"
	case s.Variable != "":
		return "$" + s.Variable
	}
	return "--" + s.Name
}

// doctorPatience bounds all checks together.
const doctorPatience = 15 * time.Second

func finding(w io.Writer, mark, name, text string) {
	fmt.Fprintf(w, "%s %-10s  %s\n", mark, name, text)
}

// warn reports problems with $TRACEPARENT and the sampler.
func warn(w io.Writer) {
	parent, err := parentFromEnvironment()
	if err != nil {
		finding(w, "!", "parent", err.Error())
	}
	problem := func(err error) { finding(w, "!", "sampler", err.Error()) }
	if why := sampler.New(parent, problem).Never; why != nil {
		problem(fmt.Errorf("no spans are sent: %w", why))
	}
}

// examineFile reports whether spans can be written to the file they go to.
func examineFile(w io.Writer, to destination) bool {
	client, err := to.open()
	if err == nil {
		err = client.Stop(context.Background())
	}
	if err != nil {
		finding(w, "✗", "span", err.Error())
		return false
	}
	finding(w, "✓", "file", fmt.Sprintf("spans can be written to %s (%s)", to.file, to.source))
	return true
}

// testSpan returns an encoded span that ends now, and its trace id.
func testSpan() ([]byte, string) {
	var id [24]byte
	_, _ = rand.Read(id[:]) // it never fails
	now := uint64(time.Now().UnixNano())
	span, _ := proto.Marshal(&tracepb.Span{ // all text is UTF-8
		TraceId: id[:16], SpanId: id[16:], Name: viewer.TestSpan, Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: now - 1, EndTimeUnixNano: now, Flags: 1,
	})
	return span, hex.EncodeToString(id[:16])
}

// examineSessions checks the database of the viewer's sessions, if there is one.
func examineSessions(w io.Writer) {
	path, err := sessionsPath()
	if err == nil {
		if _, missing := os.Lstat(path); missing != nil {
			return
		}
		err = viewer.Integrity(path)
	}
	if err != nil {
		finding(w, "!", "sessions", err.Error())
		return
	}
	finding(w, "✓", "sessions", "intact, in "+path)
}

func examineSpool(w io.Writer) {
	s, err := spool.Default()
	if err != nil {
		finding(w, "!", "spool", err.Error())
		return
	}
	entries, err := s.List()
	if err == nil {
		err = s.Check()
	}
	if err != nil {
		finding(w, "!", "spool", err.Error())
		return
	}
	var spans, rejected, aside int
	var size int64
	for _, e := range entries {
		size += e.Bytes
		switch e.State {
		case spool.Waiting, spool.Killed:
			spans += e.Spans
		case spool.Rejected:
			rejected += e.Spans
		case spool.Corrupt:
			aside += e.Spans
		}
	}
	mark, waiting, state := "✓", "0 spans waiting", "empty"
	if spans > 0 {
		mark, waiting = "!", count(spans, "span")+" waiting (spantee flush sends them)"
	}
	if len(entries) > 0 {
		state = fmt.Sprintf("%s, %d rejected, %d set aside, %s of %s", waiting, rejected, aside, bytesText(size), bytesText(s.Max))
	}
	finding(w, mark, "spool", state+", in "+s.Dir)
}
