package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilexec "k8s.io/utils/exec"

	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/node"
)

// scripted is a runtime whose containers run until they are stopped. They end a second after
// SIGTERM. answer decides how commands in them end, and journal lists the events, with the seconds
// since the start.
type scripted struct {
	start  time.Time
	answer func(command string, attempt int32) error

	mu      sync.Mutex
	journal []string
}

func (s *scripted) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := fmt.Sprintf("%v ", time.Since(s.start).Seconds()) + fmt.Sprintf(format, args...)
	if len(s.journal) == 0 || s.journal[len(s.journal)-1] != line { // Stop may be called again
		s.journal = append(s.journal, line)
	}
}

func (s *scripted) Info() node.Info {
	return node.Info{Name: "scripted", Version: "1", Executes: true}
}
func (s *scripted) Sandbox(context.Context, *corev1.Pod) (node.Sandbox, error) {
	return scriptedSandbox{s}, nil
}

type scriptedSandbox struct{ *scripted }

func (s scriptedSandbox) IP() string    { return "192.0.2.9" }
func (s scriptedSandbox) Remove() error { return nil }
func (s scriptedSandbox) Adopt(context.Context, node.ContainerSpec, corev1.ContainerStatus) node.Container {
	panic("not used")
}

func (s scriptedSandbox) Start(ctx context.Context, spec node.ContainerSpec) (node.Container, error) {
	c := &scriptedContainer{runtime: s.scripted, spec: spec, started: time.Now(), done: make(chan struct{})}
	s.note("start %s", spec.Container.Name)
	context.AfterFunc(ctx, func() { c.end(143) })
	return c, nil
}

type scriptedContainer struct {
	runtime *scripted
	spec    node.ContainerSpec
	started time.Time
	once    sync.Once
	code    int32
	at      time.Time
	done    chan struct{}
}

func (c *scriptedContainer) ID() string {
	return fmt.Sprintf("scripted://%s-%d", c.spec.Container.Name, c.spec.Attempt)
}
func (c *scriptedContainer) StartedAt() time.Time  { return c.started }
func (c *scriptedContainer) Done() <-chan struct{} { return c.done }
func (c *scriptedContainer) Exit() node.Exit       { return node.Exit{Code: c.code, FinishedAt: c.at} }
func (c *scriptedContainer) Logs(context.Context, *corev1.PodLogOptions) (io.ReadCloser, error) {
	return nil, node.ErrNoLogs
}

func (c *scriptedContainer) end(code int32) {
	c.once.Do(func() {
		c.code, c.at = code, time.Now()
		close(c.done)
	})
}

func (c *scriptedContainer) Stop(grace time.Duration) {
	c.runtime.note("stop %s within %s", c.spec.Container.Name, grace)
	time.AfterFunc(time.Second, func() { c.end(143) })
}

func (c *scriptedContainer) Exec(ctx context.Context, command []string, _ node.Streams) error {
	line := strings.Join(command, " ")
	if line == "hang" {
		<-ctx.Done()
		return ctx.Err()
	}
	return c.runtime.answer(line, c.spec.Attempt)
}

var errExit1 = utilexec.CodeExitError{Err: errors.New("exit"), Code: 1}

func onScripted(t *testing.T, answer func(command string, attempt int32) error,
	story func(t *testing.T, w *fixture, s *scripted)) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, controlplane.Config{})
		s := &scripted{start: time.Now(), answer: answer}
		agent, err := node.NewAgent(node.AgentConfig{Config: w.plane.RESTConfig(), Name: "n", Runtime: s,
			LeaseDuration: -1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { defer close(over); agent.Run(ctx) }()
		defer func() { cancel(); <-over }()
		synctest.Wait()
		story(t, w, s)
	})
}

func command(line string) corev1.ProbeHandler {
	return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: strings.Fields(line)}}
}

func runLine(line string) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: strings.Fields(line)}}
}

func onNode(policy corev1.RestartPolicy) *corev1.Pod {
	p := pod(policy, nil, "x")
	p.Spec.NodeName = "n"
	return p
}

func (w *fixture) sleep(d time.Duration) corev1.ContainerStatus {
	w.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	return w.get().Status.ContainerStatuses[0]
}

func wantJournal(t *testing.T, s *scripted, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.journal, want) {
		t.Errorf("journal\n%s\nwant\n%s", strings.Join(s.journal, "\n"), strings.Join(want, "\n"))
	}
}

// The readiness probe decides whether a container is ready, after its thresholds.
func TestReadinessProbe(t *testing.T) {
	healthy := false
	onScripted(t, func(string, int32) error {
		if healthy {
			return nil
		}
		return errExit1
	}, func(t *testing.T, w *fixture, s *scripted) {
		p := onNode("Always")
		p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: command("check"), InitialDelaySeconds: 5,
			PeriodSeconds: 10, SuccessThreshold: 2, FailureThreshold: 2}
		w.create(p)
		if c := w.sleep(time.Second); c.Ready || !*c.Started || c.State.Running == nil {
			t.Errorf("before the first probe: %+v", c)
		}
		healthy = true
		if c := w.sleep(5 * time.Second); c.Ready {
			t.Error("ready after one success")
		}
		if c := w.sleep(10 * time.Second); !c.Ready {
			t.Error("not ready after two successes")
		}
		healthy = false
		if c := w.sleep(10 * time.Second); !c.Ready {
			t.Error("not ready after one failure")
		}
		if c := w.sleep(10 * time.Second); c.Ready || c.RestartCount != 0 {
			t.Errorf("after two failures: %+v", c)
		}
		if got := w.events(); !slices.Contains(got, "Unhealthy: Readiness probe failed:  (x2)") {
			t.Errorf("events %q", got)
		}
	})
}

