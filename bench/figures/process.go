package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"

	"kelson.dev/test/child"
)

// grace is how long a server may take to shut down.
const grace = 30 * time.Second

// process is a server under measurement.
type process struct{ *child.Process }

// answers waits until url responds to client with 200.
func (p process) answers(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-time.After(time.Millisecond):
		case <-p.Done:
			return fmt.Errorf("%s ended before it was ready:\n%s", p.Path, p.Output())
		case <-ctx.Done():
			return fmt.Errorf("%s: %w\n%s", url, ctx.Err(), p.Output())
		}
	}
}

// usage returns what the process uses.
func (p process) usage() (child.Usage, error) {
	u, err := child.UsageOf(p.ID)
	if errors.Is(err, os.ErrProcessDone) {
		err = fmt.Errorf("%w:\n%s", err, p.Output())
	}
	return u, err
}

// ownCPU returns the CPU time that this process has used.
func ownCPU() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
