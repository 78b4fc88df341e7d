// Flagnames writes the flags of kube-apiserver of the linked Kubernetes version to a file, in the
// form of [upstream.Flags].
//
//	flagnames FILE
package main

import (
	"fmt"
	"os"

	"kelson.dev/kubernetes/upstream"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: flagnames FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], upstream.Flags(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
