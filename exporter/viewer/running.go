package viewer

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spantee/spantee/exporter/spool"
)

// lookInterval is how often the logs of running processes are read. They write what they have
// open once a second, and when a run begins.
const lookInterval = 250 * time.Millisecond

// A lookout shows what the running processes of this user have open, if they send their spans
// to this viewer.
type lookout struct {
	store   *Store
	watch   *spool.Watch
	ports   []string
	showing map[string]bool // logs
	said    time.Time       // when the store was last told which processes live
}

// lookOut shows in a store what running processes have open that send their spans to these
// ports, until done is closed. It tells processes that there is a viewer.
func lookOut(store *Store, stateDir string, ports []string, done <-chan struct{}) {
	l := &lookout{store: store, watch: spool.In(stateDir).Watch(), ports: ports}
	leave, err := announce(stateDir, ports)
	if err != nil {
		store.problem(fmt.Errorf("processes do not know of this viewer: %w", err))
	}
	defer leave()
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		if err := l.look(time.Now()); err != nil {
			store.failed(err)
			l.watch = spool.In(stateDir).Watch() // it reads again what was not stored
		}
		select {
		case <-done:
			return
		case <-ticker.C:
		}
	}
}

func (l *lookout) look(now time.Time) error {
	running, err := l.watch.Look()
	if err != nil {
		return nil //nolint:nilerr // the state folder may come back; whoever writes to it says what is wrong
	}
	over := l.showing
	l.showing = map[string]bool{}
	var living []string
	for _, r := range running {
		if !slices.Contains(l.ports, loopbackPort(r.To.Endpoint)) {
			continue
		}
		delete(over, r.Log)
		l.showing[r.Log] = true
		if !r.Changed.IsZero() {
			if err := l.store.openAt(r.Log, r.Open, r.Changed); err != nil {
				return err
			}
		}
		if r.Lives {
			living = append(living, r.Log)
		}
	}
	for log := range over {
		if err := l.store.openAt(log, nil, now); err != nil {
			return err
		}
	}
	if now.Sub(l.said) < time.Second { // each time is a commit
		return nil
	}
	l.said = now
	return l.store.alive(living, now)
}

// loopbackPort returns the port of a viewer's endpoint, empty if it cannot be one: a viewer
// listens on loopback, without TLS.
func loopbackPort(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" {
		return ""
	}
	if ip, err := netip.ParseAddr(u.Hostname()); u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback()) {
		return ""
	}
	return u.Port()
}

// receiving is the folder in the state folder that has a file for each port at which a viewer
// of this user receives spans. The viewer holds the file's lock.
const receiving = "receiving"

// ReceivesAt reports whether a viewer of this user receives spans at an endpoint.
func ReceivesAt(stateDir, endpoint string) bool {
	dir, port := filepath.Join(stateDir, receiving), loopbackPort(endpoint)
	if port == "" || spool.EnterDir(dir, false) != nil {
		return false
	}
	path := filepath.Join(dir, port)
	if _, err := os.Lstat(path); err != nil {
		return false
	}
	file, err := spool.TryLock(path)
	if file != nil {
		file.Close() // of a viewer that was killed
	}
	return file == nil && err == nil
}

// announce says at which ports this viewer receives spans, until leave is called.
func announce(stateDir string, ports []string) (leave func(), err error) {
	dir := filepath.Join(stateDir, receiving)
	if err := spool.EnterDir(dir, true); err != nil {
		return func() {}, err
	}
	var files []*os.File
	for _, port := range ports {
		file, failed := spool.TryLock(filepath.Join(dir, port))
		if err = errors.Join(err, failed); file != nil {
			files = append(files, file)
		}
	}
	return func() {
		for _, file := range files {
			_ = os.Remove(file.Name())
			file.Close()
		}
	}, err
}
