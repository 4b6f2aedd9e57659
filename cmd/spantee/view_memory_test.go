package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is a nested one of protobuf.
func message(number protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), bytes.Join(parts, nil))
}

// A spanWith has an id, and a field of its own.
func spanWith(id byte, field []byte) []byte {
	return message(2, message(1, bytes.Repeat([]byte{id}, 16)), message(2, bytes.Repeat([]byte{id}, 8)), field)
}

func request(spans ...[]byte) []byte { return message(1, message(2, spans...)) }

// Small requests may take much memory once decoded: the viewer's memory stays below
// 150 MB.
func TestViewMemory(t *testing.T) {
	long(t)
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	const cap = 64 << 20
	events := func(n int) []byte { return spanWith(1, bytes.Repeat(message(11), n)) }
	attack := map[string][]byte{
		"10 million empty events": request(events(9_900_000)),
		"6 million empty spans":   request(bytes.Repeat(message(2), 6_500_000)),
		"9 million empty values":  request(spanWith(2, list(18_000_000))),
		"JSON":                    append(append([]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{}`), bytes.Repeat([]byte(",{}"), 6_000_000)...), "]}]}]}"...),
	}
	v := startView(t, nil, append([]string{"view", "--keep", fmt.Sprint(cap, "B")}, freePorts...)...)
	send := func(name string, body []byte) int {
		kind := "application/x-protobuf"
		if name == "JSON" {
			kind = "application/json"
		}
		resp, err := http.Post(v.http+"/v1/traces", kind, bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for name, body := range attack {
		if status := send(name, body); status != http.StatusBadRequest {
			t.Errorf("%s: %d", name, status)
		}
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { send("", attack["10 million empty events"]) })
	}
	all.Wait()
	t.Logf("refused: at most %d MB", memory(v.cmd.Process.Pid)>>20)

	// What fits is taken, until there is no room.
	for i := range cases(6, 60) {
		body := bytes.ReplaceAll(request(events(120_000)), bytes.Repeat([]byte{1}, 16), bytes.Repeat([]byte{byte(i + 1)}, 16))
		if status := send("", body); status != http.StatusOK {
			t.Fatalf("120,000 empty events: %d", status)
		}
	}
	for _, s := range v.list(t).Sessions {
		v.session(t, s.ID)
		get(t, v.page+"/api/sessions/"+s.ID+"/steps")
		get(t, v.page+"/api/sessions/"+s.ID+"/spans/0101010101010101")
	}
	if took := memory(v.cmd.Process.Pid); took > 150e6 {
		t.Errorf("it took %d MB", took>>20)
	} else {
		t.Logf("full: at most %d MB", took>>20)
	}
}

// Whatever a page or a program asks for, thirty times at once, the viewer stays small, shows its
// page and receives spans.
func TestViewHostileRequests(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	v := startView(t, nil, append([]string{"view"}, freePorts...)...)
	big := newMade("big")
	root := big.span(nil, "invoke_agent cursor-agent", 0, 1e6)
	for i := range 200 {
		big.span(root, "execute_tool shell", float64(i), float64(i)+1, str("gen_ai.tool.call.result", strings.Repeat(fmt.Sprintf("word%d of many ", i), 2500)))
		if i%40 == 39 {
			if err := upload(v.grpc, big.request()); err != nil {
				t.Fatal(err)
			}
			big.spans = nil
		}
	}
	session := v.page + "/api/sessions/" + hex.EncodeToString(big.trace)
	several := url.QueryEscape(strings.Repeat("w m ", 16))
	phrase := url.QueryEscape(`"` + strings.Repeat("a ", 30_000) + `"`)
	for name, at := range map[string]struct {
		url  string
		want int
	}{
		"a phrase of 30,000 words": {v.page + "/api/sessions?q=" + phrase, http.StatusBadRequest}, "hits of them": {session + "/hits?q=" + phrase, http.StatusBadRequest},
		"the most words": {v.page + "/api/sessions?q=" + several, http.StatusOK}, "hits of a letter": {session + "/hits?q=w", http.StatusOK},
		"a waterfall": {session, http.StatusOK}, "a transcript": {session + "/steps", http.StatusOK}, "runs": {v.page + "/api/runs?q=" + several, http.StatusOK}, "an export": {session + "/export.html", http.StatusOK},
	} {
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				switch status, body := get(t, at.url); {
				case status == http.StatusServiceUnavailable: // others were first
				case status != at.want:
					t.Errorf("%s: %d %.200s", name, status, body)
				}
				if i%10 == 0 {
					if status, _ := get(t, v.page+"/"); status != http.StatusOK {
						t.Errorf("%s: the page: %d", name, status)
					}
					if err := upload(v.grpc, newMade(fmt.Sprint(name, i)).request()); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
		all.Wait()
		t.Logf("%s: at most %d MB", name, memory(v.cmd.Process.Pid)>>20)
	}
	if took := memory(v.cmd.Process.Pid); took > 180e6 {
		t.Errorf("it took %d MB", took>>20)
	}
}

// list is an attribute with a list of empty values, so many bytes long.
func list(size int) []byte {
	return message(9, message(2, message(5, bytes.Repeat(message(1), size/2))))
}
