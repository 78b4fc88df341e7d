package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
)

// profile records a CPU profile of kelson serve while a row is measured; the returned function
// waits for it.
func (l *life) profile(ctx context.Context, id string) func() {
	if l.profiles == "" || !l.side.kelson {
		return func() {}
	}
	done := make(chan error, 1)
	c := l.client(false)
	go func() {
		defer c.transport.CloseIdleConnections()
		seconds := max(1, int(l.length.Seconds()))
		err := c.do(ctx, http.MethodGet, fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds), "", nil)
		if err == nil {
			err = os.WriteFile(filepath.Join(l.profiles, fmt.Sprintf("%s-%d.pprof", id, l.column)), c.answer, 0o644)
		}
		done <- err
	}()
	return func() { l.warn(<-done) }
}

// heapProfile saves a heap profile of kelson serve.
func (l *life) heapProfile(ctx context.Context, id string) {
	if l.profiles == "" || !l.side.kelson {
		return
	}
	c := l.client(false)
	defer c.transport.CloseIdleConnections()
	// the text form ends with runtime.MemStats
	for query, suffix := range map[string]string{"": "pprof", "?debug=1": "txt"} {
		err := c.do(ctx, http.MethodGet, "/debug/pprof/heap"+query, "", nil)
		if err == nil {
			err = os.WriteFile(filepath.Join(l.profiles, fmt.Sprintf("%s-%d.%s", id, l.column, suffix)), c.answer,
				0o644)
		}
		l.warn(err)
	}
}
