package node_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/assert"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/node"
	"kelson.dev/kubernetes/node/simulated"
	"kelson.dev/operator/client"
)

// fixture is a control plane with a node and a scheduler, and helpers for tests.
type fixture struct {
	t      testing.TB
	plane  *controlplane.ControlPlane
	client client.Client
	logs   *kubernetes.Clientset
}

func newFixture(t testing.TB, config controlplane.Config) *fixture {
	t.Helper()
	plane, err := controlplane.Start(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plane.Stop)
	c, err := client.New(client.Config{REST: plane.RESTConfig()})
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{t: t, plane: plane, client: c, logs: kubernetes.NewForConfigOrDie(plane.RESTConfig())}
}

// pod returns a pod named p with the container app.
func pod(policy corev1.RestartPolicy, annotations map[string]string, command ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Annotations: annotations},
		Spec: corev1.PodSpec{RestartPolicy: policy,
			Containers: []corev1.Container{{Name: "app", Image: "busybox", Command: command}}},
	}
}

func (w *fixture) create(obj client.Object) {
	w.t.Helper()
	if err := w.client.Create(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
}

// get returns the pod, or nil if it does not exist.
func (w *fixture) get() *corev1.Pod {
	w.t.Helper()
	p, err := client.Get[corev1.Pod](w.t.Context(), w.client, client.Key{Namespace: "default", Name: "p"})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// log returns the log of app.
func (w *fixture) log(opts corev1.PodLogOptions) string {
	w.t.Helper()
	r, err := w.logs.CoreV1().Pods("default").GetLogs("p", &opts).Stream(w.t.Context())
	if err != nil {
		return err.Error()
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// events returns the pod's events as "Reason: message (xN)", sorted by name, which is also their
// order in time.
func (w *fixture) events() []string {
	w.t.Helper()
	list, err := client.List[corev1.Event](w.t.Context(), w.client, client.InNamespace("default"),
		client.MatchingFields{"involvedObject.name": "p"})
	if err != nil {
		w.t.Fatal(err)
	}
	slices.SortStableFunc(list, func(a, b *corev1.Event) int {
		return strings.Compare(a.Name[strings.LastIndex(a.Name, "."):], b.Name[strings.LastIndex(b.Name, "."):])
	})
	var out []string
	for _, e := range list {
		out = append(out, fmt.Sprintf("%s: %s (x%d)", e.Reason, e.Message, e.Count))
	}
	return out
}

// waitEvent waits for the first event with a reason, which must have a message.
func (w *fixture) waitEvent(reason, message string) {
	w.t.Helper()
	changes, err := w.logs.CoreV1().Events("default").Watch(w.t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		w.t.Fatal(err)
	}
	defer changes.Stop()
	late := time.After(time.Minute)
	for {
		select {
		case e := <-changes.ResultChan():
			if event, ok := e.Object.(*corev1.Event); ok && event.Reason == reason {
				if event.Message != message {
					w.t.Errorf("event %q, want %q", event.Message, message)
				}
				return
			}
		case <-late:
			w.t.Fatalf("no event %s after a minute", reason)
		}
	}
}

func (w *fixture) wantPhase(want corev1.PodPhase) *corev1.Pod {
	w.t.Helper()
	p := w.get()
	if p == nil || p.Status.Phase != want {
		w.t.Fatalf("pod %+v, want phase %s", p, want)
	}
	return p
}

func bubble(t *testing.T, story func(t *testing.T, w *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, controlplane.Config{Node: controlplane.Simulated{Lease: controlplane.NodeLease}})
		synctest.Wait()
		story(t, w)
	})
}

// The whole life of a pod on a simulated node.
func TestSimulatedPod(t *testing.T) {
	bubble(t, func(t *testing.T, w *fixture) {
		w.create(pod("Never", nil, "sh", "-c", "echo hello; sleep 60; echo bye"))
		synctest.Wait()
		p := w.wantPhase(corev1.PodRunning)
		for _, kind := range []corev1.PodConditionType{"PodScheduled", "PodReadyToStartContainers", "Initialized",
			"ContainersReady", "Ready"} {
			if !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == kind && c.Status == "True"
			}) {
				t.Errorf("condition %s: %+v", kind, p.Status.Conditions)
			}
		}
		if p.Spec.NodeName != "kelson" || p.Status.PodIP != "10.244.0.1" || p.Status.HostIP != "127.0.0.1" ||
			p.Status.StartTime == nil || p.Status.QOSClass != "BestEffort" {
			t.Errorf("node %q, status %+v", p.Spec.NodeName, p.Status)
		}
		if got := w.log(corev1.PodLogOptions{}); got != "hello\n" {
			t.Errorf("log %q", got)
		}
		if got := w.log(corev1.PodLogOptions{Follow: true}); got != "hello\nbye\n" {
			t.Errorf("followed log %q", got)
		}
		synctest.Wait()
		p = w.wantPhase(corev1.PodSucceeded)
		ended := p.Status.ContainerStatuses[0].State.Terminated
		if ended == nil || ended.ExitCode != 0 || ended.Reason != "Completed" ||
			ended.FinishedAt.Sub(ended.StartedAt.Time) != time.Minute {
			t.Errorf("terminated %+v", ended)
		}
		want := []string{
			"Scheduled: Successfully assigned default/p to kelson (x0)",
			`Pulled: Container image "busybox" already present on machine and can be accessed by the pod (x1)`,
			"Created: Container created (x1)",
			"Started: Container started (x1)",
		}
		list, err := client.List[corev1.Event](t.Context(), w.client, client.MatchingFields{"reason": "Started"})
		if err != nil || len(list) != 1 || list[0].InvolvedObject.FieldPath != "spec.containers{app}" ||
			list[0].Source != (corev1.EventSource{Component: "kubelet", Host: "kelson"}) {
			t.Errorf("event %+v, %v", list, err)
		}
		if got := w.events(); !slices.Equal(got, want) {
			t.Errorf("events:\n%s", strings.Join(got, "\n"))
		}
	})
}

