// Ports prints free ports on loopback.
package main

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/spantee/spantee/exporter/receiver/receivertest"
)

func main() {
	n, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	addresses, err := receivertest.Addresses(n)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, a := range addresses {
		_, port, _ := net.SplitHostPort(a)
		fmt.Print(port, " ")
	}
	fmt.Println()
}
