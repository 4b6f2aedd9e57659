package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"index/suffixarray"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/receiver/receivertest"
	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/redact/redacttest"
)

// session is a short one in which every text is said.
func session(said string) []byte {
	text, err := json.Marshal(said)
	if err != nil {
		panic(err)
	}
	var b bytes.Buffer
	for i, line := range []string{
		`{"type":"system","subtype":"init","apiKeySource":"login","cwd":%s,"model":"GPT-5"`,
		`{"type":"user","message":{"content":[{"type":"text","text":%s}]}`,
		`{"type":"thinking","subtype":"delta","text":%s`,
		`{"type":"assistant","message":{"content":[{"type":"text","text":%s}]}`,
		`{"type":"tool_call","subtype":"started","call_id":"a","tool_call":{"readToolCall":{"args":{"path":%s}}}`,
		`{"type":"tool_call","subtype":"completed","call_id":"a","tool_call":{"readToolCall":{"result":{"error":{"errorMessage":%s}}}}`,
		`{"type":"nobody knows","text":%s`,
		`{"type":"result","subtype":"error","is_error":true,"result":%s`,
	} {
		fmt.Fprintf(&b, line+`,"session_id":"%x","timestamp_ms":%d}`+"\n", text, sha256.Sum256(text), 1790000000000+i)
	}
	b.WriteString("no JSON but " + strings.ReplaceAll(said, "\n", " ") + "\n")
	return b.Bytes()
}

// traced runs spantee and returns what has reached the receiver, and stderr.
func traced(t *testing.T, stdin []byte, env []string, args ...string) (wire []byte, stderr string) {
	t.Helper()
	r := receivertest.Start(t)
	cmd := spantee(t, append(env, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.GRPCEndpoint()), args...)
	cmd.Stdin = bytes.NewReader(stdin)
	if err := cmd.Run(); err != nil {
		t.Fatal(err, cmd.stderr.String())
	}
	if !bytes.Equal(cmd.stdout.Bytes(), stdin) {
		t.Error("the stream came out changed")
	}
	for _, request := range r.Requests() {
		b, err := proto.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		wire = append(wire, b...)
	}
	if len(wire) == 0 {
		t.Error("nothing was sent")
	}
	return wire, cmd.stderr.String()
}

// TestContentOnTheWire looks for a mark in all that is sent and said.
func TestContentOnTheWire(t *testing.T) {
	long(t)
	t.Parallel()
	const mark = "canary-0b51c2"
	const variable = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="
	for _, c := range []struct {
		env  string
		args []string
		sent bool
	}{
		{"", nil, false},
		{variable + "false", nil, false},
		{variable + "NO_CONTENT", nil, false},
		{variable + "EVENT_ONLY", nil, false},
		{variable + "true", []string{"--content=none"}, false},
		{"", []string{"--content=details"}, true},
		{variable + "true", []string{"--content=details"}, true},
		{variable + "true", nil, true},
		{variable + "span_only", nil, true},
		{variable + "SPAN_AND_EVENT", nil, true},
		{"", []string{"--content=full"}, true},
	} {
		t.Run(c.env+strings.Join(c.args, ""), func(t *testing.T) {
			wire, stderr := traced(t, session(mark), []string{c.env}, append(c.args, "--summary")...)
			if n := bytes.Count(wire, []byte(mark)); (n > 0) != c.sent {
				t.Errorf("sent %d times", n)
			}
			if strings.Contains(stderr, mark) {
				t.Errorf("stderr: %s", stderr)
			}
			if _, log := traced(t, session(mark), []string{c.env}, append(c.args, "--log")...); strings.Contains(log, mark) != c.sent {
				t.Errorf("the log: %s", log)
			}
		})
	}
}

func TestUnknownContentVariable(t *testing.T) {
	const mark = "canary-0b51c2"
	wire, stderr := traced(t, session(mark), []string{"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=yes please"})
	if bytes.Contains(wire, []byte(mark)) {
		t.Error("content was sent")
	}
	if want := `no content is recorded: invalid $OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT "yes please" (want `; !strings.Contains(stderr, want) {
		t.Errorf("stderr %q, want %q", stderr, want)
	}
}

