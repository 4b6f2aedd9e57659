package main

import "time"

func cpuTime() time.Duration { return 0 } // it is not asked for
