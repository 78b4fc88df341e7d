package usage

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// The usage of a container is that of its process and of the processes that it started.
func TestProcesses(t *testing.T) {
	child := exec.Command("sleep", "60")
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(); err != nil {
		t.Skip(err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	self := container{name: "self", id: "process://self", process: os.Getpid(), started: time.Now().Add(-time.Minute)}
	other := container{name: "other", id: "process://other", process: child.Process.Pid, started: time.Now()}
	gone := container{name: "gone", id: "process://gone", process: 1 << 30, started: time.Now()}
	pods := []*used{{pod: &pod{running: []container{self, other, gone}}}}
	p := &processes{}
	useCPU(50 * time.Millisecond)
	now := time.Now()
	first := p.sample(now, pods)
	require.Equalf(t, len(first), 2, "measured %v", first)
	usage := func(c container, in map[string]measurement) (cpu, memory float64) {
		usage := in[c.id].usage
		return usage.Cpu().AsApproximateFloat64(), usage.Memory().AsApproximateFloat64()
	}
	if cpu, memory := usage(self, first); cpu <= 0 || memory < 1<<20 ||
		first[self.id].window.Round(time.Second) != time.Minute {
		t.Errorf("this process: %v cpu, %v bytes, in %v", cpu, memory, first[self.id].window)
	}
	if cpu, memory := usage(other, first); cpu > 0.5 || memory <= 0 {
		t.Errorf("sleep: %v cpu, %v bytes", cpu, memory)
	}
	// A later reading counts only what was used since the one before.
	later := p.sample(now.Add(20*time.Second), pods)
	if w := later[self.id].window; w != 20*time.Second {
		t.Errorf("window %v, want the twenty seconds since the first reading", w)
	}
	if w := p.sample(now.Add(25*time.Second), pods)[self.id].window; w != 5*time.Second {
		t.Errorf("window %v, want the five seconds since the last reading", w)
	}
	assert.Equalf(t, len(p.last), 2, "containers are remembered")
}

func useCPU(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

func TestParseStat(t *testing.T) {
	const stat = "7 (a b) c) S 3 5 7 0 -1 4194560 1 2 3 4 100 50 10 5 20 0 1 0 99 1000 3 18446744073709551615"
	p, ok := parseStat([]byte(stat))
	if !ok || p.parent != 3 || p.group != 5 || p.cpu != 1650*time.Millisecond || p.memory != 3*int64(os.Getpagesize()) {
		t.Errorf("%+v %v", p, ok)
	}
	for _, bad := range []string{"", "7 (a", "7 (a) S 1 2",
		"7 (a) S x 5 7 0 -1 4194560 1 2 3 4 100 50 10 5 20 0 1 0 99 1000 3"} {
		if p, ok := parseStat([]byte(bad)); ok {
			t.Errorf("%q: %+v", bad, p)
		}
	}
}
