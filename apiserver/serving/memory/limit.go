package memory

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
)

// capped is the part of the process's memory limit to which Capped limits a budget.
const capped = 8

// Capped limits a budget to an eighth of the memory that the process may use, if that is limited:
// by GOMEMLIMIT, or by the limit of its control group on Linux.
func Capped(budget func(live int64) int64) func(live int64) int64 {
	limit := processLimit()
	if limit == math.MaxInt64 {
		return budget
	}
	return func(live int64) int64 { return min(budget(live), limit/capped) }
}

// processLimit returns the memory that the process may use, or math.MaxInt64.
var processLimit = sync.OnceValue(func() int64 {
	return min(debug.SetMemoryLimit(-1), groupLimit(os.ReadFile))
})

// groupLimit returns the memory limit of the process's control group and of those above it, or
// math.MaxInt64. It reads /proc/self/cgroup (cgroups(7)), whose lines are
// HIERARCHY:CONTROLLERS:PATH. A container often sees only its own group, at the root of the mounted
// hierarchy.
func groupLimit(read func(name string) ([]byte, error)) int64 {
	limit := int64(math.MaxInt64)
	groups, err := read("/proc/self/cgroup")
	if err != nil {
		return limit
	}
	for line := range strings.SplitSeq(string(groups), "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) != 3 {
			continue
		}
		root, file := "/sys/fs/cgroup", "memory.max"
		switch {
		case strings.Contains(","+fields[1]+",", ",memory,"):
			root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case fields[1] != "":
			continue
		}
		for dir := path.Clean("/" + fields[2]); ; dir = path.Dir(dir) {
			if text, err := read(path.Join(root, dir, file)); err == nil {
				// The value of a group without a limit is "max", or close to the largest number.
				if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 &&
					n < math.MaxInt64/2 {
					limit = min(limit, n)
				}
			}
			if dir == "/" {
				break
			}
		}
	}
	return limit
}
