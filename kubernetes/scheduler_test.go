package kubernetes_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/scheduler"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// inBubbleScheduler runs a test in virtual time, on a control plane with a scheduler and without
// nodes of its own: the nodes of these tests join from outside.
func inBubbleScheduler(t *testing.T, test func(t *testing.T, env *testenv.Env)) {
	synctest.Test(t, func(t *testing.T) { test(t, testenv.New(t, testenv.Workloads())) })
}

// addNode creates a ready node in zone with 4 CPUs and room for 3 pods, and waits until it is
// accepted.
func addNode(t *testing.T, env *testenv.Env, name, zone string, change func(*corev1.Node)) {
	t.Helper()
	createNode(t, env, name, zone, change)
	env.Settle(t) // until the node no longer has the taint
}

func createNode(t *testing.T, env *testenv.Env, name, zone string, change func(*corev1.Node)) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, corev1.LabelTopologyZone: zone,
	}}}
	if change != nil {
		change(node)
	}
	env.Create(t, node)
	node.Status.Allocatable = corev1.ResourceList{
		"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("3"),
	}
	node.Status.Capacity = node.Status.Allocatable
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		Reason: "Test"}}
	node.ResourceVersion = "" // controllers may have changed the node's taints since
	require.NoError(t, env.Client().Subresource("status").Update(t.Context(), node, nil))
}

// addPod creates a pod that requests cpu, and waits until the scheduler has tried it.
func addPod(t *testing.T, env *testenv.Env, name, cpu string, change func(*corev1.Pod)) {
	t.Helper()
	createPod(t, env, name, cpu, change)
	env.Settle(t)
	// If a node changes during the first attempt, the scheduler repeats the attempt after a second.
	time.Sleep(2 * time.Second)
	env.Settle(t)
}

func createPod(t *testing.T, env *testenv.Env, name, cpu string, change func(*corev1.Pod)) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(cpu)}
	if change != nil {
		change(pod)
	}
	env.Create(t, pod)
}

func getPod(t *testing.T, env *testenv.Env, name string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	env.Get(t, pod)
	return pod
}

// verdict returns the pod's node, or the message of its condition PodScheduled.
func verdict(t *testing.T, env *testenv.Env, name string) string {
	t.Helper()
	pod := getPod(t, env, name)
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Message
		}
	}
	return ""
}

func labelled(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": name} }
}

func selects(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

// What decides the node of a pod.
func TestPlacement(t *testing.T) {
	taint := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "team", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
	}
	for _, test := range []struct {
		name      string
		cordoned  bool
		b         func(*corev1.Node) // changes node b; node a is as created
		others    func(t *testing.T, env *testenv.Env)
		cpu       string
		pod       func(*corev1.Pod)
		want      string // node
		wantBegin string // or the beginning of the message
	}{
		{name: "least loaded", cpu: "1", want: "b", others: func(t *testing.T, env *testenv.Env) {
			addPod(t, env, "other", "2", func(p *corev1.Pod) {
				p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "a"}
			})
		}},
		{name: "too large", cpu: "5", wantBegin: "0/2 nodes are available: 2 Insufficient cpu."},
		{name: "taint", cpu: "4", b: taint, wantBegin: "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s).", others: func(t *testing.T, env *testenv.Env) {
			addPod(t, env, "other", "1", nil)
		}},
		{name: "toleration", cpu: "4", b: taint, want: "b", others: func(t *testing.T, env *testenv.Env) {
			addPod(t, env, "other", "1", nil)
		}, pod: func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: "Exists"}} }},
		{name: "cordoned", cpu: "1", want: "a", b: func(n *corev1.Node) { n.Spec.Unschedulable = true }},
		{name: "node affinity", cpu: "1", want: "b", pod: func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 100, Preference: corev1.NodeSelectorTerm{
					MatchExpressions: []corev1.NodeSelectorRequirement{
						{Key: corev1.LabelTopologyZone, Operator: "In", Values: []string{"two"}}}},
			}}}}
		}, others: func(t *testing.T, env *testenv.Env) {
			addPod(t, env, "other", "1", func(p *corev1.Pod) {
				p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "b"}
			})
		}},
		{name: "pod affinity", cpu: "1", want: "b", others: func(t *testing.T, env *testenv.Env) {
			addPod(t, env, "other", "2", func(p *corev1.Pod) {
				labelled("db")(p)
				p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "b"}
			})
		}, pod: func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				LabelSelector: selects("db"), TopologyKey: corev1.LabelTopologyZone,
			}}}}
		}},
		{name: "anti-affinity", cpu: "1", wantBegin: "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.", others: func(t *testing.T, env *testenv.Env) {
			addPod(t, env, "first", "1", labelled("db"))
			addPod(t, env, "second", "1", labelled("db"))
		}, pod: func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				LabelSelector: selects("db"), TopologyKey: corev1.LabelHostname,
			}}}}
		}},
		{name: "topology spread", cpu: "1", want: "a", others: func(t *testing.T, env *testenv.Env) {
			addPod(t, env, "other", "1", func(p *corev1.Pod) {
				labelled("web")(p)
				p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "b"}
			})
			addPod(t, env, "load", "2", func(p *corev1.Pod) {
				p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "a"}
			})
		}, pod: func(p *corev1.Pod) {
			labelled("web")(p)
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: selects("web"),
			}}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubbleScheduler(t, func(t *testing.T, env *testenv.Env) {
				addNode(t, env, "a", "one", nil)
				addNode(t, env, "b", "two", test.b)
				if test.others != nil {
					test.others(t, env)
				}
				addPod(t, env, "p", test.cpu, test.pod)
				switch got := verdict(t, env, "p"); {
				case test.want != "" && got != test.want:
					t.Errorf("got %q, want node %q", got, test.want)
				case test.want == "" && !strings.HasPrefix(got, test.wantBegin):
					t.Errorf("got %q, want %q…", got, test.wantBegin)
				}
			})
		})
	}
}

