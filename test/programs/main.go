// Programs works on the test programs of the repository: the go command links one for each package
// with tests.
//
//	go run ./test/programs rerun -timeout 40m ./...     go test; failed programs run a second time
//	go run ./test/programs stress -runs 20 ./lab/...    each program many times on a busy machine
//	go run ./test/programs count ./...                  how many there are, and what they link
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

const usage = `usage: programs rerun [flags of go test] PACKAGES…
       programs stress [-runs N] [-processors N,…] [-busy N] [-parallel N] [-short] [-run PATTERN] [-logs DIR] PACKAGES…
       programs count PACKAGES…`

// errFailed is the result of a command that has reported failures itself.
var errFailed = errors.New("failed")

func main() {
	if err := run(os.Args[1:]); err != nil {
		if !errors.Is(err, errFailed) && !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(os.Stderr, "programs: %v\n", err)
		}
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch args[0] {
	case "rerun":
		return rerun(args[1:], os.Stdout, os.Stderr)
	case "stress":
		return stress(args[1:], os.Stdout)
	case "count":
		return printCount(args[1:], os.Stdout)
	}
	return fmt.Errorf("unknown command %q\n%s", args[0], usage)
}
