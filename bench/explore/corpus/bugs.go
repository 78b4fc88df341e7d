package corpus

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// deletesByName deletes its child when the resource is deleted. The bug: it deletes any child of
// this name. A process that sees an old state in which the resource is being deleted then deletes
// the child of the resource that a user has created again.
func deletesByName(fixed bool) func() reconciler {
	return stateless(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
		if cm.DeletionTimestamp == nil {
			if controllerutil.AddFinalizer(cm, finalizer) {
				return c.Update(ctx, cm)
			}
			return ensure(ctx, c, cm, "-data", "")
		}
		if !controllerutil.ContainsFinalizer(cm, finalizer) {
			return nil
		}
		child := secret(cm, "-data")
		var options []client.DeleteOption
		if fixed {
			if err := c.Get(ctx, client.ObjectKeyFromObject(child), child); client.IgnoreNotFound(err) != nil {
				return err
			}
			options = append(options, client.Preconditions{UID: &child.UID})
		}
		if !fixed || metav1.IsControlledBy(child, cm) {
			if err := c.Delete(ctx, child, options...); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		controllerutil.RemoveFinalizer(cm, finalizer)
		return client.IgnoreNotFound(c.Update(ctx, cm))
	})
}

// deletesThenResizes changes the size of a set and of its claim. To resize the set, it must delete
// the set first. The bug: it resizes the claim only if the set has another size, so it does not do
// so after a crash in between.
func deletesThenResizes(fixed bool) func() reconciler {
	resize := func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
		claim := secret(cm, "-claim")
		err := c.Get(ctx, client.ObjectKeyFromObject(claim), claim)
		if err != nil || string(claim.Data["value"]) == cm.Data["size"] {
			return err
		}
		claim.Data = map[string][]byte{"value": []byte(cm.Data["size"])}
		return c.Update(ctx, claim)
	}
	return stateless(alive(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
		if err := ensure(ctx, c, cm, "-claim", cm.Data["size"]); err != nil {
			return err
		}
		set := secret(cm, "-set")
		err := c.Get(ctx, client.ObjectKeyFromObject(set), set)
		switch {
		case apierrors.IsNotFound(err):
			if fixed {
				if err := resize(ctx, c, cm); client.IgnoreNotFound(err) != nil {
					return err
				}
			}
			return ensure(ctx, c, cm, "-set", cm.Data["size"])
		case err != nil || string(set.Data["value"]) == cm.Data["size"]:
			return err
		}
		if !metav1.IsControlledBy(set, cm) {
			return nil // it belongs to another client
		}
		if err := c.Delete(ctx, set, client.Preconditions{UID: &set.UID}); client.IgnoreNotFound(err) != nil {
			return err
		}
		return resize(ctx, c, cm)
	}))
}

// checksOne creates two Secrets. The bug: it looks for the first one only.
func checksOne(fixed bool) func() reconciler {
	return stateless(alive(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
		err := c.Get(ctx, client.ObjectKeyFromObject(secret(cm, "-key")), secret(cm, "-key"))
		if !apierrors.IsNotFound(err) && (err != nil || !fixed) {
			return err
		}
		if err := ensure(ctx, c, cm, "-key", "a"); err != nil {
			return err
		}
		return ensure(ctx, c, cm, "-cert", "b")
	}))
}

// remembers removes members and then their claims. The bug: only the process's memory says which
// members were removed.
func remembers(fixed bool) func() reconciler {
	return func() reconciler {
		removed := map[string]bool{}
		return alive(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
			members, err := strconv.Atoi(cm.Data["members"])
			if err != nil {
				return err
			}
			for i := range members {
				if err := ensure(ctx, c, cm, fmt.Sprintf("-%d-claim", i), ""); err != nil {
					return err
				}
				if err := ensure(ctx, c, cm, fmt.Sprintf("-%d-member", i), ""); err != nil {
					return err
				}
			}
			var all corev1.SecretList
			if err := c.List(ctx, &all, client.InNamespace(cm.Namespace)); err != nil {
				return err
			}
			var claims []corev1.Secret
			for _, s := range all.Items {
				if !metav1.IsControlledBy(&s, cm) {
					continue
				}
				index, kind, _ := strings.Cut(strings.TrimPrefix(s.Name, cm.Name+"-"), "-")
				if i, err := strconv.Atoi(index); err != nil || i < members {
					continue
				}
				if kind == "claim" {
					claims = append(claims, s)
					continue
				}
				if err := c.Delete(ctx, &s, client.Preconditions{UID: &s.UID}); client.IgnoreNotFound(err) != nil {
					return err
				}
				removed[index] = true
			}
			for _, s := range claims {
				index, _, _ := strings.Cut(strings.TrimPrefix(s.Name, cm.Name+"-"), "-")
				if !fixed && !removed[index] {
					continue
				}
				if err := c.Delete(ctx, &s, client.Preconditions{UID: &s.UID}); client.IgnoreNotFound(err) != nil {
					return err
				}
			}
			return nil
		})
	}
}

