package history

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/completion"
	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/cmd/kelson/internal/serve"
	"kelson.dev/lab/history"
)

// source has the flags that select the history to read.
type source struct {
	file, dir string
}

func (s *source) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&s.file, "file", "", "history to read, as written by kelson record")
	c.Flags().StringVar(&s.dir, "data-dir", "",
		"data directory of kelson serve --history, instead of a file; the server may be running (default "+
			serve.DefaultDataDir()+")")
	c.MarkFlagsMutuallyExclusive("file", "data-dir")
}

// complete completes the first argument, KIND/NAME, with the objects of the history.
func (s *source) complete(_ *cobra.Command, args []string,
	toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	h, err := s.open()
	if err != nil {
		// without a history, only subcommands are completed
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer h.Close()
	kind, _, named := strings.Cut(toComplete, "/")
	var found []cobra.Completion
	for _, r := range h.Resources() {
		keys := h.Keys(r.Name())
		if len(keys) > 0 && !named && strings.HasPrefix(r.Name(), toComplete) {
			found = append(found, r.Name())
		}
	}
	if named {
		for _, r := range h.Find(kind) {
			for _, key := range h.Keys(r.Name()) {
				if name := kind + "/" + key.Name; strings.HasPrefix(name, toComplete) && !slices.Contains(found, name) {
					found = append(found, name)
				}
			}
		}
	}
	return completion.Kinds(found, toComplete)
}

// read opens the history of a command, and shows this as a step of the progress.
func (s *source) read(progress *output.Progress) (*history.History, error) {
	place := s.file
	if place == "" {
		if place = s.dir; place == "" {
			place = serve.DefaultDataDir()
		}
	}
	progress.Step("reading the history %s", place)
	return s.open()
}

func (s *source) open() (*history.History, error) {
	if s.file != "" {
		return history.Open(s.file)
	}
	dir := s.dir
	if dir == "" {
		if dir = serve.DefaultDataDir(); dir == "" {
			return nil, serve.ErrNoDataDir
		}
	}
	h, err := history.Open(dir)
	if s.dir == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no history: pass --file or --data-dir, or start kelson serve --history: %w", err)
	}
	return h, err
}
