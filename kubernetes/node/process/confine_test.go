//go:build linux

package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/kubernetes/node"
)

const secret = "the key of the authority"

// attacked is a machine with secrets: a data directory around the runtime's own, and a home
// directory.
type attacked struct {
	data, home string
	runtime    *Runtime
}

func newAttacked(t *testing.T, base string, config Config) *attacked {
	t.Helper()
	a := &attacked{data: filepath.Join(base, "data"), home: filepath.Join(base, "home")}
	for _, name := range []string{"data/pki/ca.key", "data/kubeconfig", "data/planes/p1/kubeconfig",
		"home/.kube/config", "open/kubeconfig"} {
		name = filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o600)
		if strings.Contains(name, "open/") {
			mode = 0o644 // only a separate root directory hides it
		}
		if err := os.WriteFile(name, []byte(secret), mode); err != nil {
			t.Fatal(err)
		}
	}
	config.Root = filepath.Join(a.data, "node")
	var err error
	if a.runtime, err = New(config); err != nil {
		t.Fatal(err)
	}
	return a
}

// attack is a container's script. It looks for the secret in every way that a process has, and
// prints what it finds.
const attack = `
cd / 2>/dev/null
for f in %[1]s/pki/ca.key %[1]s/kubeconfig %[1]s/planes/p1/kubeconfig %[2]s/.kube/config; do
	cat $f 2>/dev/null && echo "READ $f"
	cat "$HOME/../../../../../../../../../$f" 2>/dev/null && echo "READ $f from HOME"
done
ls %[1]s/pki 2>/dev/null && echo "LISTED pki"
find %[1]s -name '*.key' 2>/dev/null | grep key && echo "FOUND a key"
for p in /proc/[0-9]*; do
	cat $p/root%[1]s/pki/ca.key 2>/dev/null && echo "READ through $p/root"
	cat $p/cwd/ca.key 2>/dev/null && echo "READ through $p/cwd"
done
grep -z SECRET_OF_THE_AGENT /proc/%[3]d/environ 2>/dev/null && echo "READ the environment"
for f in /proc/%[3]d/fd/*; do readlink $f 2>/dev/null && echo "READ open file $f"; done
cat /etc/shadow 2>/dev/null && echo "READ shadow"
(echo x > /usr/bin/kelson-attack) 2>/dev/null && echo "WROTE /usr/bin"
(echo x > %[1]s/written) 2>/dev/null
kill -0 %[3]d 2>/dev/null && echo "CAN SIGNAL the agent"
unshare -Ur cat %[1]s/pki/ca.key 2>/dev/null && echo "READ as root of a namespace"
[ "$(id -u)" = 0 ] && echo "IS ROOT"
ln -s %[1]s/pki/ca.key "$HOME/dev/termination-log"
touch "$HOME/mine" && echo x > /tmp/mine && echo over
`

func (a *attacked) script() string { return fmt.Sprintf(attack, a.data, a.home, os.Getpid()) }

// run runs a container until it ends and returns its exit and output.
func (a *attacked) run(t *testing.T, spec node.ContainerSpec) (node.Exit, string) {
	t.Helper()
	s, err := a.runtime.Sandbox(t.Context(), spec.Pod)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Remove()
	c, err := s.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	r, err := c.Logs(t.Context(), &corev1.PodLogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return c.Exit(), string(text)
}

func (a *attacked) attack(t *testing.T) {
	t.Helper()
	spec := shell(a.script())
	spec.Container.TerminationMessagePath = "/dev/termination-log"
	exit, log := a.run(t, spec)
	if log != "over\n" || exit.Code != 0 || strings.Contains(exit.Message, secret) {
		t.Errorf("%s: exit %+v, attack output\n%s", a.runtime.Confinement(), exit, log)
	}
	if _, err := os.Stat(filepath.Join(a.data, "written")); err == nil {
		t.Error("the data directory was written to")
	}
	// The same attack by exec.
	spec = shell("echo ready; sleep 300")
	s, err := a.runtime.Sandbox(t.Context(), spec.Pod)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Remove()
	c, err := s.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, terminal := range []bool{false, true} {
		var out strings.Builder
		err = c.(node.Executor).Exec(t.Context(), []string{"sh", "-c", a.script()},
			node.Streams{Stdout: &out, TTY: terminal})
		if got := strings.ReplaceAll(out.String(), "\r", ""); !strings.HasSuffix(got, "over\n") ||
			strings.Contains(got, secret) || strings.Contains(got, "READ") {
			t.Errorf("%s: exec: %q, %v", a.runtime.Confinement(), got, err)
		}
	}
}

// A pod can't read the data directory or the administrator's kubeconfig in any way.
func TestPodsCannotReadTheServersFiles(t *testing.T) {
	if os.Getenv("KELSON_TEST_UNPRIVILEGED") == "" && os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	t.Setenv("SECRET_OF_THE_AGENT", secret)
	a := newAttacked(t, t.TempDir(), Config{})
	if a.runtime.Confinement() != ConfinedRoot {
		t.Skipf("SKIPPED: this system confines pods by %q only", a.runtime.Confinement())
	}
	a.attack(t)
	if _, log := a.run(t, shell("cat "+filepath.Join(filepath.Dir(a.data), "open", "kubeconfig")+
		"; ls / /run /root /home")); strings.Contains(log, secret) {
		t.Errorf("a file that all users may read: %s", log)
	}
	for _, link := range []string{"mkfifo dev/termination-log", "mkdir dev/termination-log",
		"rm -rf dev; ln -s " + a.data + "/pki dev; true"} {
		spec := shell(link)
		spec.Container.TerminationMessagePath = "/dev/termination-log"
		if exit, log := a.run(t, spec); exit.Code != 0 || exit.Message != "" {
			t.Errorf("%s: %+v %s", link, exit, log)
		}
	}
}

// The same with ConfinedUser, as in a container that is not allowed to mount.
func TestConfinedUserCannotReadTheServersFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	t.Setenv("SECRET_OF_THE_AGENT", secret)
	a := newAttacked(t, t.TempDir(), Config{})
	a.runtime.confinement = ConfinedUser
	var err error
	if a.runtime.config.Root, err = openDirectory(a.runtime.config.Root); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(a.runtime.config.Root) })
	a.attack(t)
}

