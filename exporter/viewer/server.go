package viewer

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"github.com/spantee/spantee/exporter/receiver"
	"github.com/spantee/spantee/exporter/runs"
)

// A server serves the page. It also accepts spans from other spantee processes, and files
// dropped on the page.
type server struct {
	store   *Store
	host    string        // as --listen names it
	streams chan struct{} // holds a token for each page that listens
	answers chan struct{} // the same for each answer that is computed
	exports chan struct{}
	done    chan struct{} // closed at the end
	epoch   string        // identifies this process: a page that knows another epoch starts over

	prices   runs.Prices
	otlp     http.Handler // for spans, from programs and not from pages
	readFile func(*Store, string, io.Reader) error
}

const (
	maxStreams = 64

	maxChanged = 100 // traces in one notice to a page

	// What is computed at a time bounds the memory: an export holds a whole session.
	maxAnswers    = maxReaders
	maxExports    = 1
	answerTimeout = 10 * time.Second // with the wait for others

	headerTimeout = 10 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 30 * time.Second
	maxHeader     = 64 << 10

	// noticeInterval is how often a page hears of changes, of which other processes may have
	// written some.
	noticeInterval = 200 * time.Millisecond
	heartbeat      = 15 * time.Second
)

// contentSecurityPolicy lets the page load what is embedded here and nothing
// else. Trusted types make a script that would write HTML fail.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

func (v *server) handler() http.Handler {
	files, err := fs.Sub(web, "web")
	if err != nil {
		panic(err) // it is embedded
	}
	for suffix, kind := range fileTypes {
		_ = mime.AddExtensionType(suffix, kind) // they are valid
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /api/sessions", bounded(v.answers, v.list))
	mux.HandleFunc("GET /api/sessions/{id}", bounded(v.answers, about(v.overview)))
	mux.HandleFunc("GET /api/sessions/{id}/spans/{span}", bounded(v.answers, about(v.detail)))
	mux.HandleFunc("GET /api/sessions/{id}/steps", bounded(v.answers, about(v.steps)))
	mux.HandleFunc("GET /api/sessions/{id}/hits", bounded(v.answers, about(v.hits)))
	mux.HandleFunc("GET /api/runs", bounded(v.answers, v.runs))
	mux.HandleFunc("POST /api/sessions/{id}/delete", modify(v.store.Delete))
	mux.HandleFunc("POST /api/sessions/{id}/pin", modify(func(id traceID) (bool, error) { return v.store.Pin(id, true) }))
	mux.HandleFunc("POST /api/sessions/{id}/unpin", modify(func(id traceID) (bool, error) { return v.store.Pin(id, false) }))
	mux.HandleFunc("GET /api/changes", v.changes)
	mux.HandleFunc("GET /api/viewer", v.identify)
	mux.HandleFunc("GET /api/sessions/{id}/export.html", bounded(v.exports, v.export("text/html; charset=utf-8", ".html", (*Store).ExportHTML)))
	mux.HandleFunc("GET /api/sessions/{id}/export.json", bounded(v.exports, v.export("application/json", ".json", (*Store).ExportJSON)))
	mux.HandleFunc("POST /api/files", ownPage(v.addFile))
	mux.Handle("POST /v1/traces", v.otlp)
	packed, err := gzhttp.NewWrapper(gzhttp.EnableZstd(false), gzhttp.CompressionLevel(gzip.BestSpeed)) // zstd takes megabytes for each response
	if err != nil {
		panic(err) // the options are valid
	}
	return v.guard(packed(mux))
}

// fileTypes are fixed here: Windows may map .js to text/plain, which browsers
// refuse to run.
var fileTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// guard rejects requests for another host name: a page elsewhere may have its own
// name resolve to this address (DNS rebinding), and the browser would take the
// viewer for the same site. Requests for an IP address are safe.
func (v *server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentSecurityPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if receiver.OfAnotherSite(r) && (r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.URL.Path != "/") { // links to the page are fine
			http.Error(w, "requests of other pages are not accepted", http.StatusForbidden)
			return
		}
		if !v.knows(r.Host) {
			http.Error(w, fmt.Sprintf("the host %q is not this viewer: use its IP address or localhost", r.Host), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bounded computes as many answers at a time as there is room for, each in limited time, and
// stops when the client goes.
func bounded(room chan struct{}, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
		defer cancel()
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
			next(w, r.WithContext(ctx))
		case <-ctx.Done():
			respond(w, nil, false, ctx.Err())
		}
	}
}

func (v *server) knows(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport // without a port
	}
	host = strings.Trim(host, "[]")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return strings.EqualFold(host, "localhost") || host != "" && strings.EqualFold(host, v.host)
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(b) // the client may be gone
}

// respond answers a request with what was read of the store.
func respond(w http.ResponseWriter, answer any, found bool, err error) {
	switch {
	case errors.Is(err, errTooManyWords):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, context.DeadlineExceeded):
		http.Error(w, "the answer took too long", http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case !found:
		http.Error(w, "no such session: it may have been removed to make room, or deleted", http.StatusNotFound)
	default:
		writeJSON(w, http.StatusOK, answer)
	}
}

func (v *server) list(w http.ResponseWriter, r *http.Request) {
	list, err := v.store.List(r.Context(), queryOf(r))
	respond(w, list, true, err)
}

// queryOf reads the query of the list and of runs.
func queryOf(r *http.Request) Query {
	form := r.URL.Query()
	offset, _ := strconv.Atoi(form.Get("offset"))
	since, _ := strconv.ParseInt(form.Get("since"), 10, 64)
	after, _ := strconv.ParseInt(form.Get("after"), 10, 64)
	return Query{
		Search: form.Get("q"),
		Failed: form.Get("failed") != "", Running: form.Get("running") != "", Since: since,
		Agent: form.Get("agent"), Model: form.Get("model"), Folder: form.Get("folder"),
		Sort: strings.TrimPrefix(form.Get("sort"), "-"), Ascending: strings.HasPrefix(form.Get("sort"), "-"),
		Limit: maxListed, Offset: max(0, offset), After: after,
	}
}

// about answers a request about a session with what read returns.
func about[T any](read func(r *http.Request, id traceID) (answer T, found bool, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, ok := parseTraceID(r.PathValue("id"))
		if !ok {
			respond(w, nil, false, nil)
			return
		}
		answer, found, err := read(r, id)
		respond(w, answer, found, err)
	}
}

// lastSeen reads the number of the last span that a page has.
func lastSeen(r *http.Request) int64 {
	n, _ := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64)
	return min(max(0, n), maxNumber)
}