func wantNoSecret(t *testing.T, where string, text []byte, secrets []redacttest.Secret) {
	t.Helper()
	index := suffixarray.New(text) // the secrets are many
	for _, s := range secrets {
		for _, part := range s.LongParts() {
			if len(index.Lookup([]byte(part), 1)) > 0 {
				t.Errorf("%s: %q is in %s", s.Name, part, where)
			}
		}
	}
}

var claimsFile = regexp.MustCompile(`^([0-9a-f]{32} [0-9]{13} [0-9]{13}\n)*$`)

// TestContentOnDisk looks at what is kept of a session that nobody takes.
func TestContentOnDisk(t *testing.T) {
	long(t)
	t.Parallel()
	const mark = "canary-0b51c2"
	secrets := redacttest.All()
	in := session(mark)
	for _, s := range secrets {
		in = append(in, session(s.Text)...)
	}
	for content, want := range map[string]bool{"none": false, "full": true} {
		t.Run(content, func(t *testing.T) {
			dir := t.TempDir()
			cmd := spantee(t, []string{"XDG_STATE_HOME=" + dir}, "--content="+content, "--endpoint=http://127.0.0.1:1", "--flush-timeout=30s")
			cmd.Stdin = bytes.NewReader(in)
			if err := cmd.Run(); err != nil {
				t.Fatal(err, cmd.stderr.String())
			}
			kept := 0
			found := false
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				kept += len(b)
				found = found || bytes.Contains(b, []byte(mark))
				if strings.Contains(path, mark) {
					t.Errorf("a file is named %s", path)
				}
				if filepath.Base(filepath.Dir(path)) != "traced" {
					wantNoSecret(t, path, b, secrets)
				} else if !claimsFile.Match(b) { // hashes and times, which may have the digits of a secret
					t.Errorf("%s: %s", path, b)
				}
				return nil
			})
			if err != nil || kept == 0 {
				t.Fatalf("%d bytes are on disk, %v", kept, err)
			}
			if found != want {
				t.Errorf("content is on disk: %v", found)
			}
		})
	}
}

// TestNoSecretOnTheWire sends a session of every secret.
func TestNoSecretOnTheWire(t *testing.T) {
	long(t)
	t.Parallel()
	var in []byte
	secrets := redacttest.All()
	for _, s := range secrets {
		in = append(in, session(s.Text)...)
	}
	wire, stderr := traced(t, in, nil, "--content=full", "--summary", "--flush-timeout=30s")
	wantNoSecret(t, "what was sent", wire, secrets)
	wantNoSecret(t, "stderr", []byte(stderr), secrets)
	if n := bytes.Count(wire, []byte("[redacted:")); n < 5*len(secrets) {
		t.Errorf("%d marks for %d secrets", n, len(secrets))
	}
}

// TestNoSecretInAFile writes the same to a file, and into a page that somebody
// may hand on: there, content is whole.
func TestNoSecretInAFile(t *testing.T) {
	long(t)
	t.Parallel()
	secrets := redacttest.All()
	var in []byte
	for _, s := range secrets {
		in = append(in, session(s.Text)...)
	}
	dir := t.TempDir()
	recording, spans, page := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "spans.jsonl"), filepath.Join(dir, "page.html")
	if err := os.WriteFile(recording, in, 0o600); err != nil {
		t.Fatal(err)
	}
	filter := spantee(t, nil, "--content=full", "--to", spans)
	filter.Stdin = bytes.NewReader(in)
	for _, cmd := range []*run{filter, spantee(t, nil, "view", "--content=full", "--export", page, recording)} {
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s", err, &cmd.stderr)
		}
	}
	for _, name := range []string{spans, page} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		wantNoSecret(t, filepath.Base(name), b, secrets)
		if n := bytes.Count(b, []byte("[redacted:")); n < len(secrets) {
			t.Errorf("%s: %d marks for %d secrets", filepath.Base(name), n, len(secrets))
		}
	}
}

// The repository of spantee's working directory is sent with paths alone, and only of an agent
// that works there: a recording may be of elsewhere.
func TestRepositoryIsOfALiveAgent(t *testing.T) {
	for level, inPipe := range map[content.Level]bool{content.None: false, content.Details: true, content.Full: true} {
		c := new(config)
		c.content.Content = level
		if got := c.resourceSources(true).Repository; got != inPipe {
			t.Errorf("%s, in a pipe: %v", level, got)
		}
		if c.resourceSources(false).Repository {
			t.Errorf("%s, of a recording", level)
		}
	}
}
