package trace

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Env is the environment variable that names where an operator's account goes: "fd:3" for an open file descriptor, "file:path" for a
// file that is appended to.
const Env = "KELSON_TRACE"

// Open opens the place that a value of Env names. It is nil for the empty value.
func Open(place string) (io.WriteCloser, error) {
	if place == "" {
		return nil, nil
	}
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
