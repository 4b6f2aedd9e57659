package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/mapping"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/redact"
	"github.com/spantee/spantee/mapping/sessionlog"
)

// What an agent says of an outcome, a time or a cost is read, or there is a reason. A member whose
// name is about one of these is unread if no span changes with its value.
var telling = regexp.MustCompile(`(?i)exit|error|fail|status|retry|duration|usage|cost|token|ttft`)

//go:embed unread.txt
var unreadText string

// A reason says why members are not read.
type reason struct {
	pattern *regexp.Regexp // of "AGENT WHERE TYPE MEMBER"
	row     string
	used    bool
}

// readReasons reads rows of "AGENT WHERE TYPE MEMBER: WHY", in which * is any text.
func readReasons(text string) (reasons []*reason, err error) {
	for i, row := range strings.Split(text, "\n") {
		if row = strings.TrimSpace(row); row == "" || row[0] == '#' {
			continue
		}
		members, why, _ := strings.Cut(row, ": ")
		if why == "" || len(strings.Fields(members)) != 4 {
			return nil, fmt.Errorf("line %d: invalid row (want AGENT WHERE TYPE MEMBER: WHY)", i+1)
		}
		pattern := strings.ReplaceAll(regexp.QuoteMeta(members), `\*`, `.*`)
		reasons = append(reasons, &reason{pattern: regexp.MustCompile("^" + pattern + "$"), row: row})
	}
	return reasons, nil
}

// printUnread prints the members that are not read without a reason, and the reasons of none.
func printUnread(w io.Writer, results []*result, whole bool) (wrong bool, err error) {
	reasons, err := readReasons(unreadText)
	if err != nil {
		return false, fmt.Errorf("unread.txt: %w", err)
	}
	for _, e := range entries {
		var files []*recorded
		for _, r := range results {
			if r.run.entry == e && r.run.info.Way == wayPipe {
				of, err := recordedBy(r.run)
				if err != nil {
					return false, err
				}
				files = append(files, of...)
			}
		}
		members, err := unread(files)
		if err != nil {
			return false, err
		}
		for _, member := range members {
			member = e.Name + " " + member
			i := slices.IndexFunc(reasons, func(r *reason) bool { return r.pattern.MatchString(member) })
			if i < 0 {
				wrong = true
				fmt.Fprintf(w, "unread: %s\n", member)
			} else {
				reasons[i].used = true
			}
		}
		for _, r := range reasons {
			if whole && len(files) > 0 && !r.used && strings.HasPrefix(r.row, e.Name+" ") {
				wrong = true
				fmt.Fprintf(w, "is read now, or gone, remove it from unread.txt: %s\n", r.row)
			}
		}
	}
	return wrong, nil
}

// A recorded is what a run printed, or a file of what it logged.
type recorded struct {
	run  *keptRun
	logs []logFile // of the run, nil for what it printed
	text []byte
	path string
}

type logFile struct {
	path string
	text []byte
}

func recordedBy(k *keptRun) (files []*recorded, err error) {
	stream, err := os.ReadFile(filepath.Join(k.folder, "stream.jsonl"))
	if err != nil {
		return nil, err
	}
	files = append(files, &recorded{run: k, text: stream})
	if !k.entry.readsLog() {
		return files, nil
	}
	var logs []logFile
	err = filepath.WalkDir(filepath.Join(k.folder, "logs"), func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) || err == nil && (d.IsDir() || filepath.Ext(path) != ".jsonl") {
			return nil
		}
		text, readErr := os.ReadFile(path)
		logs = append(logs, logFile{path, text})
		return readErr
	})
	for _, log := range logs {
		files = append(files, &recorded{run: k, logs: logs, text: log.text, path: log.path})
	}
	return files, err
}

func (f *recorded) where() string {
	if f.logs == nil {
		return "stream"
	}
	return "log"
}

// unread returns the members that are not read, as "WHERE TYPE MEMBER".
func unread(files []*recorded) (members []string, err error) {
	redactor, err := redact.New(nil)
	if err != nil {
		return nil, err
	}
	read := map[string]bool{}
	for _, f := range files {
		spans, err := f.spans(f.text, redactor)
		if err != nil {
			return nil, err
		}
		places := f.places()
		for _, member := range slices.Sorted(maps.Keys(places)) {
			for n := 0; n < variants && !read[member]; n++ {
				changed, err := f.spans(change(f.text, places[member], n), redactor)
				if err != nil {
					return nil, err
				}
				read[member] = !bytes.Equal(spans, changed)
			}
		}
	}
	for member, is := range read {
		if !is {
			members = append(members, member)
		}
	}
	slices.Sort(members)
	return members, nil
}