// dereferences copies an optional field. The bug: it does not test whether it is set.
func dereferences(fixed bool) func() reconciler {
	return stateless(alive(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
		if fixed && cm.Immutable == nil {
			return ensure(ctx, c, cm, "-copy", "false")
		}
		return ensure(ctx, c, cm, "-copy", strconv.FormatBool(*cm.Immutable))
	}))
}

// writesBack records in the resource that it has seen it. The bug: it writes the object that it has
// read, and so reverts concurrent changes of a user.
func writesBack(fixed bool) func() reconciler {
	return stateless(alive(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
		if cm.Annotations["seen"] != "" {
			return nil
		}
		before := cm.DeepCopy()
		cm.Annotations = map[string]string{"seen": "yes"}
		if fixed {
			return c.Patch(ctx, cm, client.MergeFrom(before))
		}
		before.Data = nil // so that the patch has all of the data
		return c.Patch(ctx, cm, client.MergeFrom(before))
	}))
}

// countsOnce creates a child for each resource up to a limit. The bug: it counts the objects in its
// cache, which may not contain its last write yet.
func countsOnce(fixed bool) func() reconciler {
	const limit = 2
	return stateless(alive(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
		if fixed {
			// A resource keeps its own place, independently of the cache.
			var resources corev1.ConfigMapList
			if err := c.List(ctx, &resources, client.InNamespace(cm.Namespace)); err != nil {
				return err
			}
			before := 0
			for _, other := range resources.Items {
				if other.Name != "kube-root-ca.crt" && other.Name < cm.Name {
					before++
				}
			}
			if before >= limit {
				return nil
			}
			return ensure(ctx, c, cm, "-place", "")
		}
		var all corev1.SecretList
		if err := c.List(ctx, &all, client.InNamespace(cm.Namespace)); err != nil || len(all.Items) >= limit {
			return err
		}
		return ensure(ctx, c, cm, "-place", "")
	}))
}

// updatesBlindly marks the resource. The bug: it updates the resource without the version that it
// has read, and so reverts concurrent changes of a user or another controller.
func updatesBlindly(fixed bool) func() reconciler {
	return stateless(alive(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
		if cm.Annotations["seen"] != "" {
			return nil
		}
		if cm.Annotations == nil {
			cm.Annotations = map[string]string{}
		}
		cm.Annotations["seen"] = "yes"
		if !fixed {
			cm.ResourceVersion = ""
		}
		return c.Update(ctx, cm)
	}))
}

// replacesFinalizers has a finalizer. The bug: a merge patch replaces the list, and so removes the
// finalizers that other controllers have added in the meantime.
func replacesFinalizers(fixed bool) func() reconciler {
	return stateless(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
		before := cm.DeepCopy()
		changed := false
		if cm.DeletionTimestamp == nil {
			changed = controllerutil.AddFinalizer(cm, finalizer)
		} else {
			changed = controllerutil.RemoveFinalizer(cm, finalizer)
		}
		if !changed {
			return nil
		}
		patch := client.MergeFrom(before)
		if fixed {
			patch = client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		}
		return client.IgnoreNotFound(c.Patch(ctx, cm, patch))
	})
}

// ignoresOlder creates a child. The bug: it ignores resources that existed before its process, and
// so misses those that were created while no process ran.
func ignoresOlder(fixed bool) func() reconciler {
	return func() reconciler {
		start := time.Now().Truncate(time.Second) // as precise as creation times
		return alive(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
			if !fixed && cm.CreationTimestamp.Time.Before(start) {
				return nil
			}
			return ensure(ctx, c, cm, "-data", "")
		})
	}
}

// cleansUp creates a child, which ends with the resource. The bug: the child has no owner, and the
// operator deletes it when it sees that the resource no longer exists. There is no finalizer, so it
// misses deletions while no process runs.
func cleansUp(fixed bool) func() reconciler {
	return stateless(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
		switch {
		case cm.DeletionTimestamp != nil && fixed:
			return nil
		case cm.DeletionTimestamp != nil:
			return client.IgnoreNotFound(c.Delete(ctx, secret(cm, "-data")))
		case fixed:
			return ensure(ctx, c, cm, "-data", "")
		}
		return client.IgnoreAlreadyExists(c.Create(ctx, secret(cm, "-data")))
	})
}

// applies writes a child by server-side apply at each reconcile. It has no bug: it keeps fields of
// other managers, and equal applies change nothing.
func applies(bool) func() reconciler {
	return stateless(alive(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
		child := secret(cm, "-applied")
		child.APIVersion, child.Kind = "v1", "Secret"
		child.Data = map[string][]byte{"value": []byte(cm.Data["size"])}
		if err := controllerutil.SetControllerReference(cm, child, clientgoscheme.Scheme); err != nil {
			return err
		}
		//nolint:staticcheck // the newer call needs generated types
		return c.Patch(ctx, child, client.Apply, client.FieldOwner("corpus"), client.ForceOwnership)
	}))
}
