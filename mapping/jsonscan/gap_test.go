package jsonscan_test

import (
	"strings"
	"testing"

	"github.com/spantee/spantee/mapping/jsonscan"
)

func TestGap(t *testing.T) {
	head := strings.Repeat("x", jsonscan.MinHead) + `a\n`
	s := append([]byte(head), jsonscan.AppendGap(nil, 1300, 1234)...)
	s = append(s, `\"b`...)
	if got, want := jsonscan.UnquotedLen(s), len(head)-1+1234+len(`"b`); got != want {
		t.Errorf("unquoted it is %d bytes long, want %d", got, want)
	}
	if got, want := jsonscan.Len(s), len(head)+1300+len(`\"b`); got != want {
		t.Errorf("it was %d bytes long, want %d", got, want)
	}
	if got := string(jsonscan.Unquote(s)); got != strings.TrimSuffix(head, `\n`)+"\n\"b" {
		t.Errorf("unquoted it ends with %q", got[jsonscan.MinHead:])
	}
	for _, other := range []string{`\#`, `\#;`, `\#1`, `\#1;`, `\#1,;`, `\#x,1;`, `\#1,12345678901234567890;`, `\#555,5;`} {
		if got := string(jsonscan.Unquote([]byte(other))); got != other[1:] {
			t.Errorf("%s is %q", other, got)
		}
		if got := jsonscan.UnquotedLen([]byte(other)); got != len(other)-1 {
			t.Errorf("%s is %d bytes long", other, got)
		}
		if got := jsonscan.Len([]byte(other)); got != len(other) {
			t.Errorf("%s was %d bytes long", other, got)
		}
	}
}
