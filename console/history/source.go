package history

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"kelson.dev/lab/history"
)

// source opens a history, and opens it again when it has changed. The zero value is ready to use.
type source struct {
	mu     sync.Mutex
	open   *history.History
	state  string // of the files when they were opened
	opened time.Time
	took   time.Duration // the time to open it
}

// patience limits how often a changed history is opened: an open history is used for at least
// patience times the duration of opening it. Otherwise, a large history that is written all the
// time would be opened all the time.
const patience = 10

// read calls f with the history.
func (s *source) read(name string, f func(*history.History) (any, error)) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, err := stateOf(name)
	if err != nil {
		return nil, err
	}
	if s.open == nil || state != s.state && time.Since(s.opened) > patience*s.took {
		began := time.Now()
		h, err := history.Open(name)
		if err != nil {
			return nil, err
		}
		if s.open != nil {
			_ = s.open.Close() // a file that was only read loses no data
		}
		s.open, s.state, s.opened = h, state, time.Now()
		s.took = s.opened.Sub(began)
	}
	return f(s.open)
}

func (s *source) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != nil {
		_ = s.open.Close() // a file that was only read loses no data
		s.open = nil
	}
}

// stateOf returns a text that changes when the files of a history do.
func stateOf(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return fmt.Sprint(info.Size(), info.ModTime().UnixNano()), nil
	}
	entries, err := os.ReadDir(history.FolderOf(name))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // the oldest file may have been removed
			fmt.Fprintln(&b, e.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String(), nil
}
