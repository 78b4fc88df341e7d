package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/client"
)

// errPodGone means that the pod no longer exists, or that another pod has its name.
var errPodGone = errors.New("the pod is gone")

// writeStatus changes the pod's status by a patch with only the differences, so that concurrent
// changes of other fields are kept. It returns the resulting pod, or the given one if there is no
// difference.
func writeStatus(ctx context.Context, c client.Client, pod *corev1.Pod, status corev1.PodStatus) (*corev1.Pod, error) {
	patch, err := statusPatch(pod, status)
	if err != nil || patch == nil {
		return pod, err
	}
	answer := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err = c.Subresource("status").Patch(ctx, answer, client.RawPatch(types.StrategicMergePatchType, patch))
	switch {
	case isGone(ctx, c, pod, err):
		return nil, fmt.Errorf("write status: %w", errPodGone)
	case err != nil:
		return nil, fmt.Errorf("write status: %w", err)
	}
	return answer, nil
}

// isGone reports whether a write failed because the pod was deleted or replaced. It reads the pod
// again, because the error of the write can come from admission and name another object.
func isGone(ctx context.Context, c client.Client, pod *corev1.Pod, err error) bool {
	if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return false
	}
	// Nodes may get only pods that exist, but list the pods of their node.
	now, err := client.List[corev1.Pod](ctx, c, client.InNamespace(pod.Namespace),
		client.MatchingFields{"metadata.name": pod.Name, "spec.nodeName": pod.Spec.NodeName})
	return err == nil && (len(now) == 0 || now[0].UID != pod.UID)
}

// deletePod completes the deletion of a pod whose containers have ended.
func (a *Agent) deletePod(ctx context.Context, pod *corev1.Pod) error {
	obj := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err := a.client.Delete(ctx, obj, client.GracePeriodSeconds(0), client.Preconditions{UID: pod.UID})
	if err != nil && !isGone(ctx, a.client, pod, err) {
		return fmt.Errorf("delete pod: %w", err)
	}
	return nil
}

// configMap implements sources, with a kubelet's error messages.
func (a *Agent) configMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	object, err := client.Get[corev1.ConfigMap](ctx, a.client, client.Key{Namespace: namespace, Name: name})
	return object, plain(err)
}

func (a *Agent) secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	object, err := client.Get[corev1.Secret](ctx, a.client, client.Key{Namespace: namespace, Name: name})
	return object, plain(err)
}

// plain shortens a server's error to what a kubelet shows users, such as `configmap "x" not found`.
func plain(err error) error {
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return err
	}
	if d := status.ErrStatus.Details; apierrors.IsNotFound(err) && d != nil {
		kind := map[string]string{"configmaps": "configmap", "secrets": "secret"}[d.Kind]
		if kind != "" {
			return fmt.Errorf("%s %q not found", kind, d.Name)
		}
	}
	return status
}

// older reports whether a is certainly an older state of an object than b. The resource versions of
// API servers are increasing numbers.
func older(a, b *corev1.Pod) bool {
	x, errX := strconv.ParseUint(a.ResourceVersion, 10, 64)
	y, errY := strconv.ParseUint(b.ResourceVersion, 10, 64)
	return errX == nil && errY == nil && x < y
}
