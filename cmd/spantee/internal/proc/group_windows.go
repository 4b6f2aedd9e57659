package proc

import (
	"os"
	"os/exec"
	"time"
)

// Windows has no process groups to end.
func setGroup(*exec.Cmd, *os.File) {}

func hasGroup(*os.Process) bool { return false }

func endProcess(p *os.Process, _ bool, _ time.Duration) { _ = p.Kill() }