// The same with an agent that does not run as root: the test runs itself as another user.
func TestUnprivilegedAgent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root, to become another user")
	}
	dir, err := os.MkdirTemp("", "kelson-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "test")
	if err := errors.Join(os.WriteFile(program, self, 0o755), os.Chmod(dir, 0o755), os.Mkdir(dir+"/tmp", 0o777),
		os.Chmod(dir+"/tmp", 0o777)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.v",
		"-test.run=^(TestPodsCannotReadTheServersFiles|TestExit|TestExec|TestEnvironmentAndDirectory|TestStartErrors|TestTerminationMessage|TestStop|TestLeftoverProcessesAreKilled|TestFollow|TestAgentEnds|TestVolumesAreMounted|TestVolumeUpdate|TestIdentity|TestReadOnlyRootFilesystem|TestDescriptorsAreNotInherited|TestStrayProcessesEnd|TestStrayProcessesOfOneContainer|TestHidingProcessesEnd|TestLeftoverStraysAreKilled)$")
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir + "/tmp", "HOME=" + dir,
		"KELSON_TEST_UNPRIVILEGED=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), ErrNotConfined.Error()) {
		t.Skipf("SKIPPED: this system can't confine pods of users other than root: %s", out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestPodsCannotReadTheServersFiles") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Containers of different pods run as different users.
func TestPodsHaveDifferentUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	a := newAttacked(t, t.TempDir(), Config{})
	one, other := shell("id -u"), shell("id -u")
	pod := other.Pod.DeepCopy()
	pod.UID = "uid-2"
	other.Pod, other.Container = pod, &pod.Spec.Containers[0]
	_, a1 := a.run(t, one)
	_, a2 := a.run(t, one)
	_, b := a.run(t, other)
	if a1 != a2 || a1 == b || strings.TrimSpace(a1) == "0" {
		t.Errorf("users %q, %q and %q", a1, a2, b)
	}
}

func TestHidden(t *testing.T) {
	dir, err := os.MkdirTemp("/opt", "kelson-test-")
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	a := newAttacked(t, dir, Config{Hidden: []string{filepath.Join(dir, "data"), filepath.Join(dir, "home"),
		filepath.Join(dir, "open", "kubeconfig")}})
	if a.runtime.Confinement() != ConfinedRoot {
		t.Skipf("SKIPPED: this system confines pods by %q only", a.runtime.Confinement())
	}
	a.attack(t)
	if _, log := a.run(t, shell("cat "+dir+"/open/kubeconfig")); strings.Contains(log, secret) {
		t.Error(log)
	}
}

// Unconfined pods run as the agent's user and can read its files.
func TestUnconfined(t *testing.T) {
	a := newAttacked(t, t.TempDir(), Config{Unconfined: true})
	if _, log := a.run(t, shell("cat "+a.data+"/pki/ca.key")); log != secret+"\n" ||
		a.runtime.Confinement() != Unconfined {
		t.Errorf("%s: %s", a.runtime.Confinement(), log)
	}
}

func BenchmarkStart(b *testing.B) {
	for _, unconfined := range []bool{true, false} {
		b.Run(fmt.Sprintf("unconfined=%t", unconfined), func(b *testing.B) {
			r, err := New(Config{Root: b.TempDir(), Unconfined: unconfined})
			if err != nil {
				b.Skip(err)
			}
			for b.Loop() {
				spec := specOf("true")
				s, err := r.Sandbox(b.Context(), spec.Pod)
				if err != nil {
					b.Fatal(err)
				}
				c, err := s.Start(b.Context(), spec)
				if err != nil {
					b.Fatal(err)
				}
				<-c.Done()
				if err := s.Remove(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
