package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage is the usage of all processes of a server: current resident bytes, and processor time since
// their start.
type usage struct {
	memory int64
	cpu    time.Duration
}

// tick is the unit of processor time in /proc.
const tick = 10 * time.Millisecond

func (s *server) usage() (all usage, err error) {
	for _, p := range s.processes {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.ID))
		if err != nil {
			return all, err
		}
		// Fields as of proc(5), from the third: 12 and 13 are utime and stime, 22 is rss in pages.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		var values [3]int64
		for i, field := range []int{11, 12, 21} {
			if field >= len(fields) {
				return all, fmt.Errorf("usage of process %d: %q", p.ID, stat)
			}
			if values[i], err = strconv.ParseInt(fields[field], 10, 64); err != nil {
				return all, err
			}
		}
		if values[2] == 0 {
			return all, fmt.Errorf("%s has ended:\n%s", p.Path, p.Output())
		}
		all.cpu += time.Duration(values[0]+values[1]) * tick
		all.memory += values[2] * int64(os.Getpagesize())
	}
	return all, nil
}

// watch samples a server's usage until end. It ends a server that uses more than guard bytes.
func (s *server) watch(guard int64) *watching {
	w := &watching{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		second, _ := s.usage()
		began := time.Now()
		for {
			select {
			case <-w.stop:
				return
			case <-ticker.C:
			}
			now, err := s.usage()
			if err != nil {
				return
			}
			w.worst = max(w.worst, now.memory)
			if elapsed := time.Since(began); elapsed >= time.Second {
				w.busiest = max(w.busiest, (now.cpu-second.cpu).Seconds()/elapsed.Seconds())
				second, began = now, time.Now()
			}
			if now.memory > guard {
				w.guarded = true
				for _, p := range s.processes {
					_ = syscall.Kill(p.ID, syscall.SIGKILL)
				}
				return
			}
		}
	}()
	return w
}

// watching is a running measurement.
type watching struct {
	stop, done chan struct{}
	worst      int64
	busiest    float64 // processors
	guarded    bool
}

// end returns the maximum memory in bytes, the maximum number of processors in any second, and
// whether the guard ended the server.
func (w *watching) end() (worst int64, busiest float64, guarded bool) {
	close(w.stop)
	<-w.done
	return w.worst, w.busiest, w.guarded
}

// idle waits, and returns the server's memory after that, and the processors that it used in the
// last five seconds.
func (s *server) idle(ctx context.Context, wait time.Duration) (memory int64, processors float64, err error) {
	const last = 5 * time.Second
	sleep(ctx, wait-last)
	first, err := s.usage()
	began := time.Now()
	sleep(ctx, last)
	second, err2 := s.usage()
	if err := errors.Join(err, err2); err != nil {
		return 0, 0, err
	}
	return second.memory, (second.cpu - first.cpu).Seconds() / time.Since(began).Seconds(), nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// loadAverage returns the machine's load average of the last minute; empty: unknown.
func loadAverage() string {
	data, _ := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(data), " ")
	return load
}
