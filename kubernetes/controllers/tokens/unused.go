package tokens

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/operator/client"
)

const (
	lastUsedLabel     = "kubernetes.io/legacy-token-last-used"
	invalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"

	// trackingName is the ConfigMap in kube-system that says since which day it is noted when tokens were last used.
	trackingName = "kube-apiserver-legacy-service-account-token-tracking"
	trackingKey  = "since"

	// unusedStays is how long a token may be unused before it is marked as invalid, and how long it is marked before it goes.
	unusedStays = 365 * 24 * time.Hour
	// mountedAgain is when a token that pods still use is looked at again.
	mountedAgain = 24 * time.Hour
)

// clearUnused marks a token that its account names and nobody uses, and deletes it when it was marked long enough. Tokens that accounts do not
// name were made by hand, and stay.
func (c *Controller) clearUnused(ctx context.Context, sn *store.Snapshot, account *corev1.ServiceAccount, secret *corev1.Secret) (again time.Duration, err error) {
	since, err := c.trackedSince(ctx, sn)
	if err != nil {
		return 0, err
	}
	if !slices.ContainsFunc(account.Secrets, func(ref corev1.ObjectReference) bool { return ref.Name == secret.Name }) {
		return 0, nil
	}
	free := since.Add(unusedStays)
	if made := secret.CreationTimestamp.Add(unusedStays); made.After(free) {
		free = made
	}
	if label, ok := secret.Labels[lastUsedLabel]; ok {
		used, err := time.Parse(time.DateOnly, label)
		if err != nil {
			return 0, nil // nobody knows when it was used
		}
		if used = dayAfter(used).Add(unusedStays); used.After(free) {
			free = used
		}
	}
	now := time.Now().UTC()
	if !now.After(free) {
		return free.Sub(now) + time.Nanosecond, nil
	}
	for pod, err := range derived.List[corev1.Pod](sn, "pods", secret.Namespace) {
		if err == nil && c.cfg.Uses != nil && c.cfg.Uses(pod, secret.Name) {
			return mountedAgain, nil
		}
	}
	marked, err := time.Parse(time.DateOnly, secret.Labels[invalidSinceLabel])
	if err != nil {
		next := secret.DeepCopy()
		metav1.SetMetaDataLabel(&next.ObjectMeta, invalidSinceLabel, now.Format(time.DateOnly))
		return 0, c.written(c.cfg.Client.Update(ctx, next), "mark", secret)
	}
	if end := dayAfter(marked).Add(unusedStays); now.Before(end) {
		return end.Sub(now), nil
	}
	return 0, c.written(c.cfg.Client.Delete(ctx, secret, client.Preconditions{UID: secret.UID, ResourceVersion: secret.ResourceVersion}), "delete", secret)
}

// dayAfter is the end of a day: labels do not say when on it.
func dayAfter(day time.Time) time.Time { return day.AddDate(0, 0, 1) }

// written leaves out what the newer state of a Secret brings here again.
func (c *Controller) written(err error, what string, secret *corev1.Secret) error {
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("%s secret %s/%s: %w", what, secret.Namespace, secret.Name, err)
}

// trackedSince is the end of the day on which the use of tokens was first noted. It is written down with the first
// token in a Secret.
func (c *Controller) trackedSince(ctx context.Context, sn *store.Snapshot) (time.Time, error) {
	today := time.Now().UTC().Format(time.DateOnly)
	there, err := derived.Get[corev1.ConfigMap](sn, "configmaps", metav1.NamespaceSystem, trackingName)
	switch {
	case apierrors.IsNotFound(err):
		made := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: trackingName}, Data: map[string]string{trackingKey: today},
		}
		if err := c.cfg.Client.Create(ctx, made); err != nil && !apierrors.IsAlreadyExists(err) {
			return time.Time{}, fmt.Errorf("write since when tokens are tracked: %w", err)
		}
		there = made
	case err != nil:
		return time.Time{}, err
	}
	since, err := time.Parse(time.DateOnly, there.Data[trackingKey])
	if err != nil {
		next := there.DeepCopy()
		if next.Data == nil {
			next.Data = map[string]string{}
		}
		next.Data[trackingKey] = today
		if err := c.cfg.Client.Update(ctx, next); err != nil {
			return time.Time{}, fmt.Errorf("write since when tokens are tracked: %w", err)
		}
		since, _ = time.Parse(time.DateOnly, today)
	}
	return dayAfter(since), nil
}
