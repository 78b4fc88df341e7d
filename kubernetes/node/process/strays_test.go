//go:build linux

package process

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/kubernetes/node"
)

// running reports whether a process has title as an argument.
func running(title string) bool {
	return slices.ContainsFunc(processes(), func(pid int) bool {
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err == nil && slices.Contains(strings.Split(string(args), "\x00"), title) && statusOf(pid) != ""
	})
}

// strayTitle is an argument of the processes that a test starts, which no other process has.
func strayTitle(t *testing.T, what string) string {
	title := fmt.Sprintf("stray-%s-%d-%d", what, os.Getpid(), time.Now().UnixNano())
	t.Cleanup(func() {
		endAll(func(pid int) bool {
			args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			return strings.Contains(string(args), title)
		})
	})
	return title
}

// uidOf returns the uid of a pod. Pods with one uid have one user, all of whose processes a runtime
// kills; so it differs from those in other processes that run the tests.
func uidOf(t *testing.T) types.UID {
	return types.UID(fmt.Sprint(strings.ReplaceAll(t.Name(), "/", "-"), "-", os.Getpid()))
}

// leave is a script that starts a process in its own session with the argument title, and waits
// until it runs.
func leave(title string) string {
	return fmt.Sprintf(`setsid sh -c 'echo $$ > "$0.pid"; sleep 300; :' %[1]s > /dev/null 2>&1 & while ! [ -s %[1]s.pid ]; do sleep 0.01; done; `, title)
}

// strayCase is a kind of runtime.
type strayCase struct {
	name      string
	config    Config
	untracked bool // without control groups
}

var strayCases = []strayCase{
	{"default", Config{}, false},
	{"untracked", Config{}, true},
	{"unconfined", Config{Unconfined: true}, false},
	{"unconfined and untracked", Config{Unconfined: true}, true},
}

