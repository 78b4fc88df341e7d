package main

import (
	"os"
	"strings"
	"time"

	"kelson.dev/test/child"
)

// usage has the consumption of processes: processor time in user and kernel mode, and memory in
// bytes. private is the memory without the pages of files, which processes share.
type usage struct {
	cpu               time.Duration
	resident, private int64
}

// usageOf returns the sums over processes.
func usageOf(ids []int) (usage, error) {
	var total child.Usage
	for _, id := range ids {
		u, err := child.UsageOf(id)
		if err != nil {
			return usage{}, err
		}
		total = total.Plus(u)
	}
	return usage{total.CPU, total.Resident, total.Anonymous}, nil
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
