package main

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
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
	v := startView(t, nil, append([]string{"view", "--keep", fmt.Sprint(cap)}, freePorts...)...)
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

// list is an attribute with a list of empty values, so many bytes long.
func list(size int) []byte {
	return message(9, message(2, message(5, bytes.Repeat(message(1), size/2))))
}