func TestSimulatedCrashLoop(t *testing.T) {
	bubble(t, func(t *testing.T, w *fixture) {
		w.create(pod("Always", map[string]string{"sim.kelson.dev/exit-code": "1,1,0", "sim.kelson.dev/log": "x"}))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		p := w.wantPhase(corev1.PodRunning)
		s := p.Status.ContainerStatuses[0]
		if s.State.Waiting == nil || s.State.Waiting.Reason != "CrashLoopBackOff" ||
			s.LastTerminationState.Terminated.ExitCode != 1 || s.RestartCount != 1 || s.Ready {
			t.Errorf("status %+v", s)
		}
		if got := w.log(corev1.PodLogOptions{Previous: true}); got != "x\n" {
			t.Errorf("previous log %q", got)
		}
		if got := w.events(); !slices.Contains(got,
			fmt.Sprintf("BackOff: Back-off restarting failed container app in pod p_default(%s) (x1)", p.UID)) {
			t.Errorf("events %q", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := w.get().Status.ContainerStatuses[0]; s.RestartCount < 12 || s.RestartCount > 18 {
			t.Errorf("%d restarts in an hour of back-off", s.RestartCount)
		}
	})
}

func TestSimulatedDeletion(t *testing.T) {
	bubble(t, func(t *testing.T, w *fixture) {
		p := pod("Always", map[string]string{"sim.kelson.dev/stop-after": "5s"})
		w.create(p)
		synctest.Wait()
		w.wantPhase(corev1.PodRunning)
		if err := w.client.Delete(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if p := w.wantPhase(corev1.PodRunning); p.DeletionTimestamp == nil || *p.DeletionGracePeriodSeconds != 30 ||
			p.Status.ContainerStatuses[0].Ready {
			t.Errorf("pod %+v", p)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if p := w.get(); p != nil {
			t.Errorf("the pod still exists: %+v", p)
		}
		if got := w.events(); !slices.Contains(got, "Killing: Stopping container app (x1)") {
			t.Errorf("events %q", got)
		}

		// A forced deletion.
		w.create(pod("Always", nil))
		synctest.Wait()
		if err := w.client.Delete(t.Context(), p, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if p := w.get(); p != nil {
			t.Errorf("the pod still exists: %+v", p)
		}
	})
}

func TestUnschedulableIsRetried(t *testing.T) {
	bubble(t, func(t *testing.T, w *fixture) {
		p := pod("Always", nil)
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1000")}
		w.create(p)
		synctest.Wait()
		p = w.wantPhase(corev1.PodPending)
		want := corev1.PodCondition{Type: "PodScheduled", Status: "False", Reason: "Unschedulable",
			Message: "0/1 nodes are available: 1 Insufficient cpu. " +
				"preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."}
		if c := p.Status.Conditions[0]; c.Type != want.Type || c.Status != want.Status || c.Reason != want.Reason ||
			c.Message != want.Message {
			t.Errorf("condition %+v", c)
		}
		// Kubernetes returns an empty log for a pod without a node
		if got := w.log(corev1.PodLogOptions{}); got != "" {
			t.Errorf("log %q", got)
		}
		node, err := client.Get[corev1.Node](t.Context(), w.client, client.Key{Name: "kelson"})
		if err != nil {
			t.Fatal(err)
		}
		node.Status.Allocatable["cpu"] = resource.MustParse("2000")
		if err := w.client.Subresource("status").Update(t.Context(), node, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.wantPhase(corev1.PodRunning)
		if got := w.events(); !slices.Contains(got, "FailedScheduling: "+want.Message+" (x0)") {
			t.Errorf("events %q", got)
		}
	})
}

func TestMissingConfigMap(t *testing.T) {
	bubble(t, func(t *testing.T, w *fixture) {
		p := pod("Never", nil, "sh", "-c", "echo $GREETING")
		p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}}
		w.create(p)
		synctest.Wait()
		state := w.wantPhase(corev1.PodPending).Status.ContainerStatuses[0].State
		if state.Waiting == nil || state.Waiting.Reason != "CreateContainerConfigError" ||
			state.Waiting.Message != `configmap "c" not found` {
			t.Errorf("state %+v", state)
		}
		if got, want := w.log(corev1.PodLogOptions{}),
			`container "app" in pod "p" is waiting to start: CreateContainerConfigError`; got != want {
			t.Errorf("log %q, want %q", got, want)
		}
		w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"},
			Data: map[string]string{"GREETING": "hello"}})
		time.Sleep(time.Minute)
		synctest.Wait()
		w.wantPhase(corev1.PodSucceeded)
		if got := w.log(corev1.PodLogOptions{}); got != "hello\n" {
			t.Errorf("log %q", got)
		}
	})
}

func TestActiveDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, w *fixture) {
		p := pod("Always", nil)
		seconds := int64(90)
		p.Spec.ActiveDeadlineSeconds = &seconds
		w.create(p)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if p := w.wantPhase(corev1.PodFailed); p.Status.Reason != "DeadlineExceeded" {
			t.Errorf("status %+v", p.Status)
		}
	})
}

