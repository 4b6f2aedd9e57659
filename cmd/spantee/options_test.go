package main

import (
	"strings"
	"testing"

	"github.com/spantee/spantee/cmd/spantee/internal/cli"
)

func TestSize(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0B", "9": "9B", "2048": "2.0KiB", "1000B": "1000B", "256MiB": "256MiB", "256 mib": "256MiB", "1k": "1000B",
		"1Ki": "1.0KiB", "1.5GiB": "1.5GiB", "10GB": "9.3GiB", "2T": "1.8TiB", "9.96KiB": "10KiB", "7EiB": "7.0EiB",
	} {
		if n, ok := cli.ParseSize(text); !ok || strings.ReplaceAll(bytesText(n), " ", "") != want {
			t.Errorf("%q: %d, %v, want %v", text, n, ok, want)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1X", "1iB", "1MiBB", "1BM", "9EiB", "nan", "inf", "1e400", "0x"} {
		if n, ok := cli.ParseSize(text); ok {
			t.Errorf("%q: %d", text, n)
		}
	}
}
