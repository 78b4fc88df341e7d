package output

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/term"
)

// Checked is a writer to a file that keeps the first error. Commands print many lines and do not
// check each of them, so main asks Checked whether a full disk has cut the output. It is safe for
// concurrent use.
type Checked struct {
	file *os.File

	mu  sync.Mutex
	err error
}

// Check returns a writer for a file or device. It returns nil for terminals, whose width and colors
// depend on the *os.File, and for pipes: a program that writes to a closed standard output is
// killed.
func Check(file *os.File) *Checked {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() && info.Mode()&os.ModeCharDevice == 0 || term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return &Checked{file: file}
}

func (c *Checked) Write(p []byte) (int, error) {
	n, err := c.file.Write(p)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.err == nil {
			c.err = err
		}
	}
	return n, err
}

// Err returns the first error of a write. A nil Checked has none.
func (c *Checked) Err() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return fmt.Errorf("write output: %w", c.err)
	}
	return nil
}
