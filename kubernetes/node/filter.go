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

// Why a node can't run a pod, in kube-scheduler's words. The message for too few resources is
// "Insufficient <resource>".
const (
	reasonName          = "node(s) didn't match the requested node name"
	reasonUnschedulable = "node(s) were unschedulable"
	reasonNotReady      = "node(s) were not ready"
	reasonAffinity      = "node(s) didn't match Pod's node affinity/selector"
	reasonTaints        = "node(s) had untolerated taint(s)"
	reasonPorts         = "node(s) didn't have free ports for the requested pod ports"
	reasonPods          = "Too many pods"
)

// nodeInfo is a node, its pods, and the sum of their requests.
type nodeInfo struct {
	node *corev1.Node
	pods map[string]*corev1.Pod // by uid: bound to the node and not terminated
	used corev1.ResourceList
}

func newNodeInfo(node *corev1.Node) *nodeInfo {
	return &nodeInfo{node: node, pods: map[string]*corev1.Pod{}, used: corev1.ResourceList{}}
}

func (r *nodeInfo) add(pod *corev1.Pod) {
	r.remove(string(pod.UID))
	r.pods[string(pod.UID)] = pod
	for name, quantity := range podRequests(pod) {
		sum := r.used[name]
		sum.Add(quantity)
		r.used[name] = sum
	}
}

func (r *nodeInfo) remove(uid string) {
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

// podInfo has a pod's scheduling requirements, computed once for all nodes.
type podInfo struct {
	pod      *corev1.Pod
	requests corev1.ResourceList
	selector labels.Selector
	affinity *nodeaffinity.LazyErrorNodeSelector // nil if there is no required affinity
}

func newPodInfo(pod *corev1.Pod) podInfo {
	w := podInfo{pod: pod, requests: podRequests(pod), selector: labels.SelectorFromSet(pod.Spec.NodeSelector)}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		w.affinity = nodeaffinity.NewLazyErrorNodeSelector(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	return w
}

// rejections returns why a node can't run the pod, or nil if it can. As in kube-scheduler, only the
// first failing filter reports, but it reports all its reasons.
func (w *podInfo) rejections(r *nodeInfo) []string {
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
	if w.portConflict(r) {
		return []string{reasonPorts}
	}
	return w.shortages(r)
}

func (w *podInfo) tolerates(taint *corev1.Taint) bool {
	return schedulingv1.TolerationsTolerateTaint(klog.Logger{}, w.pod.Spec.Tolerations, taint, false)
}

// nodeReady reports whether the node has a Ready condition with status True.
func nodeReady(node *corev1.Node) bool {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// shortages returns the resources of which the node has too little left.
func (w *podInfo) shortages(r *nodeInfo) []string {
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

// portConflict reports whether another pod of the node uses one of the pod's host ports.
func (w *podInfo) portConflict(r *nodeInfo) bool {
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

// load returns the larger of the used shares of CPU and memory if the pod ran on the node, from 0
// to 1.
func (w *podInfo) load(r *nodeInfo) float64 {
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

// choose picks the node for a pod: the least loaded of those that can run it, then the one with the
// fewest pods, then the first by name. If there is none, message says why, in kube-scheduler's
// form.
func choose(pod *corev1.Pod, nodeInfos map[string]*nodeInfo) (name, message string) {
	if len(nodeInfos) == 0 {
		return "", "no nodes available to schedule pods"
	}
	w := newPodInfo(pod)
	reasons := map[string]int{}
	var best *nodeInfo
	var bestLoad float64
	for _, candidate := range slices.Sorted(maps.Keys(nodeInfos)) {
		r := nodeInfos[candidate]
		if rejections := w.rejections(r); len(rejections) > 0 {
			for _, reason := range rejections {
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
	return "", fmt.Sprintf("0/%d nodes are available: %s.", len(nodeInfos), strings.Join(counted, ", "))
}
