package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// meter reads a /proc file system. CPU is the difference between two readings.
type meter struct{ proc string }

// ticks is the unit of CPU times in /proc, in seconds. Linux counts hundredths of a second.
const ticks = 0.01

// machine returns the resource usage of the machine.
func (m *meter) machine(ctx context.Context) (usage, metav1.Duration, error) {
	before, err := m.busy()
	if err != nil {
		return usage{}, metav1.Duration{}, err
	}
	begin := time.Now()
	if err := wait(ctx); err != nil {
		return usage{}, metav1.Duration{}, err
	}
	after, err := m.busy()
	if err != nil {
		return usage{}, metav1.Duration{}, err
	}
	took := time.Since(begin)
	memory, err := m.memory()
	return usage{cpu: (after - before) * ticks / took.Seconds(), memory: memory},
		metav1.Duration{Duration: took.Round(time.Millisecond)}, err
}

// busy returns the ticks that all processors were not idle.
func (m *meter) busy() (float64, error) {
	data, err := os.ReadFile(filepath.Join(m.proc, "stat"))
	if err != nil {
		return 0, err
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) < 8 || fields[0] != "cpu" {
		return 0, fmt.Errorf("read %s/stat: unexpected line %q", m.proc, line)
	}
	var sum float64
	for i, field := range fields[1:8] {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, fmt.Errorf("read %s/stat: %w", m.proc, err)
		}
		if i != 3 && i != 4 { // idle, waiting for I/O
			sum += n
		}
	}
	return sum, nil
}

// memory returns the bytes that are not available.
func (m *meter) memory() (int64, error) {
	data, err := os.ReadFile(filepath.Join(m.proc, "meminfo"))
	if err != nil {
		return 0, err
	}
	values := map[string]int64{}
	for line := range strings.Lines(string(data)) {
		var kilobytes int64
		name, value, _ := strings.Cut(line, ":")
		if _, err := fmt.Sscan(value, &kilobytes); err == nil {
			values[name] = kilobytes << 10
		}
	}
	return values["MemTotal"] - values["MemAvailable"], nil
}

// users returns the resource usage of the processes of each user, by uid.
func (m *meter) users(ctx context.Context) (map[string]usage, metav1.Duration, error) {
	before := m.processes()
	begin := time.Now()
	if err := wait(ctx); err != nil {
		return nil, metav1.Duration{}, err
	}
	after := m.processes()
	took := time.Since(begin)
	all := map[string]usage{}
	for id, p := range after {
		u := all[p.uid]
		u.memory += p.memory
		if was, ok := before[id]; ok {
			u.cpu += (p.ticks - was.ticks) * ticks / took.Seconds()
		}
		all[p.uid] = u
	}
	return all, metav1.Duration{Duration: took.Round(time.Millisecond)}, nil
}

type process struct {
	uid    string
	ticks  float64
	memory int64
}

// processes reads all processes by their id. It omits processes that end during the reading.
func (m *meter) processes() map[string]process {
	all := map[string]process{}
	files, _ := filepath.Glob(filepath.Join(m.proc, "[0-9]*", "stat")) // the pattern is valid
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(file), "status"))
		if err != nil {
			continue
		}
		p := process{uid: "0"}
		_, rest, _ := strings.Cut(string(stat), ") ") // after the name, which may contain spaces
		if fields := strings.Fields(rest); len(fields) > 13 {
			user, _ := strconv.ParseFloat(fields[11], 64)
			system, _ := strconv.ParseFloat(fields[12], 64)
			p.ticks = user + system
		}
		for line := range strings.Lines(string(status)) {
			switch name, value, _ := strings.Cut(line, ":"); name {
			case "Uid":
				p.uid = strings.Fields(value)[0]
			case "VmRSS":
				var kilobytes int64
				_, _ = fmt.Sscan(value, &kilobytes) // 0 if the kernel does not report it
				p.memory = kilobytes << 10
			}
		}
		all[filepath.Base(filepath.Dir(file))] = p
	}
	return all
}

// wait waits between the two readings of a measurement.
func wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(window):
		return nil
	}
}