func (c strayCase) sandbox(t *testing.T, ctx context.Context, root string, spec node.ContainerSpec) node.Sandbox {
	t.Helper()
	c.config.Root = root
	r, err := New(c.config)
	if err != nil {
		t.Fatal(err)
	}
	if c.untracked {
		r.groups.tracking = func() string { return "" }
	}
	s, err := r.Sandbox(ctx, spec.Pod)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func startIn(t *testing.T, s node.Sandbox, spec node.ContainerSpec) node.Container {
	t.Helper()
	c, err := s.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ready(t *testing.T, c node.Container) {
	t.Helper()
	one := int64(len("ready\n"))
	if got := logOf(t, c, corev1.PodLogOptions{Follow: true, LimitBytes: &one}); got != "ready\n" {
		t.Fatalf("log %q", got)
	}
}

// Processes that leave the process group of their container end with the container and with the
// pod, also if they were started by exec.
func TestStrayProcessesEnd(t *testing.T) {
	for _, test := range strayCases {
		t.Run(test.name, func(t *testing.T) {
			first, second, executed := strayTitle(t, "first"), strayTitle(t, "second"), strayTitle(t, "executed")
			spec := shell(leave(first) + "echo ready; exit 3")
			spec.Pod.UID = uidOf(t)
			s := test.sandbox(t, t.Context(), t.TempDir(), spec)
			defer s.Remove()
			c := startIn(t, s, spec)
			<-c.Done()
			if code := c.Exit().Code; code != 3 {
				t.Errorf("exit code %d, log %q", code, logOf(t, c, corev1.PodLogOptions{}))
			}
			if running(first) {
				t.Error("the process outlives its container")
			}

			spec.Attempt, spec.Command = 1, []string{"sh", "-c", leave(second) + "echo ready; sleep 300"}
			c = startIn(t, s, spec)
			ready(t, c)
			if err := c.(node.Executor).Exec(t.Context(), []string{"sh", "-c", leave(executed)},
				node.Streams{}); err != nil {
				t.Fatal(err)
			}
			if !running(second) {
				t.Error("the process does not run")
			}
			if err := s.Remove(); err != nil {
				t.Fatal(err)
			}
			if running(second) || running(executed) {
				t.Errorf("processes outlive their pod: of the container %t, of exec %t", running(second),
					running(executed))
			}
		})
	}
}

// The end of a container does not end the other containers of its pod.
func TestStrayProcessesOfOneContainer(t *testing.T) {
	for _, test := range strayCases {
		t.Run(test.name, func(t *testing.T) {
			title := strayTitle(t, "one")
			spec := shell(leave(title) + "echo ready; exit 0")
			spec.Pod.UID = uidOf(t)
			s := test.sandbox(t, t.Context(), t.TempDir(), spec)
			defer s.Remove()
			other := spec
			other.Container, other.Command = &corev1.Container{Name: "other"},
				[]string{"sh", "-c", "echo ready; sleep 300"}
			remaining := startIn(t, s, other)
			ready(t, remaining)
			c := startIn(t, s, spec)
			<-c.Done()
			if running(title) {
				t.Error("the process outlives its container")
			}
			select {
			case <-remaining.Done():
				t.Errorf("the other container ended: %+v", remaining.Exit())
			case <-time.After(50 * time.Millisecond):
			}
		})
	}
}

// A process that hides its environment and, if it can, enters another user namespace ends too.
func TestHidingProcessesEnd(t *testing.T) {
	for _, test := range strayCases[:2] {
		t.Run(test.name, func(t *testing.T) {
			title := strayTitle(t, "hiding")
			script := strings.ReplaceAll(leave(title), "setsid sh",
				"env -i PATH=$PATH setsid $(unshare -Ur true 2>/dev/null && echo unshare -Ur) sh")
			spec := shell(script + "echo ready; exit 0")
			spec.Pod.UID = uidOf(t)
			s := test.sandbox(t, t.Context(), t.TempDir(), spec)
			defer s.Remove()
			c := startIn(t, s, spec)
			<-c.Done()
			if got := logOf(t, c, corev1.PodLogOptions{}); got != "ready\n" || running(title) {
				t.Errorf("log %q, the process outlives its container: %t", got, running(title))
			}
		})
	}
}

// The next agent kills the processes of a pod that a killed agent left, also those that have left
// their process group.
func TestLeftoverStraysAreKilled(t *testing.T) {
	for _, test := range strayCases {
		t.Run(test.name, func(t *testing.T) {
			title := strayTitle(t, "leftover")
			spec := shell(leave(title) + "echo ready; sleep 300")
			spec.Pod.UID = uidOf(t)
			root := t.TempDir()
			killed := test.sandbox(t, t.Context(), root, spec)
			c := startIn(t, killed, spec)
			ready(t, c)
			next := test.sandbox(t, t.Context(), root, spec)
			state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
			next.Adopt(t.Context(), spec, corev1.ContainerStatus{ContainerID: c.ID(), State: state})
			if running(title) {
				t.Error("the process runs")
			}
			<-c.Done()
			if err := next.Remove(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A first process that moves to another process group is killed.
func TestFirstProcessLeavesItsGroup(t *testing.T) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("SKIPPED: needs Python")
	}
	c := start1(t, specOf("/usr/bin/python3", "-c", `
import os, time
child = os.fork()
if child == 0:
    os.setpgid(0, 0); print("ready", flush=True); time.sleep(20)
time.sleep(0.2)
os.setpgid(0, child)
print("moved", flush=True)
time.sleep(20)`))
	one := int64(len("ready\nmoved\n"))
	logOf(t, c, corev1.PodLogOptions{Follow: true, LimitBytes: &one})
	c.Stop(0)
	select {
	case <-c.Done():
	case <-time.After(time.Minute):
		t.Fatal("the container runs")
	}
}

// Killing the processes of a user ends no others.
func TestEndUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	const user = firstUser + 12345
	for _, p := range []struct {
		user uint32
		ends syscall.Signal
	}{{user, syscall.SIGKILL}, {user + 1, syscall.SIGTERM}, {0, syscall.SIGTERM}} {
		pid, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "300"}, &syscall.ProcAttr{
			Sys: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: p.user, Gid: p.user}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			var status syscall.WaitStatus
			_ = syscall.Kill(pid, syscall.SIGTERM)
			_, _ = syscall.Wait4(pid, &status, 0, nil)
			if status.Signal() != p.ends {
				t.Errorf("the process of user %d ended by %s, want %s", p.user, status.Signal(), p.ends)
			}
		}()
	}
	endUser(user)
	if os.Geteuid() != 0 {
		t.Error("this process is not root")
	}
}

// The first processes of containers and of commands in them end with their agent, even if it is
// killed and no other agent follows; with control groups, the others do, too. This test is also the
// agent.
func TestProcessesEndWithKilledAgent(t *testing.T) {
	if titles := strings.Fields(os.Getenv("TITLES")); len(titles) > 0 {
		runAgent(t, Config{Root: os.Getenv("ROOT"), Unconfined: os.Getenv("UNCONFINED") != ""}, titles[0], titles[1],
			titles[2])
		return
	}
	for _, unconfined := range []string{"", "unconfined"} {
		t.Run(unconfined, func(t *testing.T) {
			titles := []string{strayTitle(t, "container"), strayTitle(t, "command"), strayTitle(t, "stray")}
			agent := exec.Command(os.Args[0], "-test.run=^TestProcessesEndWithKilledAgent$")
			root := t.TempDir()
			agent.Env = append(os.Environ(), "ROOT="+root, "UNCONFINED="+unconfined,
				"TITLES="+strings.Join(titles, " "))
			out, err := agent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := agent.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "started\n" {
				t.Errorf("the agent printed %q, %v", line, err)
			}
			if err := agent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = agent.Wait()
			r, err := New(Config{Root: root, Unconfined: unconfined != ""})
			if err != nil {
				t.Fatal(err)
			}
			if !r.groups.tracked() {
				t.Log("SKIPPED: strays need control groups")
				titles = titles[:2]
			}
			for _, title := range titles {
				for end := time.Now().Add(time.Minute); running(title); time.Sleep(strayPause) {
					if time.Now().After(end) {
						t.Fatalf("the process %s has not ended", title)
					}
				}
			}
			// The next agent removes what is left, such as control groups.
			spec := shell("true")
			s, err := r.Sandbox(t.Context(), spec.Pod)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Start(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			if err := s.Remove(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// runAgent starts a container and a command in it, prints a line, and waits until it is killed.
func runAgent(t *testing.T, config Config, titleOfContainer, titleOfCommand, titleOfStray string) {
	const script = "sleep 300; :"
	r, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	spec := specOf("sh", "-c", leave(titleOfStray)+script, titleOfContainer)
	s, err := r.Sandbox(t.Context(), spec.Pod)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	go c.(node.Executor).Exec(t.Context(), []string{"sh", "-c", script, titleOfCommand}, node.Streams{})
	for range 50 { // the processes do not end with a thread of this process that has done its work
		if err := c.(node.Executor).Exec(t.Context(), []string{"true"}, node.Streams{}); err != nil {
			t.Fatal(err)
		}
	}
	for !running(titleOfContainer) || !running(titleOfCommand) || !running(titleOfStray) {
		time.Sleep(strayPause)
	}
	fmt.Println("started")
	select {}
}
