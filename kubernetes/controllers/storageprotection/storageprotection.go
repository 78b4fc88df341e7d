// Package storageprotection replaces persistentvolumeclaim-protection-controller,
// persistentvolume-protection-controller and volumeattributesclass-protection-controller: it delays
// the deletion of storage objects until they are no longer used.
//
// The admission plugin StorageObjectInUseProtection adds a finalizer to every new object of these
// kinds. The controller removes the finalizer from a deleted PersistentVolumeClaim when no pod on a
// node mounts it (pods that have ended count, too), from a deleted PersistentVolume when it is not
// bound, and from a deleted VolumeAttributesClass when no claim or volume names it. It does not add
// finalizers to objects that were created without the plugin.
package storageprotection

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/operator/client"
)

const (
	claims  = "persistentvolumeclaims"
	volumes = "persistentvolumes"
	classes = "volumeattributesclasses.storage.k8s.io"

	claimFinalizer  = "kubernetes.io/pvc-protection"
	volumeFinalizer = "kubernetes.io/pv-protection"
	classFinalizer  = "kubernetes.io/vac-protection"
)

// Config configures the controller. All fields except Log are required.
type Config struct {
	Store *store.Store
	// Claims, Volumes and Classes write the objects of these kinds.
	Claims, Volumes, Classes client.Client
	Log                      *slog.Logger
}

// Controller protects the storage objects of one control plane.
type Controller struct{ cfg Config }

// New returns a controller; call Run to start it.
func New(cfg Config) *Controller { return &Controller{cfg} }

// Run runs the controller until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	return follow.Run(ctx, follow.Config[store.Key]{
		Name: "storage protection", Store: c.cfg.Store, Log: c.cfg.Log, Keys: c.keys, Sync: c.sync,
		Resources: []string{claims, volumes, classes, "pods"},
	})
}

// keys adds the object itself and the objects that it uses, but only those that are being deleted.
func (c *Controller) keys(obj *store.Object, add func(store.Key)) {
	if obj.Key.Resource != "pods" && !obj.Head.DeletionTimestamp.IsZero() {
		add(obj.Key)
	}
	sn := c.cfg.Store.Snapshot()
	waits := func(key store.Key) {
		if used := sn.Get(key); used != nil && !used.Head.DeletionTimestamp.IsZero() {
			add(key)
		}
	}
	switch obj.Key.Resource {
	case "pods":
		if sn.Count(claims, "") == 0 {
			return
		}
		if pod, err := derived.Of[corev1.Pod](obj); err == nil {
			for name := range mounted(pod) {
				waits(store.Key{Resource: claims, Namespace: pod.Namespace, Name: name})
			}
		}
	case claims, volumes:
		for key := range sn.Scan(classes, "", store.Key{}) {
			waits(key.Key)
		}
	}
}

// mounted iterates over the names of the claims that a pod mounts.
func mounted(pod *corev1.Pod) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := range pod.Spec.Volumes {
			v := &pod.Spec.Volumes[i]
			switch {
			case v.PersistentVolumeClaim != nil:
				if !yield(v.PersistentVolumeClaim.ClaimName) {
					return
				}
			case v.Ephemeral != nil:
				if !yield(pod.Name + "-" + v.Name) {
					return
				}
			}
		}
	}
}

func (c *Controller) sync(ctx context.Context, key store.Key) (time.Duration, error) {
	sn := c.cfg.Store.Snapshot()
	obj := sn.Get(key)
	if obj == nil || obj.Head.DeletionTimestamp.IsZero() {
		return 0, nil
	}
	switch key.Resource {
	case claims:
		return 0, release(ctx, c.cfg.Store, c.cfg.Claims, obj, claimFinalizer,
			func(*corev1.PersistentVolumeClaim) bool { return claimUsed(sn, key) })
	case volumes:
		return 0, release(ctx, c.cfg.Store, c.cfg.Volumes, obj, volumeFinalizer, func(v *corev1.PersistentVolume) bool {
			return v.Status.Phase == corev1.VolumeBound
		})
	}
	return 0, release(ctx, c.cfg.Store, c.cfg.Classes, obj, classFinalizer,
		func(*storagev1.VolumeAttributesClass) bool { return classUsed(sn, key.Name) })
}

// release removes the finalizer from an object if it isn't used. The update has the object's
// revision as its precondition.
func release[T any, P interface {
	*T
	client.Object
}](ctx context.Context, st *store.Store, c client.Client, obj *store.Object, finalizer string,
	used func(*T) bool) error {
	shared, err := derived.Of[T](obj)
	if err != nil {
		return err
	}
	if !slices.Contains(P(shared).GetFinalizers(), finalizer) || used(shared) {
		return nil
	}
	copied := P(shared).DeepCopyObject().(P)
	copied.SetFinalizers(slices.DeleteFunc(copied.GetFinalizers(), func(f string) bool { return f == finalizer }))
	if err := follow.IgnoreGone(st, obj.Key, obj.Head.UID, c.Update(ctx, copied)); err != nil {
		return fmt.Errorf("remove finalizer of %s %s: %w", obj.Key.Resource, obj.Key.Name, err)
	}
	return nil
}

// claimUsed reports whether a pod on a node mounts a claim. A pod without a node doesn't count: it
// can't be scheduled while the claim is being deleted.
func claimUsed(sn *store.Snapshot, key store.Key) bool {
	for pod, err := range derived.List[corev1.Pod](sn, "pods", key.Namespace) {
		if err != nil {
			return true // it might mount the claim
		}
		if pod.Spec.NodeName == "" {
			continue
		}
		for name := range mounted(pod) {
			if name == key.Name {
				return true
			}
		}
	}
	return false
}

func classUsed(sn *store.Snapshot, name string) bool {
	matches := func(class *string) bool { return class != nil && *class == name }
	for claim, err := range derived.List[corev1.PersistentVolumeClaim](sn, claims, "") {
		if err != nil || matches(claim.Spec.VolumeAttributesClassName) ||
			matches(claim.Status.CurrentVolumeAttributesClassName) {
			return true
		}
	}
	for volume, err := range derived.List[corev1.PersistentVolume](sn, volumes, "") {
		if err != nil || matches(volume.Spec.VolumeAttributesClassName) {
			return true
		}
	}
	return false
}
