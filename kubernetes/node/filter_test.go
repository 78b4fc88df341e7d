package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func list(cpu, memory, pods string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for name, text := range map[corev1.ResourceName]string{"cpu": cpu, "memory": memory, "pods": pods} {
		if text != "" {
			l[name] = resource.MustParse(text)
		}
	}
	return l
}

// testNode is ready and can run 3 pods with 4 CPUs and 8Gi of memory in total.
func testNode(name string, change func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}
	n.Status.Allocatable = list("4", "8Gi", "3")
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if change != nil {
		change(n)
	}
	return n
}

func podAsking(uid, cpu string, change func(*corev1.Pod)) *corev1.Pod {
	pod := testPod("Always", nil, []string{"a"})
	pod.UID = types.UID(uid)
	pod.Spec.Containers[0].Resources.Requests = list(cpu, "", "")
	if change != nil {
		change(pod)
	}
	return pod
}

// CTRL-04
func TestChoose(t *testing.T) {
	required := func(key, value string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: "In", Values: []string{value}}}}}}}}
		}
	}
	port := func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, Protocol: "TCP"}}
	}
	tainted := testNode("a", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: "NoSchedule"}} })
	cordoned := testNode("a", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	for _, test := range []struct {
		name          string
		nodes         []*corev1.Node
		there         map[string][]*corev1.Pod
		pod           *corev1.Pod
		want, message string
	}{
		{"no nodes", nil, nil, podAsking("p", "", nil), "", "no nodes available to schedule pods"},
		{"empty node", []*corev1.Node{testNode("a", nil)}, nil, podAsking("p", "1", nil), "a", ""},
		{"least loaded", []*corev1.Node{testNode("a", nil), testNode("b", nil)},
			map[string][]*corev1.Pod{"a": {podAsking("x", "1", nil)}}, podAsking("p", "1", nil), "b", ""},
		{"fewest pods", []*corev1.Node{testNode("a", nil), testNode("b", nil)},
			map[string][]*corev1.Pod{"a": {podAsking("x", "", nil)}}, podAsking("p", "", nil), "b", ""},
		{"too large", []*corev1.Node{testNode("a", nil)}, map[string][]*corev1.Pod{"a": {podAsking("x", "3500m", nil)}},
			podAsking("p", "1", nil), "", "0/1 nodes are available: 1 Insufficient cpu."},
		{"too many", []*corev1.Node{testNode("a", nil)},
			map[string][]*corev1.Pod{"a": {podAsking("x", "", nil), podAsking("y", "", nil), podAsking("z", "", nil)}},
			podAsking("p", "5", nil), "", "0/1 nodes are available: 1 Insufficient cpu, 1 Too many pods."},
		{"unknown resource", []*corev1.Node{testNode("a", nil)}, nil, podAsking("p", "", func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
		}), "", "0/1 nodes are available: 1 Insufficient example.com/gpu."},
		{"cordoned", []*corev1.Node{cordoned}, nil, podAsking("p", "", nil), "", "0/1 nodes are available: 1 node(s) were unschedulable."},
		{"cordoned and tolerated", []*corev1.Node{cordoned}, nil, podAsking("p", "", func(pod *corev1.Pod) {
			pod.Spec.Tolerations = []corev1.Toleration{{Operator: "Exists"}}
		}), "a", ""},
		{"not ready", []*corev1.Node{testNode("a", func(n *corev1.Node) { n.Status.Conditions = nil })}, nil, podAsking("p", "", nil),
			"", "0/1 nodes are available: 1 node(s) were not ready."},
		{"tainted", []*corev1.Node{tainted, testNode("b", func(n *corev1.Node) { n.Status.Allocatable = list("0", "0", "0") })}, nil,
			podAsking("p", "", nil), "", "0/2 nodes are available: 1 Too many pods, 1 node(s) had untolerated taint(s)."},
		{"tolerated", []*corev1.Node{tainted}, nil, podAsking("p", "", func(pod *corev1.Pod) {
			pod.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: "Equal", Value: "v", Effect: "NoSchedule"}}
		}), "a", ""},
		{"selector", []*corev1.Node{testNode("a", nil), testNode("b", nil)}, nil, podAsking("p", "", func(pod *corev1.Pod) {
			pod.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "b"}
		}), "b", ""},
		{"affinity", []*corev1.Node{testNode("a", nil), testNode("b", nil)}, nil, podAsking("p", "", required("kubernetes.io/hostname", "b")), "b", ""},
		{"no affinity", []*corev1.Node{testNode("a", nil)}, nil, podAsking("p", "", required("disk", "ssd")),
			"", "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."},
		{"port taken", []*corev1.Node{testNode("a", nil)}, map[string][]*corev1.Pod{"a": {podAsking("x", "", port)}}, podAsking("p", "", port),
			"", "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."},
	} {
		t.Run(test.name, func(t *testing.T) {
			nodeInfos := map[string]*nodeInfo{}
			for _, n := range test.nodes {
				nodeInfos[n.Name] = newNodeInfo(n)
				for _, pod := range test.there[n.Name] {
					nodeInfos[n.Name].add(pod)
				}
			}
			got, message := choose(test.pod, nodeInfos)
			if got != test.want || message != test.message {
				t.Errorf("got %q, %q, want %q, %q", got, message, test.want, test.message)
			}
		})
	}
}

func TestNodeInfo(t *testing.T) {
	r := newNodeInfo(testNode("a", nil))
	pod := podAsking("x", "3", nil)
	r.add(pod)
	r.add(pod) // again, like the event of a binding
	w := newPodInfo(podAsking("p", "1", nil))
	if m := w.rejections(r); m != nil {
		t.Errorf("a pod counts twice: %v", m)
	}
	r.remove("x")
	if cpu := r.used["cpu"]; !cpu.IsZero() || len(r.pods) > 0 {
		t.Errorf("left over: %v, %v", r.used, r.pods)
	}
}
