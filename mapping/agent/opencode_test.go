package agent

import "testing"

// An error is opencode's if it has a session and says what went wrong.
func TestOpencodeError(t *testing.T) {
	for line, want := range map[string]Kind{
		`{"type":"error","sessionID":"ses_1","error":{"name":"APIError"}}`: RunError,
		`{"type":"error","message":"npm warn deprecated"}`:                 Unknown,
		`{"type":"error","error":{"name":"APIError"}}`:                     Unknown,
		`{"type":"error","sessionID":"ses_1","error":null}`:                Unknown,
	} {
		if events := opencode.New().Decode(Line{Text: []byte(line)}, nil); len(events) != 1 || events[0].Kind != want {
			t.Errorf("%s: %+v, want kind %d", line, events, want)
		}
	}
}
