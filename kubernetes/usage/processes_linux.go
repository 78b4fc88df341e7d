package usage

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor times in /proc: Linux reports hundredths of a second to programs.
const tick = 10 * time.Millisecond

// process is a process of this machine.
type process struct {
	parent, group int
	total
}

// readProcesses returns the totals of the trees of processes below roots, which are process IDs.
// The process runtime makes each root the leader of a group, so that its processes are found even
// if their parents ended.
func readProcesses(roots map[int]container) map[int]total {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	all := map[int]process{}
	for _, entry := range entries {
		id, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		data, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		if p, ok := parseStat(data); ok {
			all[id] = p
		}
	}
	totals := map[int]total{}
	for id, p := range all {
		root, ok := rootOf(id, all, roots)
		if !ok {
			continue
		}
		if _, runs := all[root]; !runs {
			continue
		}
		sum := totals[root]
		sum.cpu += p.cpu
		sum.memory += p.memory
		totals[root] = sum
	}
	return totals
}

// rootOf returns the root of a process: the leader of its group, or the nearest ancestor that is a
// root.
func rootOf(id int, all map[int]process, roots map[int]container) (int, bool) {
	for range len(all) { // parents can form a circle while process IDs are reused
		if _, ok := roots[id]; ok {
			return id, true
		}
		p, ok := all[id]
		if !ok {
			return 0, false
		}
		if _, ok := roots[p.group]; ok {
			return p.group, true
		}
		id = p.parent
	}
	return 0, false
}

// parseStat parses /proc/ID/stat; see proc_pid_stat(5). The processor time includes that of
// children that have ended.
func parseStat(data []byte) (p process, ok bool) {
	end := bytes.LastIndexByte(data, ')') // of the name, which may contain anything
	if end < 0 {
		return p, false
	}
	fields := strings.Fields(string(data[end+1:]))
	number := func(field int) int64 { // as the manual numbers them; the state is the third
		if field-3 >= len(fields) {
			ok = false
			return 0
		}
		n, err := strconv.ParseInt(fields[field-3], 10, 64)
		ok = ok && err == nil
		return n
	}
	ok = true
	p.parent, p.group = int(number(4)), int(number(5))
	p.cpu = time.Duration(number(14)+number(15)+number(16)+number(17)) * tick
	p.memory = number(24) * int64(os.Getpagesize())
	return p, ok
}
