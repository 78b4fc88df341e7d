// Package controller reconciles At objects.
package controller

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"

	cnat "kelson.dev/examples/cnat/api/v1alpha1"
)

// +kubebuilder:rbac:groups=cnat.programming-kubernetes.info,resources=ats,verbs=get;list;watch
// +kubebuilder:rbac:groups=cnat.programming-kubernetes.info,resources=ats/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=cnat.programming-kubernetes.info,resources=ats/finalizers,verbs=update
// +kubebuilder:rbac:groups=core,resources=pods,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=core,resources=events,verbs=create;patch

// Parts returns the parts of the operator.
func Parts() []operator.Part {
	return []operator.Part{
		operator.Name("cnat"),
		operator.AddToScheme(cnat.AddToScheme),
		operator.For(NewAtReconciler, // the parameter type of Reconcile determines the kind
			operator.Owns[corev1.Pod](),
			operator.Concurrency(4)),
	}
}

// AtReconciler runs the command of an At in a pod when it is due.
type AtReconciler struct{ operator.Deps }

// NewAtReconciler returns an AtReconciler.
func NewAtReconciler(deps operator.Deps) *AtReconciler { return &AtReconciler{deps} }

// Reconcile advances an At: PENDING until it is due, RUNNING with a pod, then DONE or FAILED. The
// library writes changes of at.Status after Reconcile returns.
func (r *AtReconciler) Reconcile(ctx context.Context, at *cnat.At) (operator.Result, error) {
	switch at.Status.Phase {
	case cnat.Done, cnat.Failed:
		// A command runs once, even if its pod or the spec changes.
		return operator.Result{}, nil
	case cnat.Running:
		return operator.Result{}, r.follow(ctx, at)
	}
	due, err := time.Parse(time.RFC3339, at.Spec.Schedule)
	if err != nil {
		return operator.Invalid("spec.schedule", err) // a condition, not a retry
	}
	wait := time.Until(due)
	if at.Status.Phase == "" {
		// Record the phase Pending first, even if the At is due already. The status write causes
		// another reconcile.
		at.Status.Phase = cnat.Pending
		r.Events.Eventf(at, corev1.EventTypeNormal, "Scheduled", "the command is due at %s", at.Spec.Schedule)
		wait = max(wait, time.Millisecond)
	}
	if wait > 0 {
		incomplete(at, "Waiting", "the command is due at "+at.Spec.Schedule)
		return operator.After(wait), nil
	}
	return operator.Result{}, r.start(ctx, at)
}

// start creates the pod of the command, records it in the status, and lets it run. A gate holds the
// pod until then. If the operator ends in between, the next process continues: a pod that no status
// names has not run, and the pod of the status is the only one that may run.
func (r *AtReconciler) start(ctx context.Context, at *cnat.At) error {
	pod, err := operator.Apply(ctx, r.Client, podFor(at)) // sets the owner
	if err != nil {
		return err
	}
	now := metav1.Now()
	at.Status.Phase, at.Status.Pod, at.Status.PodUID, at.Status.StartTime = cnat.Running, pod.Name, pod.UID, &now
	incomplete(at, "Started", "the command starts in pod "+pod.Name)
	if err := operator.SaveStatus(ctx, at); err != nil {
		return err
	}
	r.Events.Eventf(at, corev1.EventTypeNormal, "Started", "created pod %s", pod.Name)
	return r.release(ctx, pod)
}

// release removes the gate of a pod.
func (r *AtReconciler) release(ctx context.Context, pod *corev1.Pod) error {
	if len(pod.Spec.SchedulingGates) == 0 {
		return nil
	}
	before := pod.DeepCopy()
	pod.Spec.SchedulingGates = nil
	return r.Client.Patch(ctx, pod, client.MergeFrom(before))
}

// follow sets the status according to the pod.
func (r *AtReconciler) follow(ctx context.Context, at *cnat.At) error {
	key := client.Key{Namespace: at.Namespace, Name: at.Status.Pod}
	pod, err := client.Get[corev1.Pod](ctx, r.Client, key)
	if apierrors.IsNotFound(err) {
		// The cache may not contain the pod yet.
		pod, err = client.Get[corev1.Pod](ctx, r.Live, key)
	}
	lost := apierrors.IsNotFound(err) || err == nil && pod.UID != at.Status.PodUID
	if err != nil && !lost {
		return err
	}
	switch {
	case !lost && pod.Status.Phase == corev1.PodSucceeded:
		r.complete(at, cnat.Done, "Succeeded", "the command has run")
	case lost || pod.Status.Phase == corev1.PodFailed && pod.DeletionTimestamp != nil:
		r.complete(at, cnat.Failed, "PodLost", "pod "+at.Status.Pod+
			" is gone; it is unknown how far the command ran, so it is not run again")
	case pod.Status.Phase == corev1.PodFailed:
		r.complete(at, cnat.Failed, "CommandFailed", "the command failed: "+whyFailed(pod))
	case pod.Status.Phase == corev1.PodRunning:
		incomplete(at, "Running", "the command runs in pod "+pod.Name)
	default:
		if why := whyWaiting(pod); why != "" {
			incomplete(at, "Started", "pod "+pod.Name+" does not run yet: "+why)
		}
		return r.release(ctx, pod)
	}
	return nil
}

// incomplete sets the Complete condition to False.
func incomplete(at *cnat.At, reason, message string) {
	reconcile.SetCondition(at, metav1.Condition{Type: cnat.ConditionComplete, Status: metav1.ConditionFalse,
		Reason: reason, Message: message})
}

// complete ends an At.
func (r *AtReconciler) complete(at *cnat.At, phase cnat.AtPhase, reason, message string) {
	now := metav1.Now()
	at.Status.Phase, at.Status.CompletionTime = phase, &now
	reconcile.SetCondition(at, metav1.Condition{Type: cnat.ConditionComplete, Status: metav1.ConditionTrue,
		Reason: reason, Message: message})
	if phase == cnat.Done {
		r.Events.Event(at, corev1.EventTypeNormal, "Completed", message)
	} else {
		r.Events.Event(at, corev1.EventTypeWarning, reason, message)
	}
}
