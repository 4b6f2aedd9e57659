package mapping_test

import (
	"strings"
	"testing"

	"github.com/spantee/spantee/mapping"
)

// TestIDsOfRunsDiffer tries all orders of a few lines of two sessions, with and without
// timestamps that are equal: no two spans have the same ids.
func TestIDsOfRunsDiffer(t *testing.T) {
	const stamp = `,"timestamp_ms":1790000000000`
	lines := []string{
		`{"type":"system","subtype":"init","apiKeySource":"login","permissionMode":"default","session_id":"a"}`,
		`{"type":"system","subtype":"init","apiKeySource":"login","permissionMode":"default","session_id":"b"}`,
		`{"type":"thinking","subtype":"delta","text":"x","session_id":"a"` + stamp + `}`,
		`{"type":"thinking","subtype":"delta","text":"x","session_id":"b"` + stamp + `}`,
		`{"type":"thinking","subtype":"delta","text":"x","session_id":"a"}`,
		`{"type":"result","subtype":"success","is_error":false,"duration_ms":5,"duration_api_ms":5,"result":"","session_id":"a","request_id":"r"}`,
		`{"type":"result","subtype":"success","is_error":false,"duration_ms":5,"duration_api_ms":5,"result":"","session_id":"b","request_id":"r"}`,
	}
	tried := oneIn(17)
	for n := range 7 * 7 * 7 * 7 * 7 {
		if !tried() {
			continue
		}
		var in strings.Builder
		for ; n > 0; n /= 7 {
			in.WriteString(lines[n%7] + "\n")
		}
		for _, opts := range []mapping.Options{{Agent: "cursor", Source: mapping.Recording, Written: recorded}, {Agent: "cursor"}} {
			feed{live: opts.Source == mapping.Pipe, start: recorded, opts: opts}.spans(t, []byte(in.String())) // which checks them
			if t.Failed() {
				t.Fatal(in.String())
			}
		}
	}
}
