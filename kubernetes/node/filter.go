package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/resource"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// Reasons for which a node can't take a pod, in kube-scheduler's words; shortages are "Insufficient <resource>".
const (
	reasonName          = "node(s) didn't match the requested node name"
	reasonUnschedulable = "node(s) were unschedulable"
	reasonNotReady      = "node(s) were not ready"
	reasonAffinity      = "node(s) didn't match Pod's node affinity/selector"
	reasonTaints        = "node(s) had untolerated taint(s)"
	reasonPorts         = "node(s) didn't have free ports for the requested pod ports"
	reasonPods          = "Too many pods"
)

// room is a node and what is taken of it.
type room struct {
	node *corev1.Node
	pods map[string]*corev1.Pod // by uid: bound to it and not ended
	used corev1.ResourceList
}

func newRoom(node *corev1.Node) *room {
	return &room{node: node, pods: map[string]*corev1.Pod{}, used: corev1.ResourceList{}}
}

func (r *room) add(pod *corev1.Pod) {
	r.remove(string(pod.UID))
	r.pods[string(pod.UID)] = pod
	for name, quantity := range podRequests(pod) {
		sum := r.used[name]
		sum.Add(quantity)
		r.used[name] = sum
	}
}

func (r *room) remove(uid string) {
	pod, ok := r.pods[uid]
	if !ok {
		return
	}
	delete(r.pods, uid)
	for name, quantity := range podRequests(pod) {
		sum := r.used[name]
		sum.Sub(quantity)
		r.used[name] = sum
	}
}

func podRequests(pod *corev1.Pod) corev1.ResourceList {
	return resource.PodRequests(pod, resource.PodResourcesOptions{})
}

// wish is what a pod wants of a node, computed once for all nodes.
type wish struct {
	pod      *corev1.Pod
	requests corev1.ResourceList
	selector labels.Selector
	affinity *nodeaffinity.LazyErrorNodeSelector // nil: none required
}

func newWish(pod *corev1.Pod) wish {
	w := wish{pod: pod, requests: podRequests(pod), selector: labels.SelectorFromSet(pod.Spec.NodeSelector)}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		w.affinity = nodeaffinity.NewLazyErrorNodeSelector(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	return w
}

// misfits lists why a node can't take the pod; nothing when it can. As in kube-scheduler the first filter that objects is the
// only one that speaks, and it names everything it misses.
func (w *wish) misfits(r *room) []string {
	switch {
	case r.node.Spec.Unschedulable && !w.tolerates(&corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}):
		return []string{reasonUnschedulable}
	case !nodeReady(r.node) && !w.tolerates(&corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}):
		return []string{reasonNotReady}
	}
	for i := range r.node.Spec.Taints {
		taint := &r.node.Spec.Taints[i]
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !w.tolerates(taint) {
			return []string{reasonTaints}
		}
	}
	if !w.selector.Matches(labels.Set(r.node.Labels)) {
		return []string{reasonAffinity}
	}
	if w.affinity != nil {
		if ok, err := w.affinity.Match(r.node); err != nil || !ok {
			return []string{reasonAffinity}
		}
	}
	if w.portTaken(r) {
		return []string{reasonPorts}
	}
	return w.shortages(r)
}

func (w *wish) tolerates(taint *corev1.Taint) bool {
	return schedulingv1.TolerationsTolerateTaint(klog.Logger{}, w.pod.Spec.Tolerations, taint, false)
}

// nodeReady is false for a node whose agent said so, or was not heard of.
func nodeReady(node *corev1.Node) bool {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// shortages compares requests with what is left.
func (w *wish) shortages(r *room) []string {
	var reasons []string
	if limit, ok := r.node.Status.Allocatable[corev1.ResourcePods]; ok && int64(len(r.pods)) >= limit.Value() {
		reasons = append(reasons, reasonPods)
	}
	for _, name := range slices.Sorted(maps.Keys(w.requests)) {
		wanted := w.requests[name]
		if wanted.IsZero() {
			continue
		}
		wanted.Add(r.used[name])
		if wanted.Cmp(r.node.Status.Allocatable[name]) > 0 {
			reasons = append(reasons, fmt.Sprintf("Insufficient %s", name))
		}
	}
	return reasons
}

// portTaken tells whether a host port of the pod is taken by another pod of the node.
func (w *wish) portTaken(r *room) bool {
	wanted := hostPorts(w.pod)
	if len(wanted) == 0 {
		return false
	}
	for _, pod := range r.pods {
		for _, taken := range hostPorts(pod) {
			for _, port := range wanted {
				sameAddress := port.HostIP == taken.HostIP || anyAddress(port.HostIP) || anyAddress(taken.HostIP)
				if port.HostPort == taken.HostPort && port.Protocol == taken.Protocol && sameAddress {
					return true
				}
			}
		}
	}
	return false
}

func anyAddress(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }

func hostPorts(pod *corev1.Pod) []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.HostPort != 0 {
				ports = append(ports, port)
			}
		}
	}
	return ports
}

// load is the larger of the shares of processors and memory that would be in use with the pod, 0 to 1.
func (w *wish) load(r *room) float64 {
	load := 0.0
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		total := r.node.Status.Allocatable[name]
		if total.IsZero() {
			continue
		}
		used, wanted := r.used[name], w.requests[name]
		load = max(load, (used.AsApproximateFloat64()+wanted.AsApproximateFloat64())/total.AsApproximateFloat64())
	}
	return load
}

// choose picks the node for a pod: of those that can take it the least loaded, then the one with the fewest pods, then by name.
// Where none can, message says why, as kube-scheduler does.
func choose(pod *corev1.Pod, rooms map[string]*room) (name, message string) {
	if len(rooms) == 0 {
		return "", "no nodes available to schedule pods"
	}
	w := newWish(pod)
	reasons := map[string]int{}
	var best *room
	var bestLoad float64
	for _, candidate := range slices.Sorted(maps.Keys(rooms)) {
		r := rooms[candidate]
		if misfits := w.misfits(r); len(misfits) > 0 {
			for _, reason := range misfits {
				reasons[reason]++
			}
			continue
		}
		load := w.load(r)
		if best == nil || load < bestLoad || load == bestLoad && len(r.pods) < len(best.pods) {
			best, bestLoad = r, load
		}
	}
	if best != nil {
		return best.node.Name, ""
	}
	var counted []string
	for reason, n := range reasons {
		counted = append(counted, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(counted)
	return "", fmt.Sprintf("0/%d nodes are available: %s.", len(rooms), strings.Join(counted, ", "))
}
