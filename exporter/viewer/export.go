package viewer

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"math"

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
		noteParts(found, spans)
		for i := range spans {
			if size += proto.Size(spans[i].Span); size > maxExport {
				return nil, errTooBig
			}
			d := newDetail(&spans[i])
			answers[base+"/spans/"+d.ID] = d
		}
	}
	answers["contains"] = namesOf(found)
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
