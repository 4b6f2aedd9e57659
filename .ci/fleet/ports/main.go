// Ports prints free ports on loopback.
package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
)

func main() {
	n, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	for range n { // all are held until the end, so that none comes twice
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Print(l.Addr().(*net.TCPAddr).Port, " ")
	}
	fmt.Println()
}