// A failed liveness probe restarts the container. Liveness probes begin after the startup probe has
// succeeded.
func TestStartupAndLivenessProbe(t *testing.T) {
	tries := 0
	onScripted(t, func(line string, attempt int32) error {
		if line == "started" {
			if tries++; tries < 3 {
				return errExit1
			}
			return nil
		}
		if attempt == 0 {
			return errExit1
		}
		return nil
	}, func(t *testing.T, w *fixture, s *scripted) {
		p := onNode("Always")
		c := &p.Spec.Containers[0]
		c.StartupProbe = &corev1.Probe{ProbeHandler: command("started"), PeriodSeconds: 10, FailureThreshold: 5}
		seconds := int64(7)
		c.LivenessProbe = &corev1.Probe{ProbeHandler: command("alive"), PeriodSeconds: 10, FailureThreshold: 2,
			TerminationGracePeriodSeconds: &seconds}
		w.create(p)
		if c := w.sleep(15 * time.Second); *c.Started || c.Ready {
			t.Errorf("before the startup probe succeeded: %+v", c)
		}
		if c := w.sleep(10 * time.Second); !*c.Started || !c.Ready {
			t.Errorf("after the startup probe succeeded: %+v", c)
		}
		// The first attempt ends at 31, a second after the second failed liveness probe.
		if c := w.sleep(30 * time.Second); c.RestartCount != 1 || !c.Ready ||
			c.LastTerminationState.Terminated.ExitCode != 143 {
			t.Errorf("after the liveness probe failed: %+v", c)
		}
		wantJournal(t, s, "0 start app", "30 stop app within 7s", "31 start app")
		got := w.events()
		for _, want := range []string{"Unhealthy: Startup probe failed:  (x2)",
			"Unhealthy: Liveness probe failed:  (x2)",
			"Killing: Container app failed liveness probe, will be restarted (x1)"} {
			if !slices.Contains(got, want) {
				t.Errorf("no event %q in %q", want, got)
			}
		}
	})
}

// A startup probe that keeps failing ends in a crash loop with back-off. A probe that hangs counts
// as failed at its timeout.
func TestStartupProbeFails(t *testing.T) {
	onScripted(t, nil, func(t *testing.T, w *fixture, s *scripted) {
		p := onNode("Always")
		p.Spec.Containers[0].StartupProbe = &corev1.Probe{ProbeHandler: command("hang"), PeriodSeconds: 10,
			TimeoutSeconds: 3, FailureThreshold: 1}
		w.create(p)
		if c := w.sleep(10 * time.Second); c.State.Waiting == nil || c.State.Waiting.Reason != "CrashLoopBackOff" ||
			c.RestartCount != 1 {
			t.Errorf("status %+v", c)
		}
		w.sleep(10 * time.Second)
		wantJournal(t, s, "0 start app", "3 stop app within 30s", "4 start app", "7 stop app within 30s",
			"18 start app")
		if got := w.events(); !slices.Contains(got,
			`Unhealthy: Startup probe failed: command timed out: "hang" timed out (x2)`) {
			t.Errorf("events %q", got)
		}
	})
}

// The hooks run before the next container starts, and before SIGTERM, within the grace period.
func TestLifecycleHooks(t *testing.T) {
	var s *scripted
	onScripted(t, func(line string, _ int32) error {
		s.note("%s", line)
		time.Sleep(4 * time.Second)
		return nil
	}, func(t *testing.T, w *fixture, runtime *scripted) {
		s = runtime
		p := onNode("Always")
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: runLine("hello"), PreStop: runLine("bye")}
		always := corev1.ContainerRestartPolicyAlways
		p.Spec.InitContainers = []corev1.Container{{Name: "side", Image: "i", RestartPolicy: &always,
			Lifecycle: &corev1.Lifecycle{PostStart: runLine("side")}}}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "next", Image: "i",
			Lifecycle: &corev1.Lifecycle{PreStop: runLine("hang")}})
		seconds := int64(10)
		p.Spec.TerminationGracePeriodSeconds = &seconds
		w.create(p)
		if c := w.sleep(5 * time.Second); c.Ready || *c.Started {
			t.Errorf("during the postStart hook: %+v", c)
		}
		if c := w.sleep(5 * time.Second); !c.Ready {
			t.Errorf("after the postStart hook: %+v", c)
		}
		if err := w.client.Delete(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.get() != nil {
			t.Error("the pod was not deleted")
		}
		wantJournal(t, s, "0 start side", "0 side", "4 start app", "4 hello", "8 start next", "10 bye",
			"14 stop app within 6s", "20 stop next within 2s", "21 stop side within 10s")
	})
}

// A failed postStart hook ends the container.
func TestPostStartFails(t *testing.T) {
	onScripted(t, func(string, int32) error { return errExit1 }, func(t *testing.T, w *fixture, s *scripted) {
		p := onNode("Never")
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: runLine("false")}
		w.create(p)
		w.sleep(10 * time.Second)
		w.wantPhase(corev1.PodFailed)
		wantJournal(t, s, "0 start app", "0 stop app within 30s")
		if got := w.events(); !slices.Contains(got, "FailedPostStartHook: PostStartHook failed (x1)") ||
			!slices.Contains(got, "Killing: FailedPostStartHook (x1)") {
			t.Errorf("events %q", got)
		}
	})
}
