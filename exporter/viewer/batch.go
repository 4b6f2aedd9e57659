package viewer

import (
	"database/sql"
	"errors"
	"iter"
	"slices"

	"github.com/spantee/spantee/exporter/internal/field"
	"github.com/spantee/spantee/exporter/runs"
	"github.com/spantee/spantee/exporter/spool"
)

// batch adds a span, which has the session's last number, to the batches of its session.
func (u *update) batch(r *record, origin int64, wire []byte) {
	if len(r.batch.wire) > 0 && (r.batch.origin != origin || len(r.batch.wire)+len(wire) > maxBatch) {
		u.endBatch(r, r.last-1)
	}
	r.batch.origin = origin
	r.batch.wire = spool.AppendSpan(r.batch.wire, wire)
}

// endBatch writes the batch that ends with the span of a number.
func (u *update) endBatch(r *record, last int64) {
	if len(r.batch.wire) > 0 {
		u.queue(insertBatch, r.row<<spanBits+last, r.batch.origin, r.batch.wire)
		r.batch = batch{}
	}
}

// spansSince returns the spans of a session after the number since, in the order they came.
func spansSince(from querier, row, since int64) iter.Seq2[stored, error] {
	return func(yield func(stored, error) bool) {
		numbers, err := originsOf(from, row)
		if err != nil {
			yield(stored{}, err)
			return
		}
		byNumber := make(map[int64]origin, len(numbers))
		for o, n := range numbers {
			byNumber[n] = o
		}
		stop := errors.New("no more")
		err = each(from, func(scan func(...any) error) error {
			var at int64
			var b batch
			if err := scan(&at, &b.origin, &b.wire); err != nil {
				return err
			}
			list := slices.Collect(field.Of(b.wire, field.Spans))
			for i, v := range list {
				n := at&maxNumber - int64(len(list)-1-i)
				if n > since && len(v.Bytes) > 0 && !yield(stored{n, byNumber[b.origin], v.Bytes}, nil) {
					return stop
				}
			}
			return nil
		}, `SELECT at, origin, wire FROM batch WHERE at > ? AND at < ? ORDER BY at`, row<<spanBits+since, (row+1)<<spanBits)
		if err != nil && !errors.Is(err, stop) {
			yield(stored{}, err)
		}
	}
}

// dropReplaced empties the spans of a session that came again later.
func (u *update) dropReplaced(r *record) error {
	type change struct {
		at   int64
		wire []byte
	}
	var changes []change
	var span runs.Span
	later := make(map[spanID]bool, len(r.ids))
	err := each(u.write, func(scan func(...any) error) error {
		var c change
		var wire sql.RawBytes
		if err := scan(&c.at, &wire); err != nil {
			return err
		}
		list := slices.Collect(field.Of(wire, field.Spans))
		replaced, left := false, false
		for i, v := range slices.Backward(list) {
			if len(v.Bytes) == 0 {
				continue
			}
			_ = span.Read(v.Bytes) // it was valid
			id := spanID(span.ID)
			if later[id] {
				list[i].Bytes, replaced = nil, true
			} else {
				later[id], left = true, true
			}
		}
		if !replaced {
			return nil
		}
		for _, v := range list {
			if left {
				c.wire = spool.AppendSpan(c.wire, v.Bytes)
			}
		}
		changes = append(changes, c)
		return nil
	}, `SELECT at, wire FROM batch WHERE at > ? AND at < ? ORDER BY at DESC`, r.row<<spanBits, (r.row+1)<<spanBits)
	for _, c := range changes {
		if err == nil && c.wire == nil {
			err = u.write.exec(`DELETE FROM batch WHERE at = ?`, c.at)
		} else if err == nil {
			err = u.write.exec(`UPDATE batch SET wire = ? WHERE at = ?`, c.wire, c.at)
		}
	}
	return err
}

// originsOf returns the origins of a session's spans, with their numbers.
func originsOf(from querier, row int64) (map[origin]int64, error) {
	list := make(map[origin]int64)
	err := each(from, func(scan func(...any) error) error {
		var n int64
		var wire []byte
		err := scan(&n, &wire)
		list[newOrigin(wire)] = n
		return err
	}, `SELECT n, wire FROM origin WHERE session = ?`, row)
	return list, err
}
