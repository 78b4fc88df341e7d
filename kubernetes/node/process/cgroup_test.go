//go:build linux

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Where the system lets the agent create control groups, a container that uses more memory than its
// limit is killed, with the reason OOMKilled; its processor time is limited by a quota; and no
// group is left afterwards.
func TestLimits(t *testing.T) {
	for _, config := range []Config{{}, {Unconfined: true}} {
		t.Run(fmt.Sprintf("unconfined %t", config.Unconfined), func(t *testing.T) {
			config.Root = t.TempDir()
			r, err := New(config)
			if err != nil {
				t.Fatal(err)
			}
			parents := r.groups.parents()
			if *parents == (hierarchies{}) {
				t.Skip("this process may not create control groups")
			}
			spec := shell(`a=$(head -c 100000000 /dev/zero | tr '\0' x); echo "kept ${#a}"`)
			spec.Container.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi"),
				corev1.ResourceCPU: resource.MustParse("500m")}
			s, err := r.Sandbox(t.Context(), spec.Pod)
			if err != nil {
				t.Fatal(err)
			}
			c, err := s.Start(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			<-c.Done()
			if exit := c.Exit(); exit.Reason != "OOMKilled" || exit.Code == 0 {
				t.Errorf("exit %+v, log %q", exit, logOf(t, c, corev1.PodLogOptions{}))
			}
			spec.Command, spec.Attempt = []string{"sh", "-c", "echo ready; sleep 300"}, 1
			if c, err = s.Start(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			pid := c.(*container).cmd.Process.Pid
			groups := strings.Split(read(t, fmt.Sprintf("/proc/%d/cgroup", pid)), "\n")
			name := filepath.Join(r.groups.name, "uid-1-app-1")
			for _, line := range groups {
				controllers := strings.Split(line, ":")
				if len(controllers) < 3 || parents.memory != "" && controllers[1] != "memory" &&
					controllers[1] != "cpu" && controllers[1] != "cpu,cpuacct" {
					continue
				}
				if !strings.HasSuffix(line, name) {
					t.Errorf("the process is in the group %s, want …/%s", line, name)
				}
			}
			if parents.unified != "" {
				if got := read(t, filepath.Join(parents.unified, name, "cpu.max")); got != "50000 100000\n" {
					t.Errorf("cpu.max %q", got)
				}
			} else if got := read(t, filepath.Join(parents.cpu, name, "cpu.cfs_quota_us")); got != "50000\n" {
				t.Errorf("quota %q", got)
			}
			// The agent itself is not limited.
			if own := read(t, "/proc/self/cgroup"); strings.Contains(own, r.groups.name) {
				t.Errorf("the agent is in\n%s", own)
			}
			if err := s.Remove(); err != nil {
				t.Fatal(err)
			}
			for _, parent := range []string{parents.unified, parents.memory, parents.cpu} {
				if parent != "" && exists(filepath.Join(parent, r.groups.name)) {
					t.Errorf("%s is left in %s", r.groups.name, parent)
				}
			}
		})
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
