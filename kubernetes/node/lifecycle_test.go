package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

// fake is a started container. The state machine uses only its id and start time.
type fake struct {
	Container
	id      string
	started time.Time
}

func (f fake) ID() string           { return f.id }
func (f fake) StartedAt() time.Time { return f.started }

// testPod returns a pod with init containers (a name with "+" is a sidecar) and main containers.
func testPod(policy corev1.RestartPolicy, inits, mains []string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"},
		Spec:       corev1.PodSpec{RestartPolicy: policy},
	}
	always := corev1.ContainerRestartPolicyAlways
	for _, name := range inits {
		c := corev1.Container{Name: name}
		if name[len(name)-1] == '+' {
			c = corev1.Container{Name: name[:len(name)-1], RestartPolicy: &always}
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for _, name := range mains {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: "i"})
	}
	return pod
}

func names(records []*record) string {
	out := ""
	for _, r := range records {
		out += r.spec.Name
	}
	return out
}

// Each line has the events at a second, and what the state machine then plans and reports.
func TestLifecycle(t *testing.T) {
	type line struct {
		at          int
		run, end    string // containers that are started, that have ended
		code        int32
		deletes     bool
		start, stop string // planned
		wake        int    // second; 0 means none
		phase       corev1.PodPhase
		// of the first main container: whether it is ready, and its waiting reason
		ready, waits  string
		ended, failed bool
	}
	seconds := int64(30)
	deadline := func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = &seconds }
	for _, test := range []struct {
		name         string
		policy       corev1.RestartPolicy
		inits, mains []string
		change       func(*corev1.Pod)
		story        []line
	}{
		{"succeeds", "Never", nil, []string{"a"}, nil, []line{
			{at: 0, start: "a", phase: "Pending", waits: "ContainerCreating"},
			{at: 1, run: "a", phase: "Running", ready: "true"},
			{at: 2, end: "a", phase: "Succeeded", ended: true},
		}},
		{"fails", "Never", nil, []string{"a", "b"}, nil, []line{
			{at: 0, run: "ab", phase: "Running", ready: "true"},
			{at: 1, end: "a", code: 3, phase: "Running"},
			{at: 2, end: "b", phase: "Failed", ended: true},
		}},
		{"init containers in order", "Never", []string{"i", "j"}, []string{"a"}, nil, []line{
			{at: 0, start: "i", phase: "Pending", waits: "PodInitializing"},
			{at: 0, run: "i", phase: "Pending", waits: "PodInitializing"},
			{at: 1, end: "i", start: "j", phase: "Pending", waits: "PodInitializing"},
			{at: 1, run: "j", phase: "Pending", waits: "PodInitializing"},
			{at: 2, end: "j", start: "a", phase: "Pending", waits: "PodInitializing"},
			{at: 2, run: "a", phase: "Running", ready: "true"},
		}},
		{"init container fails permanently", "Never", []string{"i"}, []string{"a"}, nil, []line{
			{at: 0, run: "i", phase: "Pending", waits: "PodInitializing"},
			{at: 1, end: "i", code: 1, phase: "Failed", waits: "PodInitializing", ended: true},
		}},
		{"init container is repeated until it succeeds", "Always", []string{"i"}, []string{"a"}, nil, []line{
			{at: 0, run: "i", phase: "Pending", waits: "PodInitializing"},
			{at: 1, end: "i", code: 1, start: "i", phase: "Pending", waits: "PodInitializing"},
			{at: 1, run: "i", phase: "Pending", waits: "PodInitializing"},
			{at: 2, end: "i", start: "a", phase: "Pending", waits: "PodInitializing"},
		}},
		{"sidecar", "Never", []string{"s+"}, []string{"a"}, nil, []line{
			{at: 0, start: "s", phase: "Pending", waits: "PodInitializing"},
			{at: 0, run: "s", start: "a", phase: "Pending", waits: "PodInitializing"},
			{at: 0, run: "a", phase: "Running", ready: "true"},
			{at: 1, end: "s", code: 1, start: "s", phase: "Running", ready: "true"},
			{at: 1, run: "s", phase: "Running", ready: "true"},
			{at: 2, end: "a", stop: "s", phase: "Succeeded"},
			{at: 3, end: "s", code: 143, phase: "Succeeded", ended: true},
		}},
		{"crash loop", "Always", nil, []string{"a"}, nil, []line{
			{at: 0, run: "a", phase: "Running", ready: "true"},
			{at: 1, end: "a", code: 1, start: "a", phase: "Running", waits: "CrashLoopBackOff"},
			{at: 1, run: "a", phase: "Running", ready: "true"},
			{at: 2, end: "a", code: 1, wake: 12, phase: "Running", waits: "CrashLoopBackOff"},
			{at: 12, start: "a", phase: "Running", waits: "CrashLoopBackOff"},
			{at: 12, run: "a", phase: "Running", ready: "true"},
			{at: 13, end: "a", code: 0, wake: 33, phase: "Running", waits: "CrashLoopBackOff"},
			{at: 33, run: "a", phase: "Running", ready: "true"},
			{at: 1000, end: "a", code: 0, start: "a", phase: "Running", waits: "CrashLoopBackOff"},
			{at: 1000, run: "a", phase: "Running", ready: "true"},
			{at: 1001, end: "a", code: 0, wake: 1011, phase: "Running", waits: "CrashLoopBackOff"},
		}},
		{"on failure", "OnFailure", nil, []string{"a"}, nil, []line{
			{at: 0, run: "a", phase: "Running", ready: "true"},
			{at: 1, end: "a", code: 1, start: "a", phase: "Running", waits: "CrashLoopBackOff"},
			{at: 1, run: "a", phase: "Running", ready: "true"},
			{at: 2, end: "a", phase: "Succeeded", ended: true},
		}},
		{"deadline", "Always", nil, []string{"a"}, deadline, []line{
			{at: 0, start: "a", wake: 30, phase: "Pending", waits: "ContainerCreating"},
			{at: 0, run: "a", wake: 30, phase: "Running", ready: "true"},
			{at: 30, stop: "a", phase: "Failed", ready: "true", failed: true},
			{at: 31, end: "a", code: 143, phase: "Failed", ended: true, failed: true},
		}},
		{"deletion", "Always", []string{"s+"}, []string{"a"}, nil, []line{
			{at: 0, run: "sa", phase: "Running", ready: "true"},
			{at: 1, deletes: true, stop: "a", phase: "Running", ready: "true"},
			{at: 2, end: "a", stop: "s", phase: "Running"},
			{at: 3, end: "s", code: 143, phase: "Succeeded", ended: true},
		}},
		{"deletion before the start", "Always", nil, []string{"a"}, nil, []line{
			{at: 0, deletes: true, phase: "Failed", waits: "ContainerCreating", ended: true},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := testPod(test.policy, test.inits, test.mains)
			if test.change != nil {
				test.change(pod)
			}
			l := newLifecycle(pod)
			l.startTime = epoch
			for i, line := range test.story {
				now := at(line.at)
				for _, name := range line.run {
					l.find(string(name)).started(fake{id: "x://" + string(name), started: now}, now)
				}
				for _, name := range line.end {
					l.find(string(name)).exited(Exit{Code: line.code, FinishedAt: now})
				}
				if line.deletes {
					pod.DeletionTimestamp = &metav1.Time{Time: now}
				}
				p := l.next(pod, now)
				if got := names(p.start); got != line.start {
					t.Errorf("line %d: start %q, want %q", i, got, line.start)
				}
				if got := names(p.stop); got != line.stop {
					t.Errorf("line %d: stop %q, want %q", i, got, line.stop)
				}
				var wake time.Time
				if line.wake != 0 {
					wake = at(line.wake)
				}
				if !p.wake.Equal(wake) || p.ended != line.ended || (l.failure != nil) != line.failed {
					t.Errorf("line %d: wake %v, ended %v, failure %v", i, p.wake, p.ended, l.failure)
				}
				status := l.status(pod, "10.0.0.1", "127.0.0.1", p.ended, now)
				if status.Phase != line.phase {
					t.Errorf("line %d: phase %s, want %s", i, status.Phase, line.phase)
				}
				first := status.ContainerStatuses[0]
				waits := ""
				if first.State.Waiting != nil {
					waits = first.State.Waiting.Reason
				}
				if first.Ready != (line.ready == "true") || waits != line.waits {
					t.Errorf("line %d: ready %v, waits %q, want %q, %q", i, first.Ready, waits, line.ready, line.waits)
				}
			}
		})
	}
}

