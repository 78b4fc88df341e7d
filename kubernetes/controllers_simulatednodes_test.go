package kubernetes_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/simulatednodes"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

func getNode(t *testing.T, env *testenv.Env, name string) *corev1.Node {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	env.Get(t, n)
	return n
}

func ready(n *corev1.Node) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

func podOn(node, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		NodeName: node, Containers: []corev1.Container{{Name: "app", Image: "x"}},
	}}
}

// Nodes have the settings of their groups, and run pods, which the scheduler places by taints,
// zones and capacities.
func TestDeclaredNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Log(t), testenv.Nodes(controlplane.Simulated{Groups: []simulatednodes.Group{
			{Count: 2, Zones: []string{"a", "b"}, Capacity: corev1.ResourceList{"cpu": resource.MustParse("2")}},
			{Count: 1, Name: "db", Labels: map[string]string{"disk": "ssd"},
				Taints: []corev1.Taint{{Key: "db", Effect: corev1.TaintEffectNoSchedule}}},
		}}))
		env.Settle(t)
		nodes, err := client.List[corev1.Node](t.Context(), env.Client())
		require.NoError(t, err)
		addresses := map[string]bool{}
		for i, want := range []string{"db-1", "node-1", "node-2"} {
			n := nodes[i]
			if n.Name != want || ready(n) != corev1.ConditionTrue {
				t.Errorf("node %s, Ready %q; want %s", n.Name, ready(n), want)
			}
			addresses[n.Status.Addresses[0].Address] = true
		}
		if len(nodes) != 3 || len(addresses) != 3 {
			t.Errorf("%d nodes with the addresses %v", len(nodes), addresses)
		}
		if n := nodes[1]; n.Status.Allocatable.Cpu().Value() != 2 || n.Labels[corev1.LabelTopologyZone] != "a" ||
			len(n.Spec.Taints) != 0 {
			t.Errorf("%v %v %v", n.Status.Allocatable, n.Labels, n.Spec.Taints)
		}
		if n := nodes[0]; len(n.Spec.Taints) != 1 || n.Labels["disk"] != "ssd" {
			t.Errorf("%v %v", n.Spec.Taints, n.Labels)
		}
		inZone := podOn("", "in-zone")
		inZone.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "b"}
		tolerant := podOn("", "tolerant")
		tolerant.Spec.Tolerations = []corev1.Toleration{{Key: "db", Operator: corev1.TolerationOpExists}}
		tolerant.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		large := podOn("", "large")
		large.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("3")}
		for _, p := range []*corev1.Pod{inZone, tolerant, large} {
			env.Create(t, p)
		}
		time.Sleep(time.Minute)
		env.Settle(t)
		for name, want := range map[string]string{"in-zone": "node-2", "tolerant": "db-1", "large": ""} {
			p := getPod(t, env, name)
			if p.Spec.NodeName != want || want != "" && p.Status.Phase != corev1.PodRunning {
				t.Errorf("%s on %q: %s", name, p.Spec.NodeName, p.Status.Phase)
			}
		}
	})
}

// A simulated node runs what is added to a pod later.
func TestNodesFollowSpecs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Nodes(controlplane.Simulated{Groups: []simulatednodes.Group{{Count: 1}}}))
		env.Create(t, podOn("node-1", "web"))
		time.Sleep(time.Minute)
		env.Settle(t)
		p := getPod(t, env, "web")
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "y"}}}
		require.NoError(t, env.Client().Subresource("ephemeralcontainers").Update(t.Context(), p, nil))
		time.Sleep(time.Minute)
		env.Settle(t)
		p = getPod(t, env, "web")
		if s := p.Status.EphemeralContainerStatuses; len(s) != 1 || s[0].State.Running == nil || s[0].Image != "y" {
			t.Errorf("ephemeral containers %+v", s)
		}
		if s := p.Status.ContainerStatuses; len(s) != 1 || s[0].State.Running == nil || s[0].RestartCount != 0 {
			t.Errorf("containers %+v", s)
		}
	})
}

