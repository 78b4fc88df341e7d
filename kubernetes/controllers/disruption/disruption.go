// Package disruption replaces disruption-controller: it maintains the status of
// PodDisruptionBudgets, which evictions read. The status reports how many pods are healthy, how
// many must be healthy, and how many may be disrupted now.
//
// The controller reacts to store events of budgets, of pods that they select, and of the workloads
// that own those pods. An eviction decrements disruptionsAllowed itself and records the pod in
// disruptedPods. The controller removes the record when the pod has been deleted, or after two
// minutes. An eviction sets the condition DisruptionTarget of a pod before it deletes the pod. The
// controller resets the condition if the pod was not deleted. Budgets that select no pods, or whose
// pods cannot be counted, get Kubernetes' Events, and so do pods that several budgets select or
// that were not deleted after an eviction.
package disruption

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/component-helpers/apps/poddisruptionbudget"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/operator/client"
	"kelson.dev/operator/events"
)

// disruptedFor is how long a pod counts as disrupted after its eviction if it isn't deleted.
const disruptedFor = 2 * time.Minute

const budgets = "poddisruptionbudgets.policy"

// targetFor is how long a pod keeps the condition DisruptionTarget without being deleted.
const targetFor = 2 * time.Minute

// Config configures the controller. All fields except Log are required.
type Config struct {
	Store    *store.Store
	Registry *resource.Registry
	// Objects reads the workloads that scale pods.
	Objects resource.Objects
	// Client writes the status.
	Client client.Client
	Log    *slog.Logger
}

// Controller maintains the disruption budgets of one control plane.
type Controller struct {
	cfg         Config
	broadcaster *events.Broadcaster
	recorder    *events.Recorder
}

// New returns a controller; call Run to start it.
func New(cfg Config) *Controller {
	broadcaster := events.New(events.Config{Client: cfg.Client, Log: cfg.Log})
	return &Controller{cfg: cfg, broadcaster: broadcaster, recorder: broadcaster.Recorder("controllermanager")}
}

// Run runs the controller until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	defer parts.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parts.Go(func() { _ = c.broadcaster.Run(ctx) })
	return follow.Run(ctx, follow.Config[store.Key]{
		Name: "disruption budgets", Store: c.cfg.Store, Log: c.cfg.Log, Keys: c.keys, Sync: c.sync,
		Resources: []string{budgets, "pods", "replicationcontrollers", "replicasets.apps", "deployments.apps",
			"statefulsets.apps"},
	})
}

// keys adds the budgets that an object affects: for a pod, those that select it or record it as
// disrupted; for a workload, all of its namespace.
func (c *Controller) keys(obj *store.Object, add func(store.Key)) {
	if obj.Key.Resource == budgets {
		add(obj.Key)
		return
	}
	if obj.Key.Resource == "pods" && bytes.Contains(obj.Data, []byte(corev1.DisruptionTarget)) {
		if pod, err := derived.Of[corev1.Pod](obj); err == nil && target(pod) != nil {
			add(obj.Key)
		}
	}
	var selecting []string
	for budget := range c.cfg.Store.Snapshot().Scan(budgets, obj.Key.Namespace, store.Key{}) {
		if obj.Key.Resource != "pods" {
			add(budget.Key)
			continue
		}
		b, err := derived.Of[policyv1.PodDisruptionBudget](budget)
		if err != nil {
			continue
		}
		_, disrupted := b.Status.DisruptedPods[obj.Key.Name]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		selects := err == nil && selector.Matches(labels.Set(obj.Head.Labels))
		if selects {
			selecting = append(selecting, b.Name)
		}
		if disrupted || selects {
			add(budget.Key)
		}
	}
	if len(selecting) > 1 {
		c.severalBudgets(obj, selecting[0])
	}
}

// severalBudgets records that several budgets select a pod, which evictions refuse.
func (c *Controller) severalBudgets(obj *store.Object, budget string) {
	pod, err := derived.Of[corev1.Pod](obj)
	if err != nil {
		return
	}
	c.recorder.Eventf(pod, corev1.EventTypeWarning, "MultiplePodDisruptionBudgets",
		"Pod %q/%q matches multiple PodDisruptionBudgets.  Chose %q arbitrarily.", pod.Namespace, pod.Name, budget)
}