// A place is where a value stands in a text.
type place struct{ from, to int }

// places returns where the values of telling members are.
func (f *recorded) places() map[string][]place {
	found := map[string][]place{}
	at := 0
	for line := range bytes.Lines(f.text) {
		var v object
		if json.Unmarshal(line, &v) == nil {
			r := jsonscan.Reader{B: line}
			find(&r, at, f.where()+" "+lineType(v)+" ", "", "", 0, found)
		}
		at += len(line)
	}
	return found
}

// find finds the values in the next one, which is at a path. of is the member that it belongs to.
func find(r *jsonscan.Reader, at int, line, path, of string, depth int, found map[string][]place) {
	switch r.Peek() {
	case '{':
		for key := range r.Members() {
			name, of := string(key), of
			if !plainName.MatchString(name) {
				name = "*"
			}
			if telling.MatchString(name) {
				of = path + name
			}
			if name == "arguments" || name == "input" || name == "args" || depth >= maxDepth && of == "" {
				r.Skip()
				continue
			}
			find(r, at, line, path+name+".", of, depth+1, found)
		}
	case '[':
		for range r.Elements() {
			find(r, at, line, strings.TrimSuffix(path, ".")+"[].", of, depth, found)
		}
	default:
		from := r.I
		if r.Skip(); of != "" {
			found[line+of] = append(found[line+of], place{at + from, at + r.I})
		}
	}
}

// variants is how many values are tried in place of one.
const variants = 3

// change returns a text with other values.
func change(text []byte, places []place, n int) []byte {
	var changed []byte
	last := 0
	for _, p := range places {
		changed = append(append(changed, text[last:p.from]...), other(text[p.from:p.to], n)...)
		last = p.to
	}
	return append(changed, text[last:]...)
}

// other returns another value than one.
func other(value []byte, n int) string {
	switch value[0] {
	case '"':
		return []string{`"error"`, `"failed"`, `"` + string(value[1:len(value)-1]) + `x"`}[n]
	case 't':
		return "false"
	case 'f':
		return "true"
	case 'n':
		return []string{`"error"`, "7", "true"}[n]
	}
	return []string{"7", string(value) + "1", "0"}[n]
}

// spans returns the spans of a recording with this text, without what is captured whole.
func (f *recorded) spans(text []byte, redactor *redact.Redactor) ([]byte, error) {
	spans := new(tracepb.ScopeSpans)
	keep := func(out mapping.Output, err error) error {
		if err != nil || out.Span == nil {
			return err
		}
		s := new(tracepb.Span)
		err = proto.Unmarshal(out.Span, s)
		s.Attributes = slices.DeleteFunc(s.Attributes, func(a *commonpb.KeyValue) bool { return captured.MatchString(a.Key) })
		spans.Spans = append(spans.Spans, s)
		return err
	}
	opts := mapping.Options{Content: content.Full, Redactor: redactor, Source: mapping.Recording, Written: time.UnixMicro(int64(f.run.info.End * 1e6))}
	if f.logs == nil {
		opts.Agent = f.run.entry.Flag
		m, err := mapping.New(opts)
		if err != nil {
			return nil, err
		}
		for out, err := range m.Read(bytes.NewReader(text)) {
			if err := keep(out, err); err != nil {
				return nil, err
			}
		}
	}
	for _, group := range sessionlog.Group(f.sessionLogs(text)) {
		m, err := mapping.New(opts)
		if err != nil {
			return nil, err
		}
		for out, err := range m.ReadLogs(group) {
			if err := keep(out, err); err != nil {
				return nil, err
			}
		}
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(spans)
}

// captured are attributes that have a value as it was printed, or its size, whatever it means.
var captured = regexp.MustCompile(`^gen_ai\.(tool\.call\.(arguments|result)|(input|output)\.messages)$|bytes$`)

// sessionLogs returns the logs of the run, of which one has another text.
func (f *recorded) sessionLogs(text []byte) (logs []sessionlog.Log) {
	for _, file := range f.logs {
		if file.path == f.path {
			file.text = text
		}
		if log, ok := sessionlog.Find(file.path, file.text[:min(len(file.text), sessionlog.HeadSize)]); ok {
			log.Open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file.text)), nil }
			logs = append(logs, log)
		}
	}
	return logs
}
