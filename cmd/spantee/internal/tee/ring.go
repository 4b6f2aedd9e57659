package tee

import "time"

// ringSize is how much of the stream waits for the consumer in memory: eight seconds of
// 1,000 lines a second.
const ringSize = 2 << 20

// A ring is a fixed buffer of the stream's latest bytes. Offsets are offsets in the
// stream.
type ring struct {
	buf      []byte
	from, to int64 // the bytes in it
}

func (r *ring) len() int  { return int(r.to - r.from) }
func (r *ring) free() int { return len(r.buf) - r.len() }

// space returns up to limit bytes of room, less at the end of the buffer.
func (r *ring) space(limit int) []byte {
	start := int(r.to % int64(len(r.buf)))
	return r.buf[start:min(start+limit, start+r.free(), len(r.buf))]
}

// head returns up to limit of the oldest bytes, less at the end of the buffer.
func (r *ring) head(limit int) []byte {
	start := int(r.from % int64(len(r.buf)))
	return r.buf[start:min(start+limit, start+r.len(), len(r.buf))]
}

// arrivals record when the bytes of a stream came.
type arrivals []arrival

// An arrival is when the bytes up to an offset came.
type arrival struct {
	to int64
	at time.Time
}

// Bytes within arrivalStep count as one arrival. Otherwise a backlog of single
// bytes would take many times its size.
const arrivalStep = time.Millisecond

func (a *arrivals) add(to int64, at time.Time) {
	if n := len(*a); n > 0 && at.Sub((*a)[n-1].at) < arrivalStep {
		(*a)[n-1].to = to
		return
	}
	*a = append(*a, arrival{to, at})
}

// drop removes arrivals before an offset.
func (a *arrivals) drop(offset int64) {
	for len(*a) > 0 && (*a)[0].to <= offset {
		*a = (*a)[1:]
	}
}
