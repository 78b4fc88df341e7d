//go:build linux

package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kelson.dev/kubernetes/node"
)

// Containers see the user and the groups of their security contexts, also as the owners of files.
// On the machine, their processes have the pod's own user.
func TestIdentity(t *testing.T) {
	s, spec := volumeWorld(t, `id -u; id -g; echo $(id -G | tr " " "\n" | sort -n); touch $HOME/mine; stat -c '%u %g' $HOME/mine
		echo x > /data/f; stat -c '%u %g' /data/f; stat -L -c '%u %g %a' /config/a; cat /config/a; cat /proc/self/status | grep -c CapEff.*[1-9a-f]`,
		corev1.VolumeMount{Name: "data", MountPath: "/data"}, corev1.VolumeMount{Name: "config", MountPath: "/config"})
	user, primary, fsGroup := int64(1000), int64(2000), int64(3000)
	spec.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(5)), RunAsGroup: &primary,
		FSGroup: &fsGroup, SupplementalGroups: []int64{4000, 2000}}
	spec.Container.SecurityContext = &corev1.SecurityContext{RunAsUser: &user}
	want := "1000\n2000\n2000 3000 4000\n1000 2000\n1000 3000\n1000 3000 440\nA\n0\n"
	if os.Geteuid() != 0 { // only root may translate several groups
		want = "1000\n2000\n2000\n1000 2000\n1000 2000\n1000 2000 440\nA\n0\n"
	}
	s.volumeGroup, s.shared = volumeGroup(spec.Pod)
	set(t, s, node.Volume{Name: "data"}, node.Volume{Name: "config", Files: []node.File{file("a", "A\n", 0o400)}})
	if got := strings.ReplaceAll(runIn(t, s, spec), " 65534", ""); got != want {
		t.Errorf("the container printed\n%s\nwant\n%s", got, want)
	}
	info, err := os.Stat(filepath.Join(s.dir, "app", "0", "mine"))
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; os.Geteuid() == 0 && owner != userOf(spec.Pod) {
		t.Errorf("on the machine, the file belongs to %d, want %d", owner, userOf(spec.Pod))
	}

	// root in the container is not root on the machine
	*spec.Container.SecurityContext.RunAsUser, spec.Attempt = 0, 1
	spec.Command = []string{"sh", "-c", "id -u; touch /etc/x 2>/dev/null || echo no; kill -0 " +
		fmt.Sprint(os.Getpid()) + " 2>/dev/null || echo no; mount -t tmpfs none /config 2>/dev/null || echo no"}
	if got := runIn(t, s, spec); got != "0\nno\nno\nno\n" {
		t.Errorf("as root: %q", got)
	}
	spec.Container.SecurityContext.RunAsNonRoot = new(true)
	if _, err := s.Start(t.Context(), spec); !errors.Is(err, errRoot) {
		t.Errorf("error %v, want %v", err, errRoot)
	}
}

// A pod that is root in its user namespace can't access the server's files.
func TestRootOfAPodCannotReadTheServersFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	t.Setenv("SECRET_OF_THE_AGENT", secret)
	a := newAttacked(t, t.TempDir(), Config{})
	if a.runtime.Confinement() != ConfinedRoot {
		t.Skipf("SKIPPED: this system confines pods by %q only", a.runtime.Confinement())
	}
	spec := shell(strings.ReplaceAll(a.script(), `[ "$(id -u)" = 0 ]`, `[ "$(id -u)" != 0 ]`))
	spec.Container.TerminationMessagePath = "/dev/termination-log"
	spec.Container.SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(0))}
	if exit, log := a.run(t, spec); log != "over\n" || exit.Code != 0 || strings.Contains(exit.Message, secret) {
		t.Errorf("exit %+v, attack output\n%s", exit, log)
	}
}

// With readOnlyRootFilesystem, a container can write only to its volumes and to the file of its
// termination message.
func TestReadOnlyRootFilesystem(t *testing.T) {
	s, spec := volumeWorld(t, `for f in $HOME/x /tmp/x /var/tmp/x /data/x $HOME/dev/x; do (echo x > $f) 2>/dev/null || echo "$f is read-only"; done
		echo last words > $HOME/dev/termination-log`,
		corev1.VolumeMount{Name: "data", MountPath: "/data"})
	spec.Container.TerminationMessagePath = "/dev/termination-log"
	spec.Container.SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: new(true)}
	set(t, s, node.Volume{Name: "data"})
	home := filepath.Join(s.dir, "app", "0")
	want := fmt.Sprintf("%[1]s/x is read-only\n/tmp/x is read-only\n/var/tmp/x is read-only\n%[1]s/dev/x is read-only\n", home)
	c, err := s.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if got := logOf(t, c, corev1.PodLogOptions{}); got != want {
		t.Errorf("the container printed\n%s\nwant\n%s", got, want)
	}
	if exit := c.Exit(); exit.Message != "last words\n" || exit.Code != 0 {
		t.Errorf("exit %+v", exit)
	}
}

