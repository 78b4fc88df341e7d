package workloads_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/kubernetes/controllers/simulatednodes"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/node"
	"kelson.dev/kubernetes/node/simulated"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// joinNode runs a simulated node that sends heartbeats. The returned function ends it silently, as
// when its machine fails.
func joinNode(t *testing.T, env *testenv.Env, name string) (lose func()) {
	t.Helper()
	agent, err := node.NewAgent(node.AgentConfig{Config: env.RESTConfig(), Name: name,
		Runtime: simulated.New(simulated.Config{})})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- agent.Run(ctx) }()
	lost := false
	lose = func() {
		if lost {
			return
		}
		lost = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(lose)
	env.Settle(t)
	return lose
}

// A Deployment creates a ReplicaSet, the ReplicaSet creates a pod, and the pod is scheduled and
// runs. Its node is lost; the pod is evicted and replaced on another node. Every step is visible as
// an Event. In virtual time it takes a quarter of an hour.
func TestPodStory(t *testing.T) {
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Workloads(), testenv.Nodes(controlplane.Simulated{
			Groups: []simulatednodes.Group{{Count: 1, Name: "a"}, {Count: 1, Name: "b"}},
			Lease:  controlplane.NodeLease,
		}))
		env.Settle(t)
		web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: selector("web"), Template: template("web", nil),
		}}
		env.Create(t, web)
		after(t, env, 10*time.Second)
		first := pods(t, env)
		if len(first) != 1 || first[0].Status.Phase != corev1.PodRunning {
			t.Fatalf("pods %+v", first)
		}
		old := first[0]
		other := map[string]string{"a-1": "b-1", "b-1": "a-1"}[old.Spec.NodeName]
		silent := getNode(t, env, old.Spec.NodeName)
		silent.Annotations[simulatednodes.AnnotationSilent] = "true"
		if err := env.Client().Update(t.Context(), silent); err != nil {
			t.Fatal(err)
		}

		after(t, env, 2*time.Minute)
		lost := getNode(t, env, old.Spec.NodeName)
		for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
			if !slices.ContainsFunc(lost.Spec.Taints, func(taint corev1.Taint) bool {
				return taint.Key == corev1.TaintNodeUnreachable && taint.Effect == effect
			}) {
				t.Errorf("the lost node has no taint with the effect %s: %+v", effect, lost.Spec.Taints)
			}
		}
		if got := condition(lost); got != "Unknown NodeStatusUnknown" {
			t.Errorf("the lost node is %s", got)
		}
		after(t, env, 5*time.Minute) // the pods' toleration
		replaced := pods(t, env)
		i := slices.IndexFunc(replaced, func(p corev1.Pod) bool { return p.UID != old.UID })
		if len(replaced) != 2 || i < 0 {
			t.Fatalf("pods %+v", replaced)
		}
		if p := replaced[i]; p.Status.Phase != corev1.PodRunning || p.Spec.NodeName != other {
			t.Errorf("the replacement: %s on %s", p.Status.Phase, p.Spec.NodeName)
		}
		// The evicted pod waits for its kubelet until the node is deleted.
		if evicted := replaced[1-i]; evicted.DeletionTimestamp == nil {
			t.Errorf("not evicted: %+v", evicted)
		}
		if err := env.Client().Delete(t.Context(), lost); err != nil {
			t.Fatal(err)
		}
		after(t, env, 2*time.Minute)
		if left := pods(t, env); len(left) != 1 {
			t.Errorf("after the node's deletion: %+v", left)
		}

		events := eventsOf(t, env)
		set := old.OwnerReferences[0].Name
		next := replaced[i].Name
		for _, want := range []string{
			"web ScalingReplicaSet", set + " SuccessfulCreate",
			old.Name + " Scheduled", old.Name + " Pulled", old.Name + " Created", old.Name + " Started",
			old.Spec.NodeName + " NodeNotReady", old.Name + " TaintManagerEviction",
			next + " Scheduled", next + " Started", old.Spec.NodeName + " RemovingNode",
		} {
			if !slices.Contains(events, want) {
				t.Errorf("no Event %q in\n%s", want, strings.Join(events, "\n"))
			}
		}
	})
	t.Logf("real time: %v", time.Since(began))
}

func getNode(t *testing.T, env *testenv.Env, name string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	env.Get(t, node)
	return node
}

// condition returns the status and reason of the node's readiness.
func condition(node *corev1.Node) string {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return fmt.Sprintf("%s %s", c.Status, c.Reason)
		}
	}
	return ""
}

// eventsOf returns all Events as "object Reason".
func eventsOf(t *testing.T, env *testenv.Env) []string {
	t.Helper()
	list, err := client.List[corev1.Event](t.Context(), env.Client())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range list {
		all = append(all, e.InvolvedObject.Name+" "+e.Reason)
	}
	slices.Sort(all)
	return all
}

// A node that was lost becomes ready again with its next heartbeat, and loses its taints.
func TestNodeReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Workloads())
		joinNode(t, env, "a")()
		after(t, env, 2*time.Minute)
		if got := condition(getNode(t, env, "a")); got != "Unknown NodeStatusUnknown" {
			t.Errorf("lost: %s", got)
		}
		joinNode(t, env, "a")
		after(t, env, time.Minute)
		if n := getNode(t, env, "a"); condition(n) != "True KubeletReady" || len(n.Spec.Taints) != 0 {
			t.Errorf("back: %s, taints %+v", condition(n), n.Spec.Taints)
		}
	})
}

// A NoExecute taint evicts the pods that do not tolerate it, immediately or after their
// tolerationSeconds.
func TestTaintEviction(t *testing.T) {
	inCluster(t, func(t *testing.T, env *testenv.Env) {
		for name, toleration := range map[string]*corev1.Toleration{
			"none": nil, "minute": {Key: "drain", Operator: "Exists", Effect: corev1.TaintEffectNoExecute,
				TolerationSeconds: new(int64(60))}, "forever": {Key: "drain", Operator: "Exists"},
		} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: template(name, nil).Spec}
			if toleration != nil {
				pod.Spec.Tolerations = []corev1.Toleration{*toleration}
			}
			env.Create(t, pod)
		}
		after(t, env, 10*time.Second)
		own := getNode(t, env, "kelson")
		own.Spec.Taints = append(own.Spec.Taints, corev1.Taint{Key: "drain", Effect: corev1.TaintEffectNoExecute})
		if err := env.Client().Update(t.Context(), own); err != nil {
			t.Fatal(err)
		}
		after(t, env, 40*time.Second) // 30 of which are the grace period
		left := func() (names []string) {
			for _, p := range pods(t, env) {
				names = append(names, p.Name)
			}
			return names
		}
		if got := left(); !slices.Equal(got, []string{"forever", "minute"}) {
			t.Errorf("after 40 s: %v", got)
		}
		after(t, env, time.Minute)
		if got := left(); !slices.Equal(got, []string{"forever"}) {
			t.Errorf("after 100 s: %v", got)
		}
	})
}

// Nodes without heartbeats are not monitored, so that planes whose nodes have no Lease need no
// timers.
func TestNoHeartbeats(t *testing.T) {
	inCluster(t, func(t *testing.T, env *testenv.Env) {
		after(t, env, 24*time.Hour)
		if got := condition(getNode(t, env, "kelson")); got != "True KubeletReady" {
			t.Errorf("the node is %s", got)
		}
	})
}
