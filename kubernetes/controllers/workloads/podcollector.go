package workloads

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	apipod "k8s.io/kubernetes/pkg/api/v1/pod"
	nodeutil "k8s.io/kubernetes/pkg/util/node"
	utilpod "k8s.io/kubernetes/pkg/util/pod"
	"k8s.io/kubernetes/pkg/util/taints"
)

// These are the values of kube-controller-manager.
const (
	terminatedPods = 12500
	collectPeriod  = 20 * time.Second
	// quarantine is how long a node must be missing before its pods are deleted.
	quarantine = 40 * time.Second
)

// podCollector replaces Kubernetes' pod-garbage-collector-controller. Every 20 seconds it deletes
// the following pods, without a grace period:
//
//   - the oldest pods that have succeeded or failed, evicted ones first, if there are more than
//     12,500;
//   - terminating pods on nodes that are not ready and have the taint
//     node.kubernetes.io/out-of-service;
//   - pods of nodes that have not existed for 40 seconds, which get the condition DisruptionTarget;
//   - terminating pods without a node.
//
// Before it deletes a pod that has neither succeeded nor failed, it sets the phase to Failed,
// because no kubelet does so.
//
// Kubernetes' package imports the kubelet's eviction manager for one function. With it, the program
// would link 128 packages of the kubelet, cAdvisor and containerd: 1.3 MB of code, 0.6 MB of
// memory, one to two milliseconds of each start, and the time to compile them.
type podCollector struct {
	client kubernetes.Interface
	pods   corelisters.PodLister
	nodes  corelisters.NodeLister
	keep   int // number of terminated pods to keep

	missing map[string]time.Time // nodes of pods that do not exist, and when that was first seen
}

func newPodCollector(_ context.Context, read *access) (controller, error) {
	return single((&podCollector{
		client: read.client, pods: read.pods().Lister(), nodes: read.nodes().Lister(), keep: terminatedPods,
		missing: map[string]time.Time{},
	}).run), nil
}

func (c *podCollector) run(ctx context.Context) {
	ticker := time.NewTicker(collectPeriod)
	defer ticker.Stop()
	for {
		if err := c.collect(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Collect pods")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (c *podCollector) collect(ctx context.Context) error {
	pods, err := c.pods.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, pod := range c.surplus(pods) {
		c.delete(ctx, pod, nil)
	}
	gone := c.goneNodes(ctx, pods)
	for _, pod := range pods {
		node := pod.Spec.NodeName
		switch terminating := pod.DeletionTimestamp != nil; {
		case terminating && (node == "" || c.outOfService(node)):
			c.delete(ctx, pod, nil)
		case gone[node]:
			c.delete(ctx, pod, &corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				ObservedGeneration: apipod.CalculatePodConditionObservedGeneration(&pod.Status, pod.Generation,
					corev1.DisruptionTarget),
				Reason: "DeletionByPodGC", Message: "PodGC: node no longer exists",
			})
		}
	}
	return nil
}

// surplus returns the terminated pods that exceed the limit.
func (c *podCollector) surplus(pods []*corev1.Pod) []*corev1.Pod {
	var ended []*corev1.Pod
	for _, pod := range pods {
		if apipod.IsPodPhaseTerminal(pod.Status.Phase) {
			ended = append(ended, pod)
		}
	}
	if len(ended) <= c.keep {
		return nil
	}
	slices.SortFunc(ended, func(a, b *corev1.Pod) int {
		if isEvicted(a) != isEvicted(b) {
			if isEvicted(a) {
				return -1
			}
			return 1
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return ended[:len(ended)-c.keep]
}

func isEvicted(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "Evicted"
}

func (c *podCollector) outOfService(name string) bool {
	node, err := c.nodes.Get(name)
	return err == nil && !nodeutil.IsNodeReady(node) &&
		taints.TaintKeyExists(node.Spec.Taints, corev1.TaintNodeOutOfService)
}

// goneNodes returns the nodes of pods that have been missing for the quarantine and, according to
// the server, still are.
func (c *podCollector) goneNodes(ctx context.Context, pods []*corev1.Pod) map[string]bool {
	gone, earlier := map[string]bool{}, c.missing
	c.missing = map[string]time.Time{}
	for _, pod := range pods {
		name := pod.Spec.NodeName
		if _, seen := c.missing[name]; seen || name == "" {
			continue
		}
		if _, err := c.nodes.Get(name); err == nil {
			continue
		}
		since, ok := earlier[name]
		if !ok {
			since = time.Now()
		}
		if time.Since(since) >= quarantine {
			_, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err == nil {
				continue
			}
			gone[name] = apierrors.IsNotFound(err)
		}
		c.missing[name] = since
	}
	return gone
}

// delete marks a pod as failed and deletes it. It logs errors; the next round tries again.
func (c *podCollector) delete(ctx context.Context, pod *corev1.Pod, condition *corev1.PodCondition) {
	err := c.markFailed(ctx, pod, condition)
	if err == nil {
		err = c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *metav1.NewDeleteOptions(0))
	}
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Delete pod", "pod", klog.KObj(pod))
	}
}

func (c *podCollector) markFailed(ctx context.Context, pod *corev1.Pod, condition *corev1.PodCondition) error {
	if apipod.IsPodPhaseTerminal(pod.Status.Phase) {
		return nil
	}
	status := pod.Status.DeepCopy()
	status.Phase = corev1.PodFailed
	status.ObservedGeneration = apipod.CalculatePodStatusObservedGeneration(pod)
	if condition != nil {
		apipod.UpdatePodCondition(status, condition)
	}
	_, _, _, err := utilpod.PatchPodStatus(ctx, c.client, pod.Namespace, pod.Name, pod.UID, pod.Status, *status)
	return err
}