func (c *Controller) sync(ctx context.Context, key store.Key) (time.Duration, error) {
	sn := c.cfg.Store.Snapshot()
	if key.Resource == "pods" {
		return c.release(ctx, sn, key)
	}
	b, err := derived.Get[policyv1.PodDisruptionBudget](sn, budgets, key.Namespace, key.Name)
	if err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	now := time.Now()
	status, again, err := c.status(ctx, sn, b, now)
	next := b.DeepCopy()
	if err != nil { // allow no disruptions while the number is unknown
		next.Status.DisruptionsAllowed = 0
		meta.SetStatusCondition(&next.Status.Conditions, metav1.Condition{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse,
			Reason: policyv1.SyncFailedReason, Message: err.Error(), ObservedGeneration: b.Status.ObservedGeneration,
		})
	} else {
		status.Conditions = next.Status.Conditions
		next.Status = status
		poddisruptionbudget.UpdateDisruptionAllowedCondition(next)
	}
	if apiequality.Semantic.DeepEqual(b.Status, next.Status) {
		return again, nil
	}
	if err := c.cfg.Client.Subresource("status").Update(ctx, next, nil); err != nil {
		return 0, follow.IgnoreGone(c.cfg.Store, key, b.UID, err)
	}
	return again, nil
}

// target returns the condition DisruptionTarget of a pod that should be disrupted and is not
// deleted yet, or nil. It ignores conditions that a kubelet set, because kubelets may take long to
// end a pod.
func target(pod *corev1.Pod) *corev1.PodCondition {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue &&
			c.Reason != corev1.PodReasonTerminationByKubelet {
			return c
		}
	}
	return nil
}

// release resets the condition DisruptionTarget of a pod that was not deleted in time.
func (c *Controller) release(ctx context.Context, sn *store.Snapshot, key store.Key) (again time.Duration, err error) {
	pod, err := derived.Get[corev1.Pod](sn, key.Resource, key.Namespace, key.Name)
	if err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	set := target(pod)
	if set == nil {
		return 0, nil
	}
	if left := time.Until(set.LastTransitionTime.Add(targetFor)); left > 0 {
		return left, nil
	}
	next := pod.DeepCopy()
	*target(next) = corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse,
		LastTransitionTime: metav1.Now(),
		ObservedGeneration: set.ObservedGeneration}
	return 0, follow.IgnoreGone(c.cfg.Store, key, pod.UID, c.cfg.Client.Subresource("status").Update(ctx, next, nil))
}

// status computes a budget's status, without conditions. again is when it must be computed again
// even without events; 0 means never.
func (c *Controller) status(ctx context.Context, sn *store.Snapshot, b *policyv1.PodDisruptionBudget, now time.Time) (
	status policyv1.PodDisruptionBudgetStatus, again time.Duration, err error,
) {
	pods, err := selected(sn, b)
	if err != nil {
		c.recorder.Eventf(b, corev1.EventTypeWarning, "NoPods", "Failed to get pods: %v", err)
		return status, 0, err
	}
	if len(pods) == 0 {
		c.recorder.Event(b, corev1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	expected, desired, err := c.expected(ctx, b, pods)
	if err != nil {
		c.recorder.Eventf(b, corev1.EventTypeWarning, "CalculateExpectedPodCountFailed",
			"Failed to calculate the number of expected pods: %v", err)
		return status, 0, err
	}
	if relative(b) && slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		return metav1.GetControllerOf(pod) == nil
	}) {
		c.recorder.Eventf(b, corev1.EventTypeWarning, "UnmanagedPods",
			"Pods selected by this PodDisruptionBudget (selector: %v) were found to be unmanaged. "+
				"As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. "+
				`To account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.`,
			b.Spec.Selector)
	}
	status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: b.Generation, ExpectedPods: expected, DesiredHealthy: desired,
		DisruptedPods: map[string]metav1.Time{},
	}
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		if at, ok := b.Status.DisruptedPods[pod.Name]; ok {
			if left := at.Add(disruptedFor).Sub(now); left > 0 {
				status.DisruptedPods[pod.Name] = at
				if again == 0 || left < again {
					again = left
				}
				continue
			}
			c.recorder.Eventf(pod, corev1.EventTypeWarning, "NotDeleted",
				"Pod was expected by PDB %s/%s to be deleted but it wasn't", b.Namespace, b.Name)
		}
		if ready(pod) {
			status.CurrentHealthy++
		}
	}
	if len(status.DisruptedPods) == 0 {
		status.DisruptedPods = nil
	}
	if expected > 0 { // otherwise all of the first pods could be evicted before they are counted
		status.DisruptionsAllowed = max(0, status.CurrentHealthy-desired)
	}
	return status, again, nil
}

