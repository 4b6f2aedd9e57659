package tee

import "time"

// A ring is a fixed buffer of the stream's latest bytes. Offsets are offsets in the
// stream.
type ring struct {
	buf      []byte
	base     int64 // offset of buf[0], set when the ring is empty
	from, to int64 // the bytes in it
}

func (r *ring) len() int  { return int(r.to - r.from) }
func (r *ring) free() int { return len(r.buf) - r.len() }

func (r *ring) index(offset int64) int { return int((offset - r.base) % int64(len(r.buf))) }

// space returns up to limit bytes of room, less at the end of the buffer. An empty
// ring starts over: while the consumer keeps up, only a small part of the buffer is
// in use, and stays in the processor's cache.
func (r *ring) space(limit int) []byte {
	if r.from == r.to {
		r.base = r.to
	}
	start := r.index(r.to)
	return r.buf[start:min(start+limit, start+r.free(), len(r.buf))]
}

// head returns up to limit of the oldest bytes, less at the end of the buffer.
func (r *ring) head(limit int) []byte {
	start := r.index(r.from)
	return r.buf[start:min(start+limit, start+r.len(), len(r.buf))]
}

// take moves the oldest bytes to p, and returns how many.
func (r *ring) take(p []byte) int {
	n := copy(p, r.head(len(p)))
	r.from += int64(n)
	return n
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
