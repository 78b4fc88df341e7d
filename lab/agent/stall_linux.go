package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// usageOf returns what a process does.
func usageOf(pid int) usage {
	tasks := filepath.Join("/proc", strconv.Itoa(pid), "task")
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return usage{}
	}
	u := usage{known: true, asleep: true}
	for _, thread := range threads {
		stat, err := os.ReadFile(filepath.Join(tasks, thread.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		// The state is the first field after the name, which is in parentheses; the 12th and 13th
		// are times in hundredths of a second.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 13 {
			return usage{}
		}
		if state := fields[0][0]; state == 'R' || state == 'D' {
			u.asleep = false
		}
		for _, field := range fields[11:13] {
			n, err := strconv.Atoi(string(field))
			if err != nil {
				return usage{}
			}
			u.processor += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return u
}
