package main

import "testing"

func TestSize(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0B", "9": "9B", "2048": "2.0KiB", "1000B": "1000B", "256MiB": "256MiB", "256 mib": "256MiB", "1k": "1000B",
		"1Ki": "1.0KiB", "1.5GiB": "1.5GiB", "10GB": "9.3GiB", "2T": "1.8TiB", "9.96KiB": "10KiB", "7EiB": "7.0EiB",
	} {
		var s size
		if err := s.Set(text); err != nil || s.String() != want {
			t.Errorf("%q: %v, %v, want %v", text, s.String(), err, want)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1X", "1iB", "1MiBB", "1BM", "9EiB", "nan", "inf", "1e400", "0x"} {
		if s := new(size); s.Set(text) == nil {
			t.Errorf("%q: %v", text, s)
		}
	}
}
