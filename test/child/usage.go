package child

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage has the consumption of a process, as Linux counts it in /proc. Memory is in bytes.
type Usage struct {
	// CPU is the processor time in user and kernel mode since the start of the process.
	CPU time.Duration
	// Resident is the memory with the pages of files, Anonymous the part without them. Peak is the
	// highest Resident.
	Resident, Anonymous, Peak int64
}

// Plus returns the sum of what two processes use.
func (u Usage) Plus(o Usage) Usage {
	return Usage{u.CPU + o.CPU, u.Resident + o.Resident, u.Anonymous + o.Anonymous, u.Peak + o.Peak}
}

// tick is the unit of processor time in /proc.
const tick = 10 * time.Millisecond

// UsageOf returns what a process uses. It is an error if the process has ended.
func UsageOf(id int) (u Usage, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", id))
	if err != nil {
		return u, fmt.Errorf("memory of process %d: %w", id, err)
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		into := map[string]*int64{"VmRSS": &u.Resident, "RssAnon": &u.Anonymous, "VmHWM": &u.Peak}[name]
		if into == nil {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return u, fmt.Errorf("memory of process %d: %w", id, err)
		}
		*into = kb << 10
	}
	if u.Resident == 0 { // processes that have ended, until their parent waits for them
		return u, fmt.Errorf("memory of process %d: %w", id, os.ErrProcessDone)
	}
	u.CPU, err = cpuOf(id)
	return u, err
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