func TestStatusWording(t *testing.T) {
	pod := testPod("Always", nil, []string{"a"})
	pod.Status.Conditions = []corev1.PodCondition{{Type: "example.com/other", Status: corev1.ConditionTrue}}
	l := newLifecycle(pod)
	a := l.find("a")
	a.started(fake{id: "x://1", started: at(0)}, at(0))
	a.exited(Exit{Code: 1, FinishedAt: at(1)})
	a.started(fake{id: "x://2", started: at(1)}, at(1))
	a.exited(Exit{Code: 137, Signal: 9, FinishedAt: at(2)})
	status := l.status(pod, "10.0.0.1", "127.0.0.1", false, at(2))

	c := status.ContainerStatuses[0]
	if got, want := c.State.Waiting.Message, "back-off 10s restarting failed container=a pod=p_default(u)"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	if last := c.LastTerminationState.Terminated; last.ExitCode != 137 || last.Reason != "Error" ||
		last.ContainerID != "x://2" {
		t.Errorf("last state %+v", last)
	}
	if c.RestartCount != 1 {
		t.Errorf("restartCount %d, want 1", c.RestartCount)
	}
	want := map[corev1.PodConditionType]string{
		"example.com/other": "True  ", "PodScheduled": "True  ", "PodReadyToStartContainers": "True  ",
		"Initialized":     "True  ",
		"ContainersReady": "False ContainersNotReady containers with unready status: [a]",
		"Ready":           "False ContainersNotReady containers with unready status: [a]",
	}
	for _, c := range status.Conditions {
		if got := string(c.Status) + " " + c.Reason + " " + c.Message; got != want[c.Type] {
			t.Errorf("%s: %q, want %q", c.Type, got, want[c.Type])
		}
		delete(want, c.Type)
	}
	if len(want) > 0 {
		t.Errorf("missing conditions %v", want)
	}
}

