// Command reference writes docs/reference/markers.md and generators.md from the registries of the
// toolchain:
//
//	go run ./toolchain/internal/reference docs/reference          (make generate)
//	go run ./toolchain/internal/reference -check docs/reference   (make check)
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	check := flag.Bool("check", false, "write nothing; fail if anything would be written")
	flag.Parse()
	if err := run(flag.Arg(0), *check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir string, check bool) error {
	for name, content := range map[string][]byte{"markers.md": markers(), "generators.md": generators()} {
		file := filepath.Join(dir, name)
		have, err := os.ReadFile(file)
		switch {
		case err == nil && bytes.Equal(have, content):
		case check:
			return fmt.Errorf("%s is not up to date; run make generate", file)
		default:
			if err := os.WriteFile(file, content, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
