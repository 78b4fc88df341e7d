package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor time in /proc.
const tick = 10 * time.Millisecond

// usage has the consumption of processes: processor time in user and kernel mode, and memory in
// bytes. private is the memory without the pages of files, which processes share.
type usage struct {
	cpu               time.Duration
	resident, private int64
}

// usageOf returns the sums over processes.
func usageOf(ids []int) (total usage, err error) {
	for _, id := range ids {
		cpu, err := cpuOf(id)
		if err != nil {
			return total, err
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", id))
		if err != nil {
			return total, err
		}
		total.cpu += cpu
		for line := range strings.Lines(string(status)) {
			name, value, _ := strings.Cut(line, ":")
			into := map[string]*int64{"VmRSS": &total.resident, "RssAnon": &total.private}[name]
			if into == nil {
				continue
			}
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				return total, fmt.Errorf("memory of process %d: %w", id, err)
			}
			*into += kb << 10
		}
	}
	return total, nil
}

func cpuOf(id int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("processor time of process %d: %q", id, stat)
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick, errors.Join(err1, err2)
}

// load returns the load average of the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