// A pod with a higher priority preempts one with a lower priority, whose node it gets.
func TestPreemption(t *testing.T) {
	inBubbleScheduler(t, func(t *testing.T, env *testenv.Env) {
		addNode(t, env, "a", "one", nil)
		env.Create(t, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000})
		addPod(t, env, "batch", "3", nil)
		addPod(t, env, "web", "3", func(p *corev1.Pod) { p.Spec.PriorityClassName = "urgent" })
		assert.Equalf(t, getPod(t, env, "web").Status.NominatedNodeName, "a", "nominated node")
		batch := getPod(t, env, "batch")
		if batch.DeletionTimestamp == nil || !slices.ContainsFunc(batch.Status.Conditions,
			func(c corev1.PodCondition) bool {
				return c.Type == corev1.DisruptionTarget && c.Reason == corev1.PodReasonPreemptionByScheduler
			}) {
			t.Errorf("the victim: deleted %v, conditions %+v", batch.DeletionTimestamp, batch.Status.Conditions)
		}
		// no kubelet ends the victim
		require.NoError(t, env.Client().Delete(t.Context(), batch, client.GracePeriodSeconds(0)))
		time.Sleep(10 * time.Second)
		env.Settle(t)
		assert.Equalf(t, verdict(t, env, "web"), "a", "after the victim's end")
		reasons := map[string]bool{}
		for _, e := range events(t, env) {
			reasons[e.Regarding.Name+" "+e.Reason] = true
		}
		for _, want := range []string{"batch Scheduled", "batch Preempted", "web FailedScheduling", "web Scheduled"} {
			if !reasons[want] {
				t.Errorf("no Event %q in %v", want, reasons)
			}
		}
	})
}

func events(t *testing.T, env *testenv.Env) []*eventsv1.Event {
	t.Helper()
	list, err := client.List[eventsv1.Event](t.Context(), env.Client())
	require.NoError(t, err)
	return list
}

// A pod with scheduling gates waits until the last one is removed.
func TestSchedulingGates(t *testing.T) {
	inBubbleScheduler(t, func(t *testing.T, env *testenv.Env) {
		addNode(t, env, "a", "one", nil)
		addPod(t, env, "p", "1", func(p *corev1.Pod) {
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
		})
		time.Sleep(time.Hour)
		env.Settle(t)
		pod := getPod(t, env, "p")
		if pod.Spec.NodeName != "" || len(pod.Status.Conditions) == 0 ||
			pod.Status.Conditions[0].Reason != corev1.PodReasonSchedulingGated {
			t.Fatalf("with a gate: node %q, conditions %+v", pod.Spec.NodeName, pod.Status.Conditions)
		}
		pod.Spec.SchedulingGates = nil
		require.NoError(t, env.Client().Update(t.Context(), pod))
		env.Settle(t)
		assert.Equalf(t, verdict(t, env, "p"), "a", "without")
	})
}