func (v *server) overview(r *http.Request, id traceID) (Overview, bool, error) {
	return v.store.Overview(r.Context(), id, lastSeen(r))
}

func (v *server) steps(r *http.Request, id traceID) (Steps, bool, error) {
	return v.store.Steps(r.Context(), id, lastSeen(r))
}

func (v *server) hits(r *http.Request, id traceID) (Hits, bool, error) {
	return v.store.Hits(r.Context(), id, r.URL.Query().Get("q"))
}

func (v *server) detail(r *http.Request, id traceID) (d Detail, found bool, err error) {
	b, err := hex.DecodeString(r.PathValue("span"))
	if err != nil || len(b) != len(spanID{}) {
		return d, false, nil
	}
	s, err := v.store.Span(r.Context(), id, spanID(b))
	if s != nil {
		d = newDetail(s)
	}
	return d, s != nil, err
}

// modify handles a request to change a session.
func modify(do func(id traceID) (found bool, err error)) http.HandlerFunc {
	return ownPage(about(func(_ *http.Request, id traceID) (struct{}, bool, error) {
		found, err := do(id)
		return struct{}{}, found, err
	}))
}

// ownPage refuses requests from elsewhere than this viewer's page: another page's origin differs.
func ownPage(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "http://"+r.Host {
			http.Error(w, "sessions are changed and files accepted only from this viewer's own page", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

// changes tells a page which traces have grown, as server-sent events, for as
// long as the page listens.
func (v *server) changes(w http.ResponseWriter, r *http.Request) {
	select {
	case v.streams <- struct{}{}:
		defer func() { <-v.streams }()
	default:
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set(gzhttp.HeaderNoCompression, "true")
	out := http.NewResponseController(w)
	send := func(format string, args ...any) bool {
		_ = out.SetWriteDeadline(time.Now().Add(writeTimeout)) // net/http's own connections have one
		_, err := fmt.Fprintf(w, format, args...)
		return err == nil && out.Flush() == nil
	}

	seq, sent := v.store.Sequence(), time.Now()
	next := time.NewTicker(noticeInterval)
	defer next.Stop()
	for ok := send("retry: 1000\nevent: epoch\ndata: %s\n\n", v.epoch); ok; {
		select {
		case <-r.Context().Done():
			return
		case <-v.done:
			return
		case <-next.C:
		}
		ids, now, err := v.store.Changes(seq, maxChanged)
		switch {
		case err != nil:
			return // the page asks again
		case now != seq:
			list, _ := json.Marshal(ids) // without error
			ok = send("data: %s\n\n", list)
			seq, sent = now, time.Now()
		case time.Since(sent) > heartbeat:
			ok = send(": still here\n\n")
			sent = time.Now()
		}
	}
}

// identify lets a second viewer find out that a viewer already has the port.
func (v *server) identify(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"viewer": "spantee", "epoch": v.epoch})
}

// maxFile is the size of the largest file that can be dropped on the page.
const maxFile = 256 << 20

// addFile takes a file from the page.
func (v *server) addFile(w http.ResponseWriter, r *http.Request) {
	if v.readFile == nil {
		http.Error(w, "this viewer does not accept files", http.StatusNotImplemented)
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(5 * time.Minute))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(5 * time.Minute))
	before := v.store.Sequence()
	err := v.readFile(v.store, path.Base(r.URL.Query().Get("name")), http.MaxBytesReader(w, r.Body, maxFile))
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	writeJSON(w, http.StatusOK, v.store.Since(before))
}

func (v *server) runs(w http.ResponseWriter, r *http.Request) {
	form := r.URL.Query()
	answer, err := v.store.Runs(r.Context(), RunsQuery{Query: queryOf(r), By: cmp.Or(form.Get("by"), "day"), Only: form["only"], Prices: v.prices})
	respond(w, answer, true, err)
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
