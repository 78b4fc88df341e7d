package tokens

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/operator/client"
)

const (
	lastUsedLabel     = "kubernetes.io/legacy-token-last-used"
	invalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"

	// trackingName is the ConfigMap in kube-system with the day on which recording the last use of
	// tokens began.
	trackingName = "kube-apiserver-legacy-service-account-token-tracking"
	trackingKey  = "since"

	// keepUnused is how long a token may be unused before it is marked as invalid, and then how
	// long it is kept.
	keepUnused = 365 * 24 * time.Hour
	// recheckMounted is when an expired token that pods still use is checked again.
	recheckMounted = 24 * time.Hour
)

// clearUnused marks a token that is listed by its account and unused for keepUnused, and deletes
// it when it has been marked for that long. It keeps tokens that the account does not list, because
// they were created by hand.
func (c *Controller) clearUnused(ctx context.Context, sn *store.Snapshot, account *corev1.ServiceAccount,
	secret *corev1.Secret) (again time.Duration, err error) {
	since, err := c.trackedSince(ctx, sn)
	if err != nil {
		return 0, err
	}
	if !slices.ContainsFunc(account.Secrets, func(ref corev1.ObjectReference) bool { return ref.Name == secret.Name }) {
		return 0, nil
	}
	free := since.Add(keepUnused)
	if created := secret.CreationTimestamp.Add(keepUnused); created.After(free) {
		free = created
	}
	if label, ok := secret.Labels[lastUsedLabel]; ok {
		used, err := time.Parse(time.DateOnly, label)
		if err != nil {
			return 0, nil // the time of the last use is unknown
		}
		if used = endOfDay(used).Add(keepUnused); used.After(free) {
			free = used
		}
	}
	now := time.Now().UTC()
	if !now.After(free) {
		return free.Sub(now) + time.Nanosecond, nil
	}
	for pod, err := range derived.List[corev1.Pod](sn, "pods", secret.Namespace) {
		if err == nil && c.cfg.Uses != nil && c.cfg.Uses(pod, secret.Name) {
			return recheckMounted, nil
		}
	}
	marked, err := time.Parse(time.DateOnly, secret.Labels[invalidSinceLabel])
	if err != nil {
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":%q,"labels":{%q:%q}}}`,
			secret.UID, secret.ResourceVersion, invalidSinceLabel, now.Format(time.DateOnly))
		return 0, c.written(c.cfg.Unused.Patch(ctx, secret.DeepCopy(), client.RawPatch(types.MergePatchType, patch)),
			"mark", secret)
	}
	if end := endOfDay(marked).Add(keepUnused); now.Before(end) {
		return end.Sub(now), nil
	}
	return 0, c.written(c.cfg.Unused.Delete(ctx, secret,
		client.Preconditions{UID: secret.UID, ResourceVersion: secret.ResourceVersion}), "delete", secret)
}

// endOfDay returns the end of a day: labels have no time of day.
func endOfDay(day time.Time) time.Time { return day.AddDate(0, 0, 1) }

// written returns the error of a write. It returns nil if the Secret was deleted or created again,
// because the event queues it again.
func (c *Controller) written(err error, what string, secret *corev1.Secret) error {
	key := store.Key{Resource: secrets, Namespace: secret.Namespace, Name: secret.Name}
	if err == nil || (apierrors.IsNotFound(err) || apierrors.IsConflict(err)) &&
		!follow.Exists(c.cfg.Store, key, secret.UID) {
		return nil
	}
	return fmt.Errorf("%s secret %s/%s: %w", what, secret.Namespace, secret.Name, err)
}

// trackedSince returns the end of the day since which the use of tokens is recorded. The first
// call, for the first token in a Secret, creates the record.
func (c *Controller) trackedSince(ctx context.Context, sn *store.Snapshot) (time.Time, error) {
	today := time.Now().UTC().Format(time.DateOnly)
	record, err := derived.Get[corev1.ConfigMap](sn, "configmaps", metav1.NamespaceSystem, trackingName)
	switch {
	case apierrors.IsNotFound(err):
		created := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: trackingName},
			Data:       map[string]string{trackingKey: today},
		}
		if err := c.cfg.Server.Create(ctx, created); err != nil && !apierrors.IsAlreadyExists(err) {
			return time.Time{}, fmt.Errorf("record start of token tracking: %w", err)
		}
		record = created
	case err != nil:
		return time.Time{}, err
	}
	since, err := time.Parse(time.DateOnly, record.Data[trackingKey])
	if err != nil {
		next := record.DeepCopy()
		if next.Data == nil {
			next.Data = map[string]string{}
		}
		next.Data[trackingKey] = today
		if err := c.cfg.Server.Update(ctx, next); err != nil {
			return time.Time{}, fmt.Errorf("record start of token tracking: %w", err)
		}
		since, _ = time.Parse(time.DateOnly, today)
	}
	return endOfDay(since), nil
}
