package simulatedvolumes

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/operator/client"
)

// The protocol between the volume binder, the scheduler and provisioners. Source: the documentation
// of external-provisioner and "well-known labels, annotations and taints" of Kubernetes.
const (
	annotationProvisioner     = "volume.kubernetes.io/storage-provisioner"
	annotationProvisionerBeta = "volume.beta.kubernetes.io/storage-provisioner"
	annotationNode            = "volume.kubernetes.io/selected-node"
	annotationProvisionedBy   = "pv.kubernetes.io/provisioned-by"
	finalizer                 = "external-provisioner.volume.kubernetes.io/finalizer"
)

// retryFailed is when a failed provisioning is tried again.
const retryFailed = time.Minute

// provision creates the volume of a claim that waits for this driver. It returns when to try again;
// 0 means when an object changes.
func (c *Controller) provision(ctx context.Context, sn *store.Snapshot,
	claim *corev1.PersistentVolumeClaim) (time.Duration, error) {
	by := claim.Annotations[annotationProvisioner]
	if by == "" {
		by = claim.Annotations[annotationProvisionerBeta]
	}
	if by != Driver || claim.DeletionTimestamp != nil || claim.Spec.StorageClassName == nil {
		return 0, nil
	}
	class, err := derived.Get[storagev1.StorageClass](sn, classes, "", *claim.Spec.StorageClassName)
	if err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	waits := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	if class.Provisioner != Driver || waits && claim.Annotations[annotationNode] == "" {
		return 0, nil
	}
	volume := provisioned(claim, class)
	if _, err := derived.Get[corev1.PersistentVolume](sn, volumes, "", volume.Name); err == nil {
		return 0, nil // the binder binds it
	}
	delay, message := check(claim, class)
	if message != "" {
		c.recorder.Event(claim, corev1.EventTypeWarning, "ProvisioningFailed",
			fmt.Sprintf("failed to provision volume with StorageClass %q: %s", class.Name, message))
		return retryFailed, nil
	}
	if left := time.Until(claim.CreationTimestamp.Add(delay)); left > 0 {
		return left, nil
	}
	c.recorder.Event(claim, corev1.EventTypeNormal, "Provisioning",
		fmt.Sprintf("External provisioner is provisioning volume for claim %q", claim.Namespace+"/"+claim.Name))
	if err := follow.IgnoreExists(c.cfg.Store, store.Key{Resource: volumes, Name: volume.Name},
		c.cfg.Client.Create(ctx, volume)); err != nil {
		return 0, fmt.Errorf("create volume: %w", err)
	}
	c.recorder.Event(claim, corev1.EventTypeNormal, "ProvisioningSucceeded",
		"Successfully provisioned volume "+volume.Name)
	return 0, nil
}

// check returns how long provisioning takes, and why it fails, if it does.
func check(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) (delay time.Duration, failure string) {
	for name, value := range class.Parameters {
		switch name {
		case "delay":
			var err error
			if delay, err = time.ParseDuration(value); err != nil {
				return 0, fmt.Sprintf("parameter delay: %v", err)
			}
		case "error":
			failure = value
		default:
			return 0, fmt.Sprintf("unknown parameter %q: the driver has delay and error", name)
		}
	}
	switch source := claim.Spec.DataSource; {
	case failure != "":
	case claim.Spec.Selector != nil:
		failure = "claim Selector is not supported"
	case source != nil && source.Kind != "PersistentVolumeClaim":
		failure = fmt.Sprintf("data source %s is not supported", source.Kind)
	}
	return delay, failure
}

// provisioned returns the volume of a claim.
func provisioned(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) *corev1.PersistentVolume {
	name := "pvc-" + string(claim.UID)
	policy := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		policy = *class.ReclaimPolicy
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annotationProvisionedBy: Driver}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes,
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeReclaimPolicy: policy, StorageClassName: class.Name, MountOptions: class.MountOptions,
			VolumeMode: claim.Spec.VolumeMode, VolumeAttributesClassName: claim.Spec.VolumeAttributesClassName,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: Driver, VolumeHandle: name}},
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name,
				UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
		},
	}
	if policy == corev1.PersistentVolumeReclaimDelete {
		volume.Finalizers = []string{finalizer}
	}
	return volume
}

// reclaim deletes a released volume whose policy is Delete, and completes the deletion of volumes.
func (c *Controller) reclaim(ctx context.Context, volume *corev1.PersistentVolume) error {
	key := store.Key{Resource: volumes, Name: volume.Name}
	released := volume.Status.Phase == corev1.VolumeReleased || volume.Status.Phase == corev1.VolumeFailed
	if volume.Annotations[annotationProvisionedBy] != Driver {
		return nil
	}
	if volume.DeletionTimestamp == nil {
		if !released || volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
			return nil
		}
		err := c.cfg.Client.Delete(ctx, volume.DeepCopy(), client.Preconditions{UID: volume.UID})
		if err = follow.IgnoreGone(c.cfg.Store, key, volume.UID, err); err != nil {
			return fmt.Errorf("delete volume: %w", err)
		}
		return nil
	}
	if volume.Status.Phase == corev1.VolumeBound || !slices.Contains(volume.Finalizers, finalizer) {
		return nil
	}
	volume = volume.DeepCopy()
	volume.Finalizers = slices.DeleteFunc(volume.Finalizers, func(f string) bool { return f == finalizer })
	if err := follow.IgnoreGone(c.cfg.Store, key, volume.UID, c.cfg.Client.Update(ctx, volume)); err != nil {
		return fmt.Errorf("remove finalizer of volume: %w", err)
	}
	return nil
}
