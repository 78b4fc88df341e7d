package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
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

// memory is the resident memory of a process in bytes: the total, and the part without pages of
// files.
type memory struct{ resident, anonymous int64 }

func (m memory) plus(o memory) memory {
	return memory{m.resident + o.resident, m.anonymous + o.anonymous}
}

func (p process) memory() (m memory, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.ID))
	if err != nil {
		return m, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		into := map[string]*int64{"VmRSS": &m.resident, "RssAnon": &m.anonymous}[name]
		if into == nil {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return m, fmt.Errorf("memory of process %d: %w", p.ID, err)
		}
		*into = kb << 10
	}
	if m.resident == 0 {
		return m, fmt.Errorf("memory of process %d: it has ended:\n%s", p.ID, p.Output())
	}
	return m, nil
}

// tick is the unit of CPU time in /proc.
const tick = 10 * time.Millisecond

// cpu returns the CPU time that the process has used, in user and kernel mode.
func (p process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.ID))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("processor time of process %d: %q", p.ID, stat)
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick, errors.Join(err1, err2)
}

// ownCPU returns the CPU time that this process has used.
func ownCPU() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
