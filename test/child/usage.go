package child

import (
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
	// Children is the CPU of the child processes that have ended and that it has waited for.
	Children time.Duration
	// Resident is the memory with the pages of files, Anonymous the part without them. Peak is the
	// highest Resident.
	Resident, Anonymous, Peak int64
}

// Plus returns the sum of what two processes use.
func (u Usage) Plus(o Usage) Usage {
	return Usage{u.CPU + o.CPU, u.Children + o.Children, u.Resident + o.Resident, u.Anonymous + o.Anonymous, u.Peak + o.Peak}
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
	return u, u.readCPU(id)
}

func (u *Usage) readCPU(id int) error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return fmt.Errorf("processor time of process %d: %w", id, err)
	}
	// utime, stime, cutime and cstime are the 12th to 15th fields after the name in parentheses,
	// which may contain spaces
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 15 {
		return fmt.Errorf("processor time of process %d: %q", id, stat)
	}
	var ticks [4]int64
	for n, field := range fields[11:15] {
		if ticks[n], err = strconv.ParseInt(field, 10, 64); err != nil {
			return fmt.Errorf("processor time of process %d: %w", id, err)
		}
	}
	u.CPU = time.Duration(ticks[0]+ticks[1]) * tick
	u.Children = time.Duration(ticks[2]+ticks[3]) * tick
	return nil
}
