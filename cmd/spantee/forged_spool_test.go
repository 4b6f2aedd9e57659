//go:build linux

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spantee/spantee/exporter/spool"
)

// TestAForgedSpoolTakesLittleMemory flushes files that are larger, and more, than any
// process leaves.
func TestAForgedSpoolTakesLittleMemory(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("makes large files")
	}
	const most = 72 << 20 // of which the program itself takes half
	bytesField := func(num protowire.Number, b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), b)
	}
	span := func(i int) []byte {
		b, err := proto.Marshal(&tracepb.Span{TraceId: []byte("0123456789abcdef"), SpanId: fmt.Appendf(nil, "%08d", i), Name: "forged"})
		if err != nil {
			t.Fatal(err)
		}
		return bytesField(2, b)
	}
	frame := func(spans []byte) []byte { return bytesField(1004, bytesField(1, bytesField(2, spans))) }
	for name, forge := range map[string]func(dir string, note, log []byte) error{
		"a log of 200 MB": func(dir string, note, _ []byte) error {
			path := filepath.Join(dir, "1-a.log")
			if err := os.WriteFile(path, note, 0o600); err != nil {
				return err
			}
			return os.Truncate(path, 200<<20)
		},
		"a log of many spans": func(dir string, note, _ []byte) error {
			var spans []byte
			for i := range 60_000 {
				spans = append(spans, span(i)...)
			}
			return os.WriteFile(filepath.Join(dir, "1-a.log"), append(note, frame(spans)...), 0o600)
		},
		"a log of too many spans": func(dir string, note, _ []byte) error {
			return os.WriteFile(filepath.Join(dir, "1-a.log"), append(note, bytes.Repeat(frame(bytes.Repeat(span(1), 250_000)), 2)...), 0o600)
		},
		"a log of many requests": func(dir string, note, _ []byte) error {
			var requests []byte
			for i := range 60_000 {
				requests = append(requests, bytesField(1, bytesField(2, span(i)))...)
			}
			return os.WriteFile(filepath.Join(dir, "1-a.log"), append(note, bytesField(1004, requests)...), 0o600)
		},
		"many logs": func(dir string, _, log []byte) error {
			for i := range cases(3_000, 12_000) {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d-a.log", i)), log, 0o600); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			peaks := make(chan int, 20_000) // one a request
			pids := make(chan int, 1)
			collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				pid := <-pids
				pids <- pid
				peaks <- peakMemory(pid)
			}))
			defer collector.Close()
			state := t.TempDir()
			s := spool.Spool{Dir: filepath.Join(state, "spantee/spool"), Max: 1 << 30}
			to := spool.Destination{Protocol: "http/protobuf", Endpoint: collector.URL + "/v1/traces"}
			left := s.NewLog(to, nil)
			if err := left.Append([]*spool.Span{{Wire: span(0), Of: new(spool.Origin)}}, nil); err != nil || !left.Close("it was down", nil) {
				t.Fatal(err)
			}
			entries, err := s.List()
			if err != nil || len(entries) != 1 {
				t.Fatal(entries, err)
			}
			log, err := os.ReadFile(entries[0].Path)
			if err != nil {
				t.Fatal(err)
			}
			note := bytesField(1000, fmt.Appendf(nil, `{"protocol":%q,"endpoint":%q,"format":6}`, to.Protocol, to.Endpoint))
			if err := forge(filepath.Dir(entries[0].Path), note, log); err != nil {
				t.Fatal(err)
			}
			flush := spantee(t, []string{"XDG_STATE_HOME=" + state}, "flush")
			if err := flush.Start(); err != nil {
				t.Fatal(err)
			}
			pids <- flush.Process.Pid
			if err := flush.Wait(); err != nil {
				t.Errorf("%v: %s", err, flush.stdout.String())
			}
			close(peaks)
			peak := 0
			for size := range peaks {
				peak = max(peak, size)
			}
			if peak == 0 || peak > most {
				t.Errorf("flush took %d MB", peak>>20)
			}
		})
	}
}

// peakMemory returns the most memory that a process has had, in bytes.
func peakMemory(pid int) (size int) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	_, _ = fmt.Sscan(peak, &size)
	return size << 10
}
