package redact

import "strings"

// kubernetesSecrets finds the data of a Secret, whatever its names.
func kubernetesSecrets(v *view, hits []place, found func(start, end int)) {
	const reach = 16 << 10
	done := 0
	for _, h := range hits {
		from, to := max(done, h.start-reach), min(len(v.text), h.end+reach)
		if h.start < done {
			continue
		}
		for _, label := range dataLabels(v.text[from:to]) {
			f := field{v: v, text: v.text, start: from + label.start, end: from + label.end, class: datum, many: true, found: found, fieldCache: &fieldCache{}}
			if f.block() == 0 {
				f.list()
			}
		}
		done = to
	}
}

// dataLabels returns where the words data and stringData are, the names of the data of a
// Secret. An expression takes ten times as long.
func dataLabels(t string) (all []place) {
	const short, long = "data", "stringData"
	for end := 0; ; {
		n := strings.Index(t[end:], short[1:])
		if n < 0 {
			return all
		}
		end += n + len(short) - 1
		start := end - len(short)
		if strings.HasSuffix(t[:end], long) {
			start = end - len(long)
		} else if !strings.HasSuffix(t[:end], short) {
			continue
		}
		if (start == 0 || !isWordByte(t[start-1])) && (end == len(t) || !isWordByte(t[end])) {
			all = append(all, place{start, end})
		}
	}
}
