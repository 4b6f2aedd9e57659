package content_test

import (
	"strings"
	"testing"

	"github.com/spantee/spantee/mapping/content"
	"github.com/spantee/spantee/mapping/jsonscan"
	"github.com/spantee/spantee/mapping/redact"
)

// redactor returns a redactor with all rules.
func redactor(t *testing.T) *redact.Redactor {
	t.Helper()
	r, err := redact.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestCutAlone cuts values that have the same items in common: agents write the
// arguments of a call down twice, and a message has them again.
func TestCutAlone(t *testing.T) {
	raw := []byte(`{"path":"/srv/a.go","edits":[{"old":"` + strings.Repeat("x", 60) + `","new":"` + strings.Repeat("y", 60) + `"},{"old":"1","new":"2"}]}`)
	c, err := content.New(content.Full, 200, redactor(t))
	if err != nil {
		t.Fatal(err)
	}
	var whole, cut, again content.Attributes
	first, lost := c.Value(raw)
	c.JSON(&whole, "arguments", &first, lost)
	small, err := content.New(content.Full, 40, redactor(t))
	if err != nil {
		t.Fatal(err)
	}
	v, lost := small.Value(raw)
	for range 2 {
		message := content.Messages(content.Message("assistant", []content.Value{content.ToolCallPart("call_1", "Edit", v)}, ""))
		small.JSON(&cut, "messages", &message, lost)
		v, lost = small.Value(raw)
	}
	part := content.ToolCallPart("call_1", "Edit", first)
	small.JSON(&cut, "part", &part, 0)
	second, lost := c.Value(raw)
	c.JSON(&again, "arguments", &second, lost)
	if len(whole.List) != 1 || whole.List[0].Text != string(raw) {
		t.Errorf("the arguments are %v, want %s", whole.List, raw)
	}
	if len(again.List) != 1 || again.List[0].Text != string(raw) {
		t.Errorf("after a cut they are %v, want %s", again.List, raw)
	}
}

func TestReadAgain(t *testing.T) {
	c, err := content.New(content.Full, 2048, redactor(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time, names and values are known
		for _, raw := range []string{
			`{"command":"deploy --token 8f3kd92ls0vqpz71","8f3kd92ls0vqpz71":{"name":"DB_PASSWORD","value":"tr0ub4dor&3x"}}`,
			`{"command":"deploy","name":{"name":"GREETING","value":"hello"},"n":[1,true,null,-2.5e3,"a\n\"b\\"]}`,
		} {
			var a content.Attributes
			c.Raw(&a, "raw", []byte(raw))
			secret := strings.Contains(raw, "8f3")
			if len(a.List) != 1 || !secret && a.List[0].Text != raw || secret && (strings.Contains(a.List[0].Text, "8f3") || strings.Contains(a.List[0].Text, "tr0")) {
				t.Errorf("%s became %v", raw, a.List)
			}
		}
	}
}

// TestCutEscapes cuts texts at every place in and between their escapes.
func TestCutEscapes(t *testing.T) {
	const limit = 200
	c, err := content.New(content.Full, limit, redactor(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, escape := range []string{`\\`, `\n`, `\"`, `\u00e9`, `\ud83d\ude00`, `\\\"a`, `\\n`, `ab`} {
		for before := range 16 {
			escaped := strings.Repeat("x", before) + strings.Repeat(escape, 6000/len(escape))
			whole := string(jsonscan.Unquote([]byte(escaped)))
			s, lost := c.String([]byte(escaped))
			shown, cut := strings.CutSuffix(s, content.Truncated)
			if !cut || !strings.HasPrefix(whole, shown) || len(shown)+lost != len(whole) {
				t.Errorf("%d and %s: %d of %d bytes are left, and %d lost: %q", before, escape, len(shown), len(whole), lost, s)
			}
		}
	}
}