func TestReadinessGate(t *testing.T) {
	pod := testPod("Always", nil, []string{"a"})
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	l := newLifecycle(pod)
	l.find("a").started(fake{}, at(0))
	for _, open := range []bool{false, true} {
		if open {
			pod.Status.Conditions = []corev1.PodCondition{{Type: "example.com/gate", Status: corev1.ConditionTrue}}
		}
		status := l.status(pod, "10.0.0.1", "127.0.0.1", false, at(1))
		if !conditionTrue(&status, corev1.ContainersReady) || conditionTrue(&status, corev1.PodReady) != open {
			t.Errorf("gate open %v: conditions %v", open, status.Conditions)
		}
	}
}

// An agent that restarts distinguishes an ended container that must be restarted from one that
// never ran.
func TestAdopted(t *testing.T) {
	pod := testPod("Always", nil, []string{"a"})
	l := newLifecycle(pod)
	a := l.find("a")
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1,
		FinishedAt: metaTime(at(5))}}
	a.adopted(fake{id: "x://1"}, corev1.ContainerStatus{Name: "a", ContainerID: "x://1", RestartCount: 3,
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: ended})
	if p := l.next(pod, at(6)); names(p.start) != "a" || a.attempt() != 4 {
		t.Errorf("start %q, attempt %d", names(p.start), a.attempt())
	}
	a.started(fake{id: "x://2", started: at(6)}, at(6))
	if s := a.status(pod, true); s.RestartCount != 4 || s.LastTerminationState.Terminated.ExitCode != 1 {
		t.Errorf("status %+v", s)
	}
}

func TestMisconfigured(t *testing.T) {
	pod := testPod("Never", nil, []string{"a"})
	l := newLifecycle(pod)
	a := l.find("a")
	a.misconfigured(`configmap "x" not found`, at(0))
	if p := l.next(pod, at(1)); len(p.start) > 0 || !p.wake.Equal(at(10)) {
		t.Errorf("plan %+v", p)
	}
	s := a.status(pod, true)
	if s.State.Waiting.Reason != "CreateContainerConfigError" || s.State.Waiting.Message != `configmap "x" not found` {
		t.Errorf("status %+v", s)
	}
	if p := l.next(pod, at(10)); names(p.start) != "a" || a.attempt() != 0 {
		t.Errorf("plan %+v, attempt %d", p, a.attempt())
	}
}

func TestFailedToStart(t *testing.T) {
	for policy, want := range map[corev1.RestartPolicy]corev1.PodPhase{"Never": "Failed", "Always": "Running"} {
		pod := testPod(policy, nil, []string{"a"})
		l := newLifecycle(pod)
		l.find("a").failedToStart("no such program", at(0))
		s := l.status(pod, "", "", false, at(0))
		if s.Phase != want {
			t.Errorf("%s: phase %s, want %s", policy, s.Phase, want)
		}
		if w := s.ContainerStatuses[0].State.Waiting; policy == "Always" &&
			(w == nil || w.Reason != "RunContainerError" || w.Message != "no such program") {
			t.Errorf("waiting %+v", w)
		}
	}
}
