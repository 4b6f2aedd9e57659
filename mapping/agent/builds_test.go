package agent

import "testing"

func TestNewer(t *testing.T) {
	for _, test := range []struct {
		build, than string
		want        bool
	}{
		{"2.1.340", "2.1.332", true},
		{"2.1.332", "2.1.332", false},
		{"1.10.0", "1.9.9", true},
		{"1.9.9", "1.10.0", false},
		{"2026.09.28-abc", "2026.07.01", true},
		{"1.6.1", "1.6", true},
		{"", "1.6", false},
		{"1.6", "", false},
	} {
		if got := Newer(test.build, test.than); got != test.want {
			t.Errorf("%q is newer than %q: %t", test.build, test.than, got)
		}
	}
}
