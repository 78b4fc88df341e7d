// Command build bundles the console's pages. It writes index.html, console.js, console.css and the
// licenses of libraries to console/dist; run it with go generate in console.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"kelson.dev/console/internal/bundle"
)

func main() {
	dir := flag.String("dir", ".", "folder of the console")
	flag.Parse()
	if err := run(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	files, err := bundle.Build(dir)
	if err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, "dist", name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
