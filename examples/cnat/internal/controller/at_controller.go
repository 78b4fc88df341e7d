// Package controller reconciles At objects.
package controller

import (
	"context"
	"errors"
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

// start runs the command. It records the pod in the status before it creates the pod. If it
// recorded the pod afterwards and that write failed, a later reconcile could not detect that the
// command ran.
func (r *AtReconciler) start(ctx context.Context, at *cnat.At) error {
	pending, pod, now := at.Status.DeepCopy(), podFor(at), metav1.Now()
	at.Status.Phase, at.Status.Pod, at.Status.StartTime = cnat.Running, pod.Name, &now
	incomplete(at, "Started", "the command starts in pod "+pod.Name)
	if err := operator.SaveStatus(ctx, at); err != nil {
		at.Status = *pending
		return err
	}
	pod, err := operator.Apply(ctx, r.Client, pod) // sets the owner; the next read returns the pod
	if err != nil {
		if refused(err) {
			at.Status = *pending // try again
		}
		return err
	}
	r.Events.Eventf(at, corev1.EventTypeNormal, "Started", "created pod %s", pod.Name)
	return nil
}

// refused reports whether an error means that the server did not create the object. After other
// errors, the object may exist.
func refused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 && !apierrors.IsTimeout(err)
}

// follow sets the status according to the pod.
func (r *AtReconciler) follow(ctx context.Context, at *cnat.At) error {
	key := client.Key{Namespace: at.Namespace, Name: at.Status.Pod}
	pod, err := client.Get[corev1.Pod](ctx, r.Client, key)
	if apierrors.IsNotFound(err) {
		// The cache may not contain the pod yet, because no response confirmed its creation.
		pod, err = client.Get[corev1.Pod](ctx, r.Live, key)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	switch {
	case err == nil && pod.Status.Phase == corev1.PodSucceeded:
		r.complete(at, cnat.Done, "Succeeded", "the command has run")
	case err != nil || pod.Status.Phase == corev1.PodFailed && pod.DeletionTimestamp != nil:
		r.complete(at, cnat.Failed, "PodLost", "pod "+at.Status.Pod+" is gone; it is unknown how far the command ran, so it is not run again")
	case pod.Status.Phase == corev1.PodFailed:
		r.complete(at, cnat.Failed, "CommandFailed", "the command failed: "+whyFailed(pod))
	case pod.Status.Phase == corev1.PodRunning:
		incomplete(at, "Running", "the command runs in pod "+pod.Name)
	default:
		if why := whyWaiting(pod); why != "" {
			incomplete(at, "Started", "pod "+pod.Name+" does not run yet: "+why)
		}
	}
	return nil
}

// incomplete sets the Complete condition to False.
func incomplete(at *cnat.At, reason, message string) {
	reconcile.SetCondition(at, metav1.Condition{Type: cnat.ConditionComplete, Status: metav1.ConditionFalse, Reason: reason, Message: message})
}

// complete ends an At.
func (r *AtReconciler) complete(at *cnat.At, phase cnat.AtPhase, reason, message string) {
	now := metav1.Now()
	at.Status.Phase, at.Status.CompletionTime = phase, &now
	reconcile.SetCondition(at, metav1.Condition{Type: cnat.ConditionComplete, Status: metav1.ConditionTrue, Reason: reason, Message: message})
	if phase == cnat.Done {
		r.Events.Event(at, corev1.EventTypeNormal, "Completed", message)
	} else {
		r.Events.Event(at, corev1.EventTypeWarning, reason, message)
	}
}
