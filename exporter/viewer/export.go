package viewer

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"html"
	"io"
	"math"
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
	icon := "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(asset("icon.svg")))
	head, body, _ := strings.Cut(asset("index.html"), "<link")
	_, body, _ = strings.Cut(body, "</head>")
	_, err = io.WriteString(w, head+`<meta http-equiv="Content-Security-Policy" content="`+html.EscapeString(policy)+`">
  <style>`+style+`</style>
  <script type="application/json" id="answers">`+string(data)+`</script>
  <script type="module">`+script+`</script>
</head>`+strings.Replace(body, "icon.svg", icon, 1))
	return err
}

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