// A node registers itself with labels and resources, and renews its lease, which has the Node as
// owner.
func TestLeaseAndNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, controlplane.Config{})
		w.run("node-1", 0)
		time.Sleep(time.Minute)
		synctest.Wait()
		lease, err := client.Get[coordinationv1.Lease](t.Context(), w.client,
			client.Key{Namespace: "kube-node-lease", Name: "node-1"})
		if err != nil {
			t.Fatal(err)
		}
		if age := time.Since(lease.Spec.RenewTime.Time); age > 10*time.Second ||
			*lease.Spec.LeaseDurationSeconds != 40 || *lease.Spec.HolderIdentity != "node-1" {
			t.Errorf("lease %+v, age %v", lease.Spec, age)
		}
		node, err := client.Get[corev1.Node](t.Context(), w.client, client.Key{Name: "node-1"})
		if err != nil {
			t.Fatal(err)
		}
		if node.Labels["kubernetes.io/hostname"] != "node-1" ||
			node.Status.NodeInfo.ContainerRuntimeVersion != "simulated://1.0" ||
			node.Status.Allocatable.Cpu().IsZero() {
			t.Errorf("node %+v", node)
		}
		if refs := lease.OwnerReferences; len(refs) != 1 || refs[0].UID != node.UID {
			t.Errorf("owners %+v", refs)
		}
	})
}

// Nodes that join together do not report their status together from then on. As with kubelets, the
// second report follows after 2.5 to 7.5 minutes.
func TestStatusReportsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes = 20
		w, began := newFixture(t, controlplane.Config{}), time.Now()
		for i := range nodes {
			w.run(fmt.Sprintf("node-%d", i), 0)
		}
		time.Sleep(7*time.Minute + 50*time.Second)
		synctest.Wait()
		all, err := client.List[corev1.Node](t.Context(), w.client)
		if err != nil || len(all) < nodes {
			t.Fatalf("%d nodes, %v", len(all), err)
		}
		minutes := map[time.Duration]int{}
		for _, node := range all {
			for _, c := range node.Status.Conditions {
				if after := c.LastHeartbeatTime.Sub(began); c.Type == corev1.NodeReady {
					if after < 150*time.Second {
						t.Errorf("%s reported last after %s", node.Name, after)
					}
					minutes[after/time.Minute]++
				}
			}
		}
		for minute, reports := range minutes {
			if reports > nodes/2 {
				t.Errorf("%d of %d nodes reported in minute %d", reports, nodes, minute)
			}
		}
	})
}

