package viewer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/internal/httpclient"
)

// Running reports whether a spantee viewer serves its page at host:port.
func Running(address string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/viewer", nil)
	if err != nil {
		return false
	}
	resp, err := once(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var answer struct{ Viewer string }
	err = json.NewDecoder(io.LimitReader(resp.Body, 1<<10)).Decode(&answer)
	return err == nil && answer.Viewer == "spantee"
}

// oneShot leaves no connections behind.
var oneShot = httpclient.New(func(t *http.Transport) { t.DisableKeepAlives, t.Proxy = true, nil })

// once says who asks: another program may listen there.
func once(req *http.Request) (*http.Response, error) {
	req.Header.Set("User-Agent", "spantee")
	return oneShot.Do(req)
}

// joinBatch bounds how much of a trace goes into one request, in encoded bytes.
const joinBatch = 1 << 20

// SendTo adds the traces of this store to the viewer with a page.
func (s *Store) SendTo(ctx context.Context, page string) error {
	for _, id := range s.Since(0) {
		trace, _ := parseTraceID(id)
		spans, _, err := s.Spans(ctx, trace, 0)
		if err != nil {
			return err
		}
		for len(spans) > 0 {
			n, size := 0, 0
			for n < len(spans) && (n == 0 || size < joinBatch) {
				size += proto.Size(spans[n].Span)
				n++
			}
			body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: grouped(spans[:n])})
			if err == nil {
				err = post(ctx, page, body)
			}
			if err != nil {
				return err
			}
			spans = spans[n:]
		}
	}
	return nil
}

// newPost returns a request with an encoded message of OTLP.
func newPost(ctx context.Context, url string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err == nil {
		req.Header.Set("Content-Type", "application/x-protobuf")
	}
	return req, err
}

func post(ctx context.Context, page string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := newPost(ctx, strings.TrimSuffix(page, "/")+"/v1/traces", body)
	if err != nil {
		return err
	}
	resp, err := once(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		words, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("%s: %s", resp.Status, words)
	}
	return nil
}
