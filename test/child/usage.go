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
		if *into, err = bytesIn(value); err != nil {
			return u, fmt.Errorf("memory of process %d: %w", id, err)
		}
	}
	if u.Resident == 0 { // processes that have ended, until their parent waits for them
		return u, fmt.Errorf("memory of process %d: %w", id, os.ErrProcessDone)
	}
	return u, u.readCPU(id)
}

// bytesIn parses a size in /proc, such as "  12 kB".
func bytesIn(size string) (int64, error) {
	kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(size), " kB"), 10, 64)
	return kb << 10, err
}

// MappedOf returns the resident memory of a process, in bytes, in files whose names end with a
// suffix and which it has mapped.
func MappedOf(id int, suffix string) (resident int64, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", id))
	if err != nil {
		return 0, fmt.Errorf("mapped files of process %d: %w", id, err)
	}
	wanted := false
	for line := range strings.Lines(string(maps)) {
		name, value, _ := strings.Cut(line, ":")
		switch {
		case strings.Contains(name, "-"): // the addresses of a mapping; its file is at the end
			wanted = strings.HasSuffix(strings.TrimSuffix(strings.TrimSpace(line), " (deleted)"), suffix)
		case wanted && name == "Rss":
			size, err := bytesIn(value)
			if err != nil {
				return 0, fmt.Errorf("mapped files of process %d: %w", id, err)
			}
			resident += size
		}
	}
	return resident, nil
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
