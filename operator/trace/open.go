package trace

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Env is the environment variable with the destinations of an operator's trace: "fd:3" for an open
// file descriptor, "file:path" for a file to append to, or several of these, separated by commas.
const Env = "KELSON_TRACE"

// Open opens the destinations in a value of Env. It returns nil for the empty value. Close also
// returns the first error of a write, because JSON ignores those.
func Open(places string) (io.WriteCloser, error) {
	if places == "" {
		return nil, nil
	}
	all := &several{}
	for place := range strings.SplitSeq(places, ",") {
		w, err := openOne(place)
		if err != nil {
			_ = all.Close()
			return nil, err
		}
		all.writers = append(all.writers, w)
	}
	return all, nil
}

// several writes to all its members; an error of one does not affect the others.
type several struct {
	writers []io.WriteCloser

	mu     sync.Mutex
	failed int   // number of writes
	first  error // of the first one
}

func (s *several) Write(p []byte) (int, error) {
	var errs []error
	for _, w := range s.writers {
		_, err := w.Write(p)
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failed++
		s.first = cmp.Or(s.first, err)
	}
	return len(p), err
}

func (s *several) Close() error {
	var errs []error
	for _, w := range s.writers {
		errs = append(errs, w.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed > 0 {
		errs = append(errs, fmt.Errorf("%d records are missing in a trace: %w", s.failed, s.first))
	}
	return errors.Join(errs...)
}

func openOne(place string) (io.WriteCloser, error) {
	kind, name, _ := strings.Cut(place, ":")
	switch {
	case kind == "fd":
		fd, err := strconv.ParseUint(name, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("open trace %q: not a file descriptor", place)
		}
		return os.NewFile(uintptr(fd), place), nil
	case kind == "file" && name != "":
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, fmt.Errorf("open trace: %w", err)
		}
		return f, nil
	}
	return nil, fmt.Errorf("open trace %q: want fd:N or file:PATH", place)
}
