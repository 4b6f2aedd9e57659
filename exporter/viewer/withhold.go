package viewer

import (
	"context"
	"slices"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/spantee/spantee/mapping/semconv"
)

// A Part is a kind of data that an export may leave out.
type Part string

// The parts of a session.
const (
	Content Part = "content" // what was said and printed
	Paths   Part = "paths"   // files, commands, patterns, URLs
	Host    Part = "host"    // the machine and its user
)

// partNames are how an exported page calls what it contains.
var partNames = map[Part]string{Content: "prompts, answers and output", Paths: "paths and commands", Host: "the host"}

var (
	contentKeys = []string{semconv.Stderr, semconv.DeltaText, semconv.Message, semconv.TodoItems, semconv.TaskTitle, semconv.TaskDetail, semconv.QueryArguments, semconv.QueryResponse, semconv.ToolDescription}
	detailKeys  = []string{semconv.ProcessWorkingDirectory, semconv.ProcessCommandLine, semconv.ToolPattern, semconv.ToolGlob, semconv.ToolSearch, semconv.MCPServer, semconv.MCPResourceURI}

	pathPrefixes = []string{"file.", "url.", "code.", "vcs."}
	hostPrefixes = []string{"host.", "os.", "container.", "k8s.", "cloud.", "process.owner", "process.pid", "process.command_args", "user.", "service.instance."}

	// plainPrefixes are those of strings that are names and ids. A string of any other
	// attribute may be content.
	plainPrefixes = []string{"gen_ai.", "spantee.", "cursor.", "claude.", "copilot.", "mcp.", "process.exit.code", "process.executable.name", "service.", "telemetry.", semconv.OpenInferenceKind, semconv.LangfuseCompletionStarted, "session.id", "error.type"}
	contentWords  = []string{"messages", "instructions", "arguments", "result", "prompt", "completion", "content", "definitions", "description", "query", "explanation"} // in names that begin with gen_ai.
)

// ownScope is the scope of spantee's spans, whose events have fixed names.
const ownScope = "github.com/spantee/spantee"

// partOf returns the part that an attribute belongs to, "" for what is always exported.
func partOf(kv *commonpb.KeyValue) Part {
	key := kv.GetKey()
	has := func(prefixes []string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	}
	switch kv.GetValue().GetValue().(type) {
	case *commonpb.AnyValue_BoolValue, *commonpb.AnyValue_IntValue, *commonpb.AnyValue_DoubleValue:
		if !has(hostPrefixes) {
			return ""
		}
	}
	words := strings.HasPrefix(key, "gen_ai.") && slices.ContainsFunc(contentWords, func(word string) bool { return strings.Contains(key, word) })
	switch {
	case has(hostPrefixes):
		return Host
	case has(pathPrefixes), slices.Contains(detailKeys, key):
		return Paths
	case !has(plainPrefixes), words, slices.Contains(contentKeys, key):
		return Content
	}
	return ""
}

// lists calls do with every list of attributes of a span.
func (s *Span) lists(do func(*[]*commonpb.KeyValue)) {
	do(&s.Attributes)
	for _, e := range s.Events {
		do(&e.Attributes)
	}
	for _, l := range s.Links {
		do(&l.Attributes)
	}
	if s.Resource != nil {
		do(&s.Resource.Attributes)
	}
	if s.Scope != nil {
		do(&s.Scope.Attributes)
	}
}

// noteParts notes which parts spans have.
func noteParts(found map[Part]bool, spans []Span) {
	for i := range spans {
		spans[i].lists(func(list *[]*commonpb.KeyValue) {
			for _, kv := range *list {
				found[partOf(kv)] = true
			}
		})
	}
}

// namesOf are the parts that were found, as people read them.
func namesOf(found map[Part]bool) []string {
	names := []string{}
	for _, part := range []Part{Content, Paths, Host} {
		if found[part] {
			names = append(names, partNames[part])
		}
	}
	return names
}

// only returns a store in memory that has a session's spans that ended, without some parts of
// them. Content has paths in it, so that it goes with them.
func (s *Store) only(ctx context.Context, id traceID, leave ...Part) (*Store, error) {
	list, _, err := s.Spans(ctx, id, 0)
	if err != nil {
		return nil, err
	}
	if slices.Contains(leave, Paths) {
		leave = append(leave, Content)
	}
	for i := range list {
		sp := &list[i]
		sp.lists(func(list *[]*commonpb.KeyValue) {
			*list = slices.DeleteFunc(*list, func(kv *commonpb.KeyValue) bool { return slices.Contains(leave, partOf(kv)) })
		})
		if !slices.Contains(leave, Content) {
			continue
		}
		if sp.Status != nil {
			sp.Status.Message = "" // it may have a tool's output
		}
		if sp.Scope.GetName() != ownScope { // other senders put titles and texts into these
			sp.Scope = nil
			for _, e := range sp.Events {
				e.Name = "event"
			}
		}
	}
	only, err := NewStore(Retention{}, func(error) {})
	if err != nil {
		return nil, err
	}
	if err := only.addSpans(grouped(list), time.Now()); err != nil {
		only.Close()
		return nil, err
	}
	return only, nil
}
