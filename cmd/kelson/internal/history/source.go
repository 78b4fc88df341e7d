package history

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/serve"
	"kelson.dev/lab/history"
)

// source is where a history is read from.
type source struct {
	file, dir string
}

func (s *source) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&s.file, "file", "", "history to read, as written by kelson record")
	c.Flags().StringVar(&s.dir, "data-dir", "", "data directory of kelson serve --history, instead of a file; the server may be running (default "+serve.DefaultDataDir()+")")
	c.MarkFlagsMutuallyExclusive("file", "data-dir")
}

func (s *source) open() (*history.History, error) {
	if s.file != "" {
		return history.Open(s.file)
	}
	dir := s.dir
	if dir == "" {
		dir = serve.DefaultDataDir()
	}
	h, err := history.Open(dir)
	if s.dir == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no history: pass --file or --data-dir, or start kelson serve --history: %w", err)
	}
	return h, err
}