// Pods that wait for a node are scheduled when a node joins. The pods of a node that is removed do
// not free capacity on other nodes.
func TestNodesJoin(t *testing.T) {
	inBubbleScheduler(t, func(t *testing.T, env *testenv.Env) {
		for i := range 5 {
			addPod(t, env, fmt.Sprint("p", i), "1", nil)
		}
		assert.Equalf(t, verdict(t, env, "p0"), "", "without nodes")
		addNode(t, env, "a", "one", nil) // has room for three
		addNode(t, env, "b", "two", nil)
		time.Sleep(time.Minute)
		env.Settle(t)
		on := map[string]int{}
		for i := range 5 {
			on[verdict(t, env, fmt.Sprint("p", i))]++
		}
		if on["a"]+on["b"] != 5 || on["b"] < 2 {
			t.Errorf("placed: %v", on)
		}
	})
}

// The scheduler leaves pods with another scheduler's name alone, and such a scheduler binds them
// through the API.
func TestOwnScheduler(t *testing.T) {
	inBubbleScheduler(t, func(t *testing.T, env *testenv.Env) {
		addNode(t, env, "a", "one", nil)
		addPod(t, env, "p", "1", func(p *corev1.Pod) { p.Spec.SchedulerName = "mine" })
		time.Sleep(time.Hour)
		env.Settle(t)
		pod := getPod(t, env, "p")
		if pod.Spec.NodeName != "" || len(pod.Status.Conditions) != 0 {
			t.Fatalf("node %q, conditions %+v", pod.Spec.NodeName, pod.Status.Conditions)
		}
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"},
			Target: corev1.ObjectReference{Kind: "Node", Name: "a"}}
		require.NoError(t, env.Client().Subresource("binding").Create(t.Context(), pod, binding))
		assert.Equalf(t, verdict(t, env, "p"), "a", "bound to")
	})
}

// Nothing is built, and no request is sent, before a node and a pod that waits for one exist; and
// the scheduler stops when no pod waits.
func TestRunsOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t) // a bare test plane has no scheduler of its own
		var mu sync.Mutex
		requests := 0
		config := env.RESTConfig()
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				requests++
				return next.RoundTrip(r)
			})
		})
		sent := func() int {
			t.Helper()
			env.Settle(t)
			mu.Lock()
			defer mu.Unlock()
			n := requests
			requests = 0
			return n
		}
		s, err := scheduler.New(scheduler.Config{Store: env.Plane().Store(), REST: config,
			Serves: func(r schema.GroupVersionResource) bool {
				return env.Plane().Registry().Current().Serves(r, "")
			}})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()

		addPod(t, env, "p", "1", nil)
		assert.Equalf(t, sent(), 0, "requests without a node")
		addNode(t, env, "a", "one", nil)
		if got := verdict(t, env, "p"); sent() == 0 || got != "a" {
			t.Errorf("with a node: %s", got)
		}
		time.Sleep(2 * scheduler.IdleAfter)
		sent()
		goroutines := runtime.NumGoroutine()
		time.Sleep(24 * time.Hour)
		assert.Equalf(t, sent(), 0, "requests in an idle day")
		addPod(t, env, "q", "1", func(p *corev1.Pod) { p.Spec.SchedulerName = "mine" })
		assert.Equalf(t, sent(), 0, "requests for another scheduler's pod")
		addPod(t, env, "r", "1", nil)
		time.Sleep(time.Minute) // its queue may retry once
		env.Settle(t)
		assert.Equalf(t, verdict(t, env, "r"), "a", "after an idle day")
		if n := runtime.NumGoroutine(); n <= goroutines+10 {
			t.Errorf("%d goroutines while idle, %d while running: it did not stop", goroutines, n)
		}
		cancel()
		assert.NoError(t, <-ended)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// On a bare test plane, pods stay as they were created, even if a test creates nodes.
func TestBareTestPlane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t)
		addNode(t, env, "a", "one", nil)
		addPod(t, env, "p", "1", nil)
		time.Sleep(time.Hour)
		env.Settle(t)
		if pod := getPod(t, env, "p"); pod.Spec.NodeName != "" || len(pod.Status.Conditions) != 0 {
			t.Errorf("node %q, conditions %+v", pod.Spec.NodeName, pod.Status.Conditions)
		}
	})
}
