package receipt

import (
	"slices"
	"sort"
)

// Periods are times that may overlap, in order.
type periods []period

type period struct{ start, end uint64 } // in nanoseconds

const (
	touching   = 1000 // siblings that hand over to one another are 1 us apart
	maxPeriods = 10_000
)

// add adds a period.
func (p *periods) add(start, end uint64) {
	list := *p
	from := sort.Search(len(list), func(i int) bool { return list[i].end+touching >= start })
	to := from
	for to < len(list) && list[to].start <= end+touching {
		start, end = min(start, list[to].start), max(end, list[to].end)
		to++
	}
	if from == to && len(list) == maxPeriods { // close the gap beside it instead
		i := min(from, len(list)-1)
		list[i] = period{min(start, list[i].start), max(end, list[i].end)}
		return
	}
	*p = slices.Replace(list, from, to, period{start, end})
}

// within returns how much time the periods cover between two instants.
func (p periods) within(start, end uint64) (ns uint64) {
	for _, q := range p {
		if from, to := max(q.start, start), min(q.end, end); from < to {
			ns += to - from
		}
	}
	return ns
}
