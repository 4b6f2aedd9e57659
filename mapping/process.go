package mapping

import "strconv"

// An exit is how a Process ended.
type exit struct {
	code   int
	signal string
	stderr string

	afterResult bool // spantee ended the Process, which stayed after its result
}

// errorType returns "" if the process ended well, or is not known to have ended.
func (e *exit) errorType() string {
	switch {
	case e == nil || e.afterResult || e.signal == "" && e.code == 0:
		return ""
	case e.signal != "":
		return e.signal
	}
	return strconv.Itoa(e.code)
}

// status returns a description of how the process ended.
func (e *exit) status() string {
	if e.signal != "" {
		return "ended by " + e.signal
	}
	return "exit status " + strconv.Itoa(e.code)
}
