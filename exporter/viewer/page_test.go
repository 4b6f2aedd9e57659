package viewer

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"os/exec"
	"testing"
)

// What the page computes is tested in Node, without a browser.
func TestPageInNode(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs node")
	}
	out, err := exec.CommandContext(t.Context(), node, "--test", "webtest").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("# fail 0")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// maxAssets is what the page may weigh, gzipped.
const maxAssets = 120 << 10

func TestPageIsSmall(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	err := fs.WalkDir(web, "web", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		b, err := web.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("the page is %d bytes, gzipped", packed.Len())
	if packed.Len() > maxAssets {
		t.Errorf("the page is %d bytes, gzipped", packed.Len())
	}
}