// Where pods have no root directory of their own, an event names the fields of security contexts
// that have no effect.
func TestIgnoredSecurityContext(t *testing.T) {
	r, err := New(Config{Root: t.TempDir(), Unconfined: true})
	if err != nil {
		t.Fatal(err)
	}
	spec := shell("true")
	spec.Container.SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(7)),
		ReadOnlyRootFilesystem: new(true)}
	var events []string
	spec.Event = func(kind, reason, message string) { events = append(events, kind+" "+reason+" "+message) }
	s, err := r.Sandbox(t.Context(), spec.Pod)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Remove()
	for spec.Attempt = range int32(2) {
		c, err := s.Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		<-c.Done()
	}
	if len(events) != 1 || !strings.HasPrefix(events[0], "Warning SecurityContextIgnored") ||
		!strings.Contains(events[0], "readOnlyRootFilesystem") {
		t.Errorf("events %q", events)
	}
}

// Requests of CPU become weights, and resources change while a container runs.
func TestResize(t *testing.T) {
	r, err := New(Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	parents := r.groups.parents()
	if *parents == (hierarchies{}) {
		t.Skip("this process may not create control groups")
	}
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse(memory)}
	}
	spec := shell("echo ready; sleep 300")
	spec.Container.Resources = corev1.ResourceRequirements{Requests: list("250m", "16Mi"), Limits: list("500m", "32Mi")}
	s, err := r.Sandbox(t.Context(), spec.Pod)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Remove()
	c, err := s.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	settings := func() string {
		name := filepath.Join(r.groups.name, "uid-1-app-0")
		var all []string
		for _, file := range []string{"cpu.max", "cpu.weight", "memory.max"} {
			if parents.unified != "" {
				all = append(all, strings.TrimSpace(read(t, filepath.Join(parents.unified, name, file))))
			}
		}
		if parents.unified == "" {
			for _, file := range []string{parents.cpu + "/%s/cpu.cfs_quota_us", parents.cpu + "/%s/cpu.shares",
				parents.memory + "/%s/memory.limit_in_bytes"} {
				all = append(all, strings.TrimSpace(read(t, fmt.Sprintf(file, name))))
			}
		}
		return strings.Join(all, ", ")
	}
	for _, step := range []struct {
		to      corev1.ResourceRequirements
		unified string
		v1      string
	}{
		{spec.Container.Resources, "50000 100000, 10, 33554432", "50000, 256, 33554432"},
		{corev1.ResourceRequirements{Requests: list("1", "16Mi"), Limits: list("2", "64Mi")},
			"200000 100000, 39, 67108864", "200000, 1024, 67108864"},
		{corev1.ResourceRequirements{Requests: list("100m", "16Mi"), Limits: list("100m", "24Mi")},
			"10000 100000, 4, 25165824", "10000, 102, 25165824"},
	} {
		if err := c.(node.Resizer).Resize(step.to); err != nil {
			t.Fatal(err)
		}
		want := step.unified
		if parents.unified == "" {
			want = step.v1
		}
		if got := settings(); got != want {
			t.Errorf("settings %s, want %s", got, want)
		}
	}
	if err := c.(node.Resizer).Resize(corev1.ResourceRequirements{Limits: list("1", "64Ki")}); err == nil {
		t.Error("the memory limit is below the container's use, want an error")
	}

	// A container without limits has no group that could change.
	free := shell("echo ready; sleep 300")
	free.Pod.UID, free.Attempt = "uid-2", 0
	other, err := r.Sandbox(t.Context(), free.Pod)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Remove()
	if c, err = other.Start(t.Context(), free); err != nil {
		t.Fatal(err)
	}
	if err := c.(node.Resizer).Resize(spec.Container.Resources); !errors.Is(err, errNoGroup) {
		t.Errorf("error %v, want %v", err, errNoGroup)
	}
}
