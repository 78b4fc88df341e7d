package memory

import (
	"io/fs"
	"math"
	"testing"
)

// The lowest limit of a group and those above it applies, in both versions of control groups.
func TestGroupLimit(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no control groups": {nil, math.MaxInt64},
		"version 2": {map[string]string{
			"/proc/self/cgroup":                                     "0::/system.slice/kelson.service\n",
			"/sys/fs/cgroup/system.slice/memory.max":                "max\n",
			"/sys/fs/cgroup/system.slice/kelson.service/memory.max": "268435456\n",
		}, 256 << 20},
		"version 2, a limit above": {map[string]string{
			"/proc/self/cgroup":             "0::/a/b\n",
			"/sys/fs/cgroup/a/memory.max":   "1000000000\n",
			"/sys/fs/cgroup/a/b/memory.max": "max\n",
		}, 1_000_000_000},
		"version 2, in a container": {map[string]string{
			"/proc/self/cgroup":         "0::/\n",
			"/sys/fs/cgroup/memory.max": "536870912\n",
		}, 512 << 20},
		"version 1, in a container": {map[string]string{
			"/proc/self/cgroup":                           "5:cpu,cpuacct:/docker/1\n4:memory:/docker/1\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n",
		}, 512 << 20},
		"version 1, no limit": {map[string]string{
			"/proc/self/cgroup":                           "4:memory:/\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, math.MaxInt64},
	} {
		got := groupLimit(func(name string) ([]byte, error) {
			text, ok := c.files[name]
			if !ok {
				return nil, fs.ErrNotExist
			}
			return []byte(text), nil
		})
		if got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
