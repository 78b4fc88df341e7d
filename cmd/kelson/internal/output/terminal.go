package output

import (
	"io"
	"os"

	"golang.org/x/term"

	"kelson.dev/lab/printable"
)

// Terminal writes to a terminal. It escapes characters that values from a cluster must not put
// there; see [printable.Writer].
type Terminal struct {
	io.Writer
	file *os.File
}

// TerminalOf returns a Terminal for a file that is one, and nil for other files. What a pipe or a
// file gets is not changed.
func TerminalOf(file *os.File) *Terminal {
	if !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return &Terminal{printable.Writer(file), file}
}

// Raw returns the file behind a Terminal, for child processes, and other writers as they are.
func Raw(w io.Writer) io.Writer {
	if t, ok := w.(*Terminal); ok {
		return t.file
	}
	return w
}
