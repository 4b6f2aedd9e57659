package redact

// dataLabel is the name of the data of a Kubernetes Secret.
var dataLabel = expr(`\b(?:data|stringData)\b`)

// kubernetesSecrets finds the data of a Secret, whatever its names.
func kubernetesSecrets(v *view, hits []place, found func(start, end int)) {
	const reach = 16 << 10
	done := 0
	for _, h := range hits {
		from, to := max(done, h.start-reach), min(len(v.text), h.end+reach)
		if h.start < done {
			continue
		}
		for _, m := range dataLabel().FindAllStringIndex(v.text[from:to], -1) {
			f := field{v: v, text: v.text, start: from + m[0], end: from + m[1], class: datum, many: true, found: found, fieldCache: &fieldCache{}}
			if f.block() == 0 {
				f.list()
			}
		}
		done = to
	}
}
