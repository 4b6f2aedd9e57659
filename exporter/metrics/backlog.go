package metrics

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/spantee/spantee/exporter"
	"github.com/spantee/spantee/exporter/spool"
)

// A backlog is what waits in a spool: the last metrics of this process, and those
// that other processes left.
type backlog struct {
	spool    *spool.Spool // nil if nothing is kept
	exporter Exporter

	notBefore time.Time // no sending before this time, after a failure
	evicted   spool.Evicted
	earlier   exporter.Earlier
}

const (
	// drainGrace is how long Close goes on sending metrics of earlier processes.
	drainGrace = 200 * time.Millisecond

	// drainRest is the pause after a failure, or after another process was found
	// sending.
	drainRest = 10 * time.Second
)

// errNoSpool says that nothing was to be kept.
var errNoSpool = errors.New("no spool")

// deadlines returns the contexts for the disk and for attempts to deliver until ctx
// ends. If there is a spool, attempts end early enough for it.
func (b *backlog) deadlines(ctx context.Context) (disk, attempts context.Context, cancel context.CancelFunc) {
	deadline, diskDeadline, bounded := exporter.Deadlines(ctx)
	if b.spool == nil || !bounded {
		return context.WithoutCancel(ctx), ctx, func() {}
	}
	disk, cancelDisk := context.WithDeadline(context.WithoutCancel(ctx), diskDeadline)
	attempts, cancelAttempts := context.WithDeadline(ctx, deadline)
	return disk, attempts, func() {
		cancelAttempts()
		cancelDisk()
	}
}

// keep spools metrics that were not delivered.
func (b *backlog) keep(disk context.Context, data *metricdata.ResourceMetrics, points int, rejected bool, why error) error {
	if b.spool == nil {
		return errNoSpool
	}
	put := spool.Spool.Put
	if rejected {
		put = spool.Spool.Reject
	}
	body, err := b.exporter.Encode(data)
	if err != nil {
		return err
	}
	evicted, err := put(*b.spool, disk, b.exporter.Destination(), spool.Request{Body: body, Points: points}, why.Error())
	b.evicted.Add(evicted)
	return err
}

// send sends the metrics of earlier processes while more returns true.
func (b *backlog) send(ctx context.Context, more func() bool) {
	if b.spool == nil || time.Now().Before(b.notBefore) {
		return
	}
	s := *b.spool
	s.SetAside = func(*spool.Untrusted) { b.earlier.SetAside++ }
	waiting := exporter.Backlog{Spool: s, To: b.exporter.Destination(), Metrics: b.exporter, More: func(time.Duration) bool { return more() }}
	if err := waiting.Send(ctx, ctx); err != nil { // what fails stays in the spool
		b.notBefore = time.Now().Add(drainRest)
	}
	b.earlier.Add(waiting.Earlier)
	b.evicted.Add(waiting.Evicted)
}
