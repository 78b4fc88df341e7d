package trace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Env is the environment variable that names where an operator's account goes: "fd:3" for an open file descriptor, "file:path" for a
// file that is appended to, or several of them, separated by commas.
const Env = "KELSON_TRACE"

// Open opens the places that a value of Env names. It is nil for the empty value.
func Open(places string) (io.WriteCloser, error) {
	if places == "" {
		return nil, nil
	}
	var all several
	for place := range strings.SplitSeq(places, ",") {
		w, err := openOne(place)
		if err != nil {
			_ = all.Close()
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

// several are written to one after the other: that one of them is gone is no matter for the others.
type several []io.WriteCloser

func (s several) Write(p []byte) (int, error) {
	var errs []error
	for _, w := range s {
		_, err := w.Write(p)
		errs = append(errs, err)
	}
	return len(p), errors.Join(errs...)
}

func (s several) Close() error {
	var errs []error
	for _, w := range s {
		errs = append(errs, w.Close())
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
