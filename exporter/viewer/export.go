package viewer

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"net/http"
	"strings"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/internal/otlpjson"
)

// An exported page is one HTML file that needs nothing else: the scripts, the
// style, and the answers that this viewer's API would give, by their paths.

// maxExport bounds the size of the answers in an exported page.
const maxExport = 128 << 20

var errTooBig = errors.New("too much for one HTML file: export it as OTLP JSON")

// ExportHTML writes the sessions of a store as one HTML file.
func (s *Store) ExportHTML(ctx context.Context, w io.Writer) error {
	answers, err := s.answers(ctx)
	if err != nil {
		return err
	}
	data, err := json.Marshal(answers) // with < and & escaped, so that no text ends the element
	if err != nil {
		return err
	}
	if len(data) > maxExport {
		return errTooBig
	}
	script, style := bundle(), asset("base.css")+asset("session.css")
	policy := "default-src 'none'; img-src data:; script-src '" + hashOf(script) + "'; style-src '" + hashOf(style) +
		"'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
	_, err = fmt.Fprintf(w, exportedPage, html.EscapeString(policy), style,
		base64.StdEncoding.EncodeToString([]byte(asset("icon.svg"))), data, script)
	return err
}

const exportedPage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="%s">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>spantee</title>
<style>%s</style>
</head>
<body>
<header class="top">
<a class="brand" href="#/"><img src="data:image/svg+xml;base64,%s" alt="" width="20" height="20">spantee</a>
<nav id="crumbs" aria-label="Breadcrumbs"></nav>
<span id="live" class="live" role="status"></span>
<button id="theme" class="quiet" type="button"></button>
</header>
<main id="view"></main>
<script type="application/json" id="answers">%s</script>
<script type="module">%s</script>
</body>
</html>
`

func hashOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// answers returns the API's answers, by path.
func (s *Store) answers(ctx context.Context) (map[string]any, error) {
	list, err := s.List(ctx, Query{Limit: maxListed})
	if err != nil {
		return nil, err
	}
	list.Kept = Kept{}
	answers := map[string]any{"api/sessions": list}
	size, found := 0, make(map[Part]bool)
	for _, session := range list.Sessions {
		id, _ := parseTraceID(session.ID)
		base := "api/sessions/" + session.ID
		overview, _, err := s.overview(ctx, id, 0, math.MaxInt)
		if err != nil {
			return nil, err
		}
		steps, _, err := s.steps(ctx, id, 0, math.MaxInt)
		if err != nil {
			return nil, err
		}
		answers[base], answers[base+"/steps"] = overview, steps
		spans, _, err := s.Spans(ctx, id, 0)
		if err != nil {
			return nil, err
		}
		parts(found, spans)
		for i := range spans {
			if size += proto.Size(spans[i].Span); size > maxExport {
				return nil, errTooBig
			}
			d := newDetail(&spans[i])
			answers[base+"/spans/"+d.ID] = d
		}
	}
	answers["contains"] = names(found)
	return answers, nil
}

// ExportJSON writes the sessions of a store as one object of OTLP JSON, which any collector's
// otlpjsonfile receiver reads, and so does view.
func (s *Store) ExportJSON(ctx context.Context, w io.Writer) error {
	list, err := s.List(ctx, Query{Limit: maxListed})
	if err != nil {
		return err
	}
	var data tracepb.TracesData
	for _, session := range list.Sessions {
		id, _ := parseTraceID(session.ID)
		spans, _, err := s.Spans(ctx, id, 0)
		if err != nil {
			return err
		}
		data.ResourceSpans = append(data.ResourceSpans, grouped(spans)...)
	}
	b, err := proto.Marshal(&data)
	if err != nil {
		return err
	}
	line, err := otlpjson.Traces(b)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// grouped puts spans of one origin together.
func grouped(spans []Span) []*tracepb.ResourceSpans {
	var groups []*tracepb.ResourceSpans
	index := make(map[origin]*tracepb.ScopeSpans)
	for _, sp := range spans {
		g := index[sp.origin]
		if g == nil {
			g = &tracepb.ScopeSpans{Scope: sp.Scope}
			index[sp.origin] = g
			groups = append(groups, &tracepb.ResourceSpans{Resource: sp.Resource, ScopeSpans: []*tracepb.ScopeSpans{g}})
		}
		g.Spans = append(g.Spans, sp.Span)
	}
	return groups
}

// export serves a file with a session, without the parts that the query names.
func (v *server) export(kind, suffix string, write func(*Store, context.Context, io.Writer) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var leave []Part
		for _, name := range r.URL.Query()["without"] {
			if partNames[Part(name)] == "" {
				http.Error(w, "want without=content, paths or host", http.StatusBadRequest)
				return
			}
			leave = append(leave, Part(name))
		}
		id, _ := parseTraceID(r.PathValue("id"))
		if whole, found, err := v.store.Session(r.Context(), id); err != nil || !found {
			respond(w, nil, false, err)
			return
		} else {
			id, _ = parseTraceID(whole.ID) // of the richer copy
		}
		only, err := v.store.only(r.Context(), id, leave...)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		defer only.Close()
		session, found, err := only.Session(r.Context(), id)
		if err != nil || !found {
			respond(w, nil, false, err)
			return
		}
		var file bytes.Buffer
		if err := write(only, r.Context(), &file); err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Disposition", `attachment; filename="`+fileName(&session)+suffix+`"`)
		_, _ = w.Write(file.Bytes()) // the client may be gone
	}
}

// fileName names an exported file after its session.
func fileName(s *Session) string {
	const longest = 60
	name := strings.Join(strings.FieldsFunc(strings.ToLower(cmp.Or(s.Prompt, s.First, s.Agent, s.Name)), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}), "-")
	return strings.Trim(name[:min(len(name), longest)], "-") + "-" + s.ID[:8]
}