// An agent uses the mapper of the client in Like, so it reads no discovery documents of its own.
func TestLike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, controlplane.Config{})
		mapper := &countingMapper{RESTMapper: w.client.Mapper()}
		like, err := client.New(client.Config{REST: w.plane.RESTConfig(), Mapper: mapper})
		if err != nil {
			t.Fatal(err)
		}
		w.start(node.AgentConfig{Name: "node-1", Like: like})
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, err := client.Get[corev1.Node](t.Context(), w.client, client.Key{Name: "node-1"}); err != nil {
			t.Fatal(err)
		}
		if mapper.calls.Load() == 0 {
			t.Error("the agent did not use the mapper")
		}
	})
}

// countingMapper counts the mappings of kinds.
type countingMapper struct {
	meta.RESTMapper
	calls atomic.Int64
}

func (m *countingMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	m.calls.Add(1)
	return m.RESTMapper.RESTMapping(kind, versions...)
}

// run runs another agent until the test ends.
func (w *fixture) run(name string, lease time.Duration) {
	w.t.Helper()
	w.start(node.AgentConfig{Name: name, LeaseDuration: lease})
}

// start runs an agent with a simulated runtime until the test ends.
func (w *fixture) start(config node.AgentConfig) {
	w.t.Helper()
	config.Config, config.Runtime = w.plane.RESTConfig(), simulated.New(simulated.Config{})
	agent, err := node.NewAgent(config)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		agent.Run(ctx)
	}()
	w.t.Cleanup(func() { cancel(); <-ended })
}

// An agent whose server is busy reports a new pod once, when its containers run, with the same
// conditions and Events as otherwise.
func TestBusyServerGetsOneReport(t *testing.T) {
	run := func(busy bool) (states int, last *corev1.Pod, events []string) {
		synctest.Test(t, func(t *testing.T) {
			w := newFixture(t, controlplane.Config{})
			backlog := node.NewBacklog()
			if busy {
				backlog.Fill()
			}
			w.start(node.AgentConfig{Name: "n", Backlog: backlog})
			synctest.Wait()
			changes, err := w.logs.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer changes.Stop()
			p := pod("Always", nil, "sh", "-c", "sleep 3600")
			p.Spec.NodeName = "n"
			w.create(p)
			synctest.Wait()
			for last == nil || last.Status.Phase != corev1.PodRunning {
				last, states = (<-changes.ResultChan()).Object.(*corev1.Pod), states+1
			}
			time.Sleep(time.Minute)
			if events = w.events(); w.get().ResourceVersion != last.ResourceVersion {
				t.Errorf("the pod changes after it runs")
			}
		})
		return states, last, events
	}
	states, last, events := run(true)
	wantStates, want, wantEvents := run(false)
	if states != 2 || wantStates != 3 || !slices.Equal(events, wantEvents) || len(events) == 0 {
		t.Errorf("%d and %d states, Events %q and %q", states, wantStates, events, wantEvents)
	}
	for i := range want.Status.Conditions {
		want.Status.Conditions[i].LastTransitionTime = last.Status.Conditions[i].LastTransitionTime
	}
	if !equality.Semantic.DeepEqual(last.Status.Conditions, want.Status.Conditions) {
		t.Errorf("conditions %+v, want %+v", last.Status.Conditions, want.Status.Conditions)
	}
}

// An agent does not hold former states of its pods: in a large cluster, these are much memory.
func TestFormerStatesAreReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, controlplane.Config{})
		var change func(old, pod *corev1.Pod)
		w.start(node.AgentConfig{Name: "n", Pods: func(ctx context.Context, changed func(old, pod *corev1.Pod)) {
			change = changed
			<-ctx.Done()
		}})
		p := pod("Always", nil, "sh", "-c", "sleep 3600")
		p.Spec.NodeName = "n"
		w.create(p)
		synctest.Wait()
		var former []weak.Pointer[corev1.Pod]
		var last *corev1.Pod
		for range 3 {
			next := w.get()
			former = append(former, weak.Make(next))
			change(last, next)
			last = next
			time.Sleep(time.Second)
		}
		runtime.GC()
		if former[0].Value() != nil || former[1].Value() != nil || former[2].Value() == nil {
			t.Errorf("still held: %v", former)
		}
		assert.Equal(t, last.Status.Phase, corev1.PodRunning)
	})
}

