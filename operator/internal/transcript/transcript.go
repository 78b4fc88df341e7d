// Package transcript runs files with commands and their results, from which readers learn a
// protocol.
//
// A line that begins with "> " is a command. The lines up to the next command, comment or empty
// line are its result. Comments begin with "#". The flag -update of a test writes the results into
// the files.
package transcript

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/require"
)

var update = flag.Bool("update", false, "write the results into testdata/traces")

// File is the name of a file.
type File string

// Run calls play for each of the files testdata/traces/*.txt.
func Run(t *testing.T, play func(t *testing.T, f File)) {
	files, err := filepath.Glob("testdata/traces/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no traces", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { play(t, File(file)) })
	}
}

// Play plays the commands of a file. command plays one, given as words, and returns its result. The
// test fails if a result differs from the file.
func (f File) Play(t *testing.T, command func(words []string) string) {
	file := string(f)
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	var got strings.Builder
	for line := range strings.Lines(string(want)) {
		words, is := strings.CutPrefix(line, "> ")
		switch {
		case is:
			got.WriteString(line + command(strings.Fields(words)))
		case strings.HasPrefix(line, "#") || line == "\n":
			got.WriteString(line)
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got.String()), 0o644))
	} else if got.String() != string(want) {
		t.Errorf("%s is\n%s\nwant\n%s", file, got.String(), want)
	}
}
