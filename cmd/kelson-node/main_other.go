//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "kelson-node: not supported on this operating system: nodes run on Linux only")
	os.Exit(1)
}