// Another control plane over the same store adopts the containers of the first one.
func TestAgentRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(store.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		config := controlplane.Config{Store: s, Node: controlplane.Simulated{Lease: controlplane.NodeLease}}
		w := newFixture(t, config)
		w.create(pod("Never", nil, "sh", "-c", "echo one; sleep 60; echo two"))
		time.Sleep(30 * time.Second)
		synctest.Wait()
		first := w.wantPhase(corev1.PodRunning)
		w.plane.Stop()
		time.Sleep(20 * time.Second)

		w = newFixture(t, config)
		synctest.Wait()
		second := w.wantPhase(corev1.PodRunning)
		if a, b := first.Status.ContainerStatuses[0].ContainerID,
			second.Status.ContainerStatuses[0].ContainerID; a != b || second.Status.PodIP != first.Status.PodIP {
			t.Errorf("container %s became %s, address %s %s", a, b, first.Status.PodIP, second.Status.PodIP)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		w.wantPhase(corev1.PodSucceeded)
		if got := w.log(corev1.PodLogOptions{}); got != "one\ntwo\n" {
			t.Errorf("log %q", got)
		}
	})
}

// A pod with real processes.
func TestProcessPod(t *testing.T) {
	w := newFixture(t, controlplane.Config{Node: controlplane.Processes{Dir: t.TempDir(), Lease: controlplane.NodeLease}})
	p := pod("Never", nil, "sh", "-c", `echo "I am $ME"; exit 3`)
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "ME",
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
	w.create(p)
	p = w.await(func(p *corev1.Pod) bool { return p != nil && p.Status.Phase == corev1.PodFailed })
	if ended := p.Status.ContainerStatuses[0].State.Terminated; ended == nil || ended.ExitCode != 3 ||
		ended.Reason != "Error" {
		t.Errorf("terminated %+v", ended)
	}
	if got := w.log(corev1.PodLogOptions{}); got != "I am p\n" {
		t.Errorf("log %q", got)
	}
	if err := w.client.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	w.await(func(p *corev1.Pod) bool { return p == nil })

	// A server that ends on SIGTERM.
	w.create(pod("Always", nil, "sh", "-c", "echo up; trap 'exit 0' TERM; while :; do sleep 0.01; done"))
	p = w.await(func(p *corev1.Pod) bool { return p != nil && p.Status.Phase == corev1.PodRunning })
	limit := int64(3)
	if got := w.log(corev1.PodLogOptions{Follow: true, LimitBytes: &limit}); got != "up\n" {
		t.Errorf("log %q", got)
	}
	if err := w.client.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	w.await(func(p *corev1.Pod) bool { return p == nil })

	// A pod that can't run has an error message.
	w.create(pod("Never", nil))
	p = w.await(func(p *corev1.Pod) bool { return p != nil && p.Status.Phase == corev1.PodFailed })
	if ended := p.Status.ContainerStatuses[0].State.Terminated; ended == nil || ended.Reason != "StartError" ||
		!strings.Contains(ended.Message, "has no command") {
		t.Errorf("terminated %+v", ended)
	}
}

// await waits until holds returns true for the pod, checking after every change.
func (w *fixture) await(holds func(*corev1.Pod) bool) *corev1.Pod {
	w.t.Helper()
	return w.awaitFor(10*time.Second, holds)
}

func (w *fixture) awaitFor(limit time.Duration, holds func(*corev1.Pod) bool) *corev1.Pod {
	w.t.Helper()
	timeout := time.After(limit)
	for {
		cursor, err := w.plane.Store().Watch("", w.plane.Store().Snapshot().Revision())
		if err != nil {
			w.t.Fatal(err)
		}
		p := w.get()
		if holds(p) {
			return p
		}
		select {
		case <-cursor.Ready():
		case <-timeout:
			w.t.Fatalf("the condition was never true; pod %+v", p)
		}
	}
}

// Admission taints new nodes. The agent removes the taint when the node is ready and keeps the
// configured taints.
func TestReadyNodeIsUntainted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, controlplane.Config{Node: controlplane.Simulated{}})
		synctest.Wait()
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: corev1.NodeSpec{
			Taints: []corev1.Taint{{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule}},
		}}
		w.create(n)
		if len(n.Spec.Taints) != 2 {
			t.Fatalf("admission left the taints %v", n.Spec.Taints)
		}
		ctx, cancel := context.WithCancel(t.Context())
		agent, err := node.NewAgent(node.AgentConfig{
			Config: w.plane.RESTConfig(), Name: "mine", Runtime: simulated.New(simulated.Config{}), LeaseDuration: -1,
		})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { ended <- agent.Run(ctx) }()
		synctest.Wait()
		n, err = client.Get[corev1.Node](t.Context(), w.client, client.KeyOf(n))
		if err != nil || len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "team" {
			t.Errorf("taints %v, %v", n.Spec.Taints, err)
		}
		cancel()
		<-ended
	})
}
