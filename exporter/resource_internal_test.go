package exporter

import (
	"strings"
	"testing"
)

func TestContainerID(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for text, want := range map[string]string{
		"0::/":                        "",
		"12:cpu:/docker/" + id + "\n": id,
		"1:x:/kubepods.slice/cri-containerd-" + id + ".scope": id,
		"1:x:/docker/" + id[1:]:                               "",
	} {
		if got := findContainerID([]byte(text), ""); got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
	mounts := "1 2 8:1 /var/lib/x/" + strings.Repeat("f", 64) + "/merged / rw\n" +
		"3 4 8:1 /var/lib/docker/containers/" + id + "/hostname /etc/hostname rw\n"
	if got := findContainerID([]byte(mounts), "/hostname"); got != id {
		t.Errorf("mounts: %q", got)
	}
}