func selected(sn *store.Snapshot, b *policyv1.PodDisruptionBudget) ([]*corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("parse selector: %w", err)
	}
	var pods []*corev1.Pod
	for obj := range sn.Scan("pods", b.Namespace, store.Key{}) {
		if !selector.Matches(labels.Set(obj.Head.Labels)) {
			continue
		}
		pod, err := derived.Of[corev1.Pod](obj)
		if err != nil {
			return nil, err
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// relative reports whether a budget depends on the replicas that the pods' controllers want.
func relative(b *policyv1.PodDisruptionBudget) bool {
	return b.Spec.MaxUnavailable != nil || b.Spec.MinAvailable != nil && b.Spec.MinAvailable.Type == intstr.String
}

// expected returns how many pods a budget expects, and how many of them must be healthy. An integer
// in minAvailable needs only the number of pods; other values are relative to the replicas that the
// pods' controllers want.
func (c *Controller) expected(ctx context.Context, b *policyv1.PodDisruptionBudget,
	pods []*corev1.Pod) (expected, desired int32, err error) {
	least, most := b.Spec.MinAvailable, b.Spec.MaxUnavailable
	switch {
	case most == nil && least == nil:
		return 0, 0, nil
	case !relative(b):
		return int32(len(pods)), least.IntVal, nil
	}
	if expected, err = c.scale(ctx, pods); err != nil {
		return 0, 0, err
	}
	if most == nil {
		n, err := intstr.GetScaledValueFromIntOrPercent(least, int(expected), true)
		return expected, int32(n), err
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(most, int(expected), true)
	return expected, max(0, expected-int32(n)), err
}

// scale returns the sum of replicas that the controllers of the pods want. Pods without a
// controller are not counted.
func (c *Controller) scale(ctx context.Context, pods []*corev1.Pod) (int32, error) {
	wanted := map[types.UID]int32{}
	counted := map[types.UID]bool{}
	for _, pod := range pods {
		ref := metav1.GetControllerOf(pod)
		if ref == nil || counted[ref.UID] {
			continue
		}
		counted[ref.UID] = true
		uid, n, found, err := c.controller(ctx, pod.Namespace, ref)
		if err != nil {
			return 0, err
		}
		if !found {
			return 0, fmt.Errorf("found no controllers for pod %q", pod.Name)
		}
		wanted[uid] = n
	}
	var total int32
	for _, n := range wanted {
		total += n
	}
	return total, nil
}

// controller returns the uid and replicas of the owner that ref names, or of the Deployment that
// controls it. found is false if the owner does not exist or has no scale subresource.
func (c *Controller) controller(ctx context.Context, namespace string,
	ref *metav1.OwnerReference) (uid types.UID, replicas int32, found bool, err error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return "", 0, false, err
	}
	res, ok := c.cfg.Registry.Current().ByKind(schema.GroupKind{Group: gv.Group, Kind: ref.Kind})
	if !ok {
		return "", 0, false, nil
	}
	hub, err := c.cfg.Objects.Get(ctx, res, namespace, ref.Name)
	if err != nil {
		return "", 0, false, client.IgnoreNotFound(err)
	}
	object, err := meta.Accessor(hub)
	if err != nil || object.GetUID() != ref.UID {
		return "", 0, false, err
	}
	if above := metav1.GetControllerOf(object); above != nil && res.Group == "apps" && ref.Kind == "ReplicaSet" &&
		above.Kind == "Deployment" {
		if uid, n, found, err := c.controller(ctx, namespace, above); found || err != nil {
			return uid, n, found, err
		}
	}
	sub, ok := res.Subresource("scale")
	if !ok || sub.Update == nil || sub.Update.Get == nil {
		return "", 0, false, nil
	}
	view, err := sub.Update.Get(hub)
	if err != nil {
		return "", 0, false, err
	}
	scale, ok := view.(*autoscalingv1.Scale)
	if !ok {
		return "", 0, false, fmt.Errorf("scale of %s %s: unexpected type %T", res.Kind, ref.Name, view)
	}
	return object.GetUID(), scale.Spec.Replicas, true, nil
}
