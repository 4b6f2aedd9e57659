package receipt

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// ReplaceFile replaces a file. Whenever the process is killed, the file is either the old
// one or the whole new one. It does not wait until the disk has it, which takes seconds on a
// busy one. What killed processes left in the folder is removed.
func ReplaceFile(name string, contents []byte) error {
	folder, base := filepath.Split(name)
	dir, err := os.OpenRoot(cmp.Or(folder, "."))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	f, partial, err := createPartial(dir)
	if err != nil {
		return err
	}
	defer f.Close() // after the rename: until then, the lock says that it is in use
	if _, err = f.Write(contents); err == nil {
		removeAbandoned(dir)
		err = dir.Rename(partial, base)
	}
	if err != nil {
		_ = dir.Remove(partial)
	}
	return err
}

const partialPrefix, partialExt = ".spantee-", ".partial"

// createPartial creates a locked file. Until it is locked, another process may take it for
// abandoned.
func createPartial(dir *os.Root) (f *os.File, name string, err error) {
	for {
		name = fmt.Sprintf("%s%016x%s", partialPrefix, rand.Uint64(), partialExt)
		f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, "", err
		}
		locked, unsupported := spool.Lock(f)
		found, gone := dir.Lstat(name)
		if own, err := f.Stat(); err == nil && gone == nil && os.SameFile(own, found) && (locked || unsupported != nil) {
			return f, name, nil
		}
		f.Close()
	}
}

// abandonedAfter is longer than writing a file takes. It decides where disks have no locks.
const abandonedAfter = time.Hour

func removeAbandoned(dir *os.Root) {
	folder, err := dir.Open(".")
	if err != nil {
		return
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(-1)
	for _, name := range names {
		if !strings.HasPrefix(name, partialPrefix) || !strings.HasSuffix(name, partialExt) {
			continue
		}
		f, info, err := spool.OpenFile(filepath.Join(dir.Name(), name), os.O_RDWR)
		if err != nil {
			continue // it is another user's, or has got its name
		}
		if locked, err := spool.Lock(f); locked || err != nil && time.Since(info.ModTime()) > abandonedAfter {
			_ = dir.Remove(name)
		}
		f.Close()
	}
}