// A simulated node runs while its Node object exists, and does not change the settings in that
// object. Two agents do not run one pod, and addresses of pods are unique across nodes.
func TestNodesAtRunTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Workloads(), testenv.Nodes(controlplane.Simulated{}))
		env.Create(t, podOn("late", "early")) // bound before its node exists
		created := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "late", Labels: map[string]string{corev1.LabelOSStable: "plan9"},
				Annotations: map[string]string{simulatednodes.Annotation: simulatednodes.AnnotationValue}},
			Status: corev1.NodeStatus{
				Allocatable: corev1.ResourceList{"cpu": resource.MustParse("7"), "pods": resource.MustParse("10")},
				Capacity:    corev1.ResourceList{"cpu": resource.MustParse("8"), "pods": resource.MustParse("10")},
				Addresses:   []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.2.3"}},
				NodeInfo:    corev1.NodeSystemInfo{KubeletVersion: "fake"},
			},
		}
		env.Create(t, created)
		env.Create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}}) // not simulated
		env.Create(t, podOn("kelson", "own"))
		time.Sleep(time.Second)
		env.Settle(t)
		n := getNode(t, env, "late")
		if ready(n) != corev1.ConditionTrue || n.Labels[corev1.LabelOSStable] != "plan9" ||
			n.Labels[corev1.LabelHostname] != "late" {
			t.Errorf("Ready %q, labels %v", ready(n), n.Labels)
		}
		if s := n.Status; s.Allocatable.Cpu().Value() != 7 || s.Capacity.Cpu().Value() != 8 ||
			s.Addresses[0].Address != "10.1.2.3" || s.NodeInfo.KubeletVersion != "fake" {
			t.Errorf("status %+v", s)
		}
		if got := ready(getNode(t, env, "other")); got == corev1.ConditionTrue {
			t.Error("a Node without the annotation became ready")
		}
		early, own := getPod(t, env, "early"), getPod(t, env, "own")
		if early.Status.Phase != corev1.PodRunning || early.Status.HostIP != "10.1.2.3" ||
			own.Status.Phase != corev1.PodRunning || early.Status.PodIP == own.Status.PodIP {
			t.Errorf("%+v, %+v", early.Status, own.Status)
		}

		// A second Node of the same name is a new node.
		require.NoError(t, env.Client().Delete(t.Context(), created))
		again := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "late", Annotations: created.Annotations}}
		env.Create(t, again)
		time.Sleep(time.Second)
		env.Settle(t)
		if n := getNode(t, env, "late"); ready(n) != corev1.ConditionTrue || n.Status.Capacity.Cpu().Value() != 64 {
			t.Errorf("the second: Ready %q, %v", ready(n), n.Status.Capacity)
		}
		require.NoError(t, env.Client().Delete(t.Context(), again))
		time.Sleep(5 * time.Minute) // the pod garbage collector is slow
		env.Settle(t)
		pods, err := client.List[corev1.Pod](t.Context(), env.Client())
		if err != nil || slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == "late" }) {
			t.Errorf("pods of a node that is gone: %v", err)
		}
	})
}

// A silent node becomes unreachable; when it comes back, it is ready again and its pods are still
// running, without a restart.
func TestSilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Workloads(), testenv.Nodes(controlplane.Simulated{
			Groups: []simulatednodes.Group{{Count: 1}}, Lease: controlplane.NodeLease}))
		stays := podOn("node-1", "stays")
		stays.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		env.Create(t, stays)
		time.Sleep(time.Minute)
		env.Settle(t)
		before := getPod(t, env, "stays")
		silence := func(value string) {
			n := getNode(t, env, "node-1")
			n.Annotations[simulatednodes.AnnotationSilent] = value
			require.NoError(t, env.Client().Update(t.Context(), n))
		}
		silence("true")
		time.Sleep(2 * time.Minute)
		env.Settle(t)
		n := getNode(t, env, "node-1")
		if ready(n) != corev1.ConditionUnknown || !slices.ContainsFunc(n.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key == corev1.TaintNodeUnreachable
		}) {
			t.Errorf("a silent node: Ready %q, taints %v", ready(n), n.Spec.Taints)
		}
		silence("false")
		time.Sleep(time.Minute)
		env.Settle(t)
		if n := getNode(t, env, "node-1"); ready(n) != corev1.ConditionTrue || len(n.Spec.Taints) != 0 {
			t.Errorf("after the silence: Ready %q, taints %v", ready(n), n.Spec.Taints)
		}
		after := getPod(t, env, "stays")
		if a, b := before.Status.ContainerStatuses[0],
			after.Status.ContainerStatuses[0]; a.ContainerID != b.ContainerID || b.RestartCount != 0 || !b.Ready ||
			before.Status.PodIP != after.Status.PodIP {
			t.Errorf("before %+v, after %+v", a, b)
		}
	})
}
