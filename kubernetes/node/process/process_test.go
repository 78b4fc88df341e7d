//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/kubernetes/node"
)

func specOf(command ...string) node.ContainerSpec {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
	pod.Name, pod.Namespace, pod.UID = "p", "default", "uid-1"
	return node.ContainerSpec{Pod: pod, Container: &pod.Spec.Containers[0], Command: command}
}

// sandboxFor returns a sandbox of a runtime in a temporary directory.
func sandboxFor(t *testing.T, ctx context.Context, spec node.ContainerSpec) node.Sandbox {
	t.Helper()
	r, err := New(Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Sandbox(ctx, spec.Pod)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func start1(t *testing.T, spec node.ContainerSpec) node.Container {
	t.Helper()
	c, err := sandboxFor(t, t.Context(), spec).Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func shell(script string) node.ContainerSpec { return specOf("sh", "-c", script) }

func logOf(t *testing.T, c node.Container, opts corev1.PodLogOptions) string {
	t.Helper()
	r, err := c.Logs(t.Context(), &opts)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A process that ends reports its exit code and signal, and its log has both output streams.
func TestExit(t *testing.T) {
	for _, test := range []struct {
		script       string
		code, signal int32
		log          string
	}{
		{"echo out; echo err >&2; exit 3", 3, 0, "out\nerr\n"},
		{"true", 0, 0, ""},
		{"printf 'no newline'", 0, 0, "no newline\n"},
		{"kill -9 $$", 137, 9, ""},
		{"kill -15 $$", 143, 15, ""},
	} {
		c := start1(t, shell(test.script))
		<-c.Done()
		if exit := c.Exit(); exit.Code != test.code || exit.Signal != test.signal ||
			exit.FinishedAt.Before(c.StartedAt()) {
			t.Errorf("%s: exit %+v", test.script, exit)
		}
		got := logOf(t, c, corev1.PodLogOptions{})
		if got != test.log && got != "err\nout\n" { // the order of the streams is undefined
			t.Errorf("%s: log %q", test.script, got)
		}
	}
}

func TestEnvironmentAndDirectory(t *testing.T) {
	t.Setenv("SECRET_OF_THE_AGENT", "x")
	spec := shell(`env | sort; pwd; echo "$HOME"; echo "$0 $1"`)
	spec.Args = []string{"zero", "one"}
	spec.Env = []corev1.EnvVar{{Name: "GREETING", Value: "hello\tyou"}}
	c := start1(t, spec)
	<-c.Done()
	got := logOf(t, c, corev1.PodLogOptions{})
	for _, want := range []string{"GREETING=hello\tyou\n", "HOSTNAME=p\n", "PATH=" + defaultPath + "\n", "zero one\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("log lacks %q: %s", want, got)
		}
	}
	if strings.Contains(got, "SECRET") {
		t.Errorf("the container has the agent's environment: %s", got)
	}
	lines := strings.Split(strings.TrimSpace(got), "\n")
	if n := len(lines); lines[n-3] != lines[n-2] || !strings.HasSuffix(lines[n-2], "/uid-1/app/0") {
		t.Errorf("working directory %q, HOME %q", lines[n-3], lines[n-2])
	}
}

func TestStop(t *testing.T) {
	for _, test := range []struct {
		name, script string
		grace        time.Duration
		code         int32
	}{
		{"SIGTERM handled", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done", time.Minute, 7},
		{"SIGTERM not handled", "echo ready; sleep 100", time.Minute, 143},
		{"SIGTERM ignored", "trap '' TERM; echo ready; while :; do sleep 0.01; done", 50 * time.Millisecond, 137},
		{"no grace period", "trap '' TERM; echo ready; while :; do sleep 0.01; done", 0, 137},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			spec := shell(test.script)
			// Without control groups, the pods that run at the same time need different users.
			spec.Pod.UID = types.UID(strings.ReplaceAll(t.Name(), "/", "-"))
			c := start1(t, spec)
			one := int64(len("ready\n"))
			logOf(t, c, corev1.PodLogOptions{Follow: true, LimitBytes: &one})
			c.Stop(test.grace)
			<-c.Done()
			if exit := c.Exit(); exit.Code != test.code {
				t.Errorf("exit %+v, want code %d", exit, test.code)
			}
			c.Stop(0)
		})
	}
}

// A container ends when its first process ends. Its other processes are killed, and do not delay
// the end of the log.
func TestProcessGroupIsKilled(t *testing.T) {
	c := start1(t, shell("sleep 1000 & echo $!"))
	<-c.Done()
	pid, err := strconv.Atoi(strings.TrimSpace(logOf(t, c, corev1.PodLogOptions{})))
	if err != nil {
		t.Fatal(err)
	}
	for range 12_000 { // until init has reaped it
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) || zombie(pid) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d runs", pid)
}

// zombie reports whether a process has ended and waits to be reaped.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func TestFollow(t *testing.T) {
	c := start1(t, shell("echo one; sleep 0.05; echo two"))
	r, err := c.Logs(t.Context(), &corev1.PodLogOptions{Follow: true, Timestamps: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if lines := strings.Split(string(text), "\n"); err != nil || !strings.HasSuffix(lines[0], "Z one") ||
		!strings.Contains(string(text), "Z two\n") {
		t.Errorf("followed %q, %v", text, err)
	}
	<-c.Done()
}

func TestTerminationMessage(t *testing.T) {
	for _, test := range []struct {
		script, want string
		policy       corev1.TerminationMessagePolicy
	}{
		{"echo why > dev/termination-log", "why\n", corev1.TerminationMessageReadFile},
		{"echo log; exit 1", "", corev1.TerminationMessageReadFile},
		{"echo log; exit 1", "log\n", corev1.TerminationMessageFallbackToLogsOnError},
		{"echo log", "", corev1.TerminationMessageFallbackToLogsOnError},
		{"head -c 9000 /dev/zero | tr '\\0' x > dev/termination-log; exit 1", strings.Repeat("x", messageBytes),
			corev1.TerminationMessageFallbackToLogsOnError},
	} {
		spec := shell(test.script)
		spec.Container.TerminationMessagePath = "/dev/termination-log"
		spec.Container.TerminationMessagePolicy = test.policy
		c := start1(t, spec)
		<-c.Done()
		if got := c.Exit().Message; got != test.want {
			t.Errorf("%s: %q, want %q", test.script, got, test.want)
		}
	}
}

func TestStartErrors(t *testing.T) {
	for _, test := range []struct {
		spec node.ContainerSpec
		dir  string
		want string
	}{
		{specOf(), "", `container "app" has no command: the process runtime does not read images, so spec.containers[].command must be set`},
		{specOf("no-such-program"), "", `exec: "no-such-program": executable file not found in $PATH`},
		{specOf("/no/such/program"), "", `run container "app": fork/exec /no/such/program: no such file or directory`},
		{specOf("true"), "/no/such/directory", `container "app": working directory /no/such/directory does not exist`},
	} {
		test.spec.Container.WorkingDir = test.dir
		_, err := sandboxFor(t, t.Context(), test.spec).Start(t.Context(), test.spec)
		if err == nil || err.Error() != test.want {
			t.Errorf("got  %v\nwant %s", err, test.want)
		}
	}
}

func TestRefusesVolumes(t *testing.T) {
	r, err := New(Config{Root: t.TempDir(), Unconfined: true})
	if err != nil {
		t.Fatal(err)
	}
	spec := specOf("true")
	token := corev1.VolumeMount{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}
	spec.Container.VolumeMounts = []corev1.VolumeMount{token}
	if _, err := r.Sandbox(t.Context(), spec.Pod); err != nil {
		t.Errorf("refused for the service account's token: %v", err)
	}
	spec.Container.VolumeMounts = append(spec.Container.VolumeMounts,
		corev1.VolumeMount{Name: "data", MountPath: "/data"})
	if _, err := r.Sandbox(t.Context(), spec.Pod); err == nil ||
		!strings.Contains(err.Error(), `mounts volume "data" at /data`) {
		t.Errorf("error %v", err)
	}
}

// Processes do not outlive their agent. Its successor detects that they have ended, and finds their
// logs.
func TestAgentEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	spec := shell("echo here; sleep 1000")
	s := sandboxFor(t, ctx, spec)
	c, err := s.Start(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	one := int64(5)
	logOf(t, c, corev1.PodLogOptions{Follow: true, LimitBytes: &one})
	cancel()
	<-c.Done()
	if c.Exit().Code != 143 {
		t.Errorf("exit %+v", c.Exit())
	}
	adopted := s.Adopt(t.Context(), spec, corev1.ContainerStatus{ContainerID: c.ID(),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	<-adopted.Done()
	if got := logOf(t, adopted, corev1.PodLogOptions{}); got != "here\n" ||
		adopted.Exit().Reason != "ContainerStatusUnknown" {
		t.Errorf("log %q, exit %+v", got, adopted.Exit())
	}
}

func TestRemoveAndOldAttempts(t *testing.T) {
	spec := shell("echo x")
	s := sandboxFor(t, t.Context(), spec)
	dir := s.(*sandbox).dir
	for spec.Attempt = 0; spec.Attempt < 4; spec.Attempt++ {
		c, err := s.Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		<-c.Done()
	}
	found, _ := filepath.Glob(filepath.Join(dir, "app", "*"))
	if len(found) != 4 { // a directory and a log for each of the two newest attempts
		t.Errorf("kept %v", found)
	}
	spec.Command = []string{"sleep", "1000"}
	c, err := s.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(); err != nil {
		t.Error(err)
	}
	<-c.Done()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the pod's directory: %v", err)
	}
}

// The next agent kills the processes that a killed agent left running.
func TestLeftoverProcessesAreKilled(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("this system does not show processes' environments")
	}
	spec := shell("echo here; sleep 1000")
	s := sandboxFor(t, t.Context(), spec)
	c, err := s.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	one := int64(5)
	logOf(t, c, corev1.PodLogOptions{Follow: true, LimitBytes: &one})
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	other := spec
	other.Attempt = 5 // with another directory: not this process
	s.Adopt(t.Context(), other, corev1.ContainerStatus{ContainerID: c.ID(), State: running})
	select {
	case <-c.Done():
		t.Error("another container was killed")
	default:
	}
	s.Adopt(t.Context(), spec, corev1.ContainerStatus{ContainerID: c.ID(), State: running})
	<-c.Done()
}
