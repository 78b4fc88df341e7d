package simulatedvolumes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/operator/client"
)

// resize enlarges the volume of a bound claim that requests more, and then the size in the claim's
// status. Both writes are conditional on the state that was read.
func (c *Controller) resize(ctx context.Context, sn *store.Snapshot, claim *corev1.PersistentVolumeClaim) error {
	wanted := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	reported, ok := claim.Status.Capacity[corev1.ResourceStorage]
	if claim.Status.Phase != corev1.ClaimBound || !ok || wanted.Cmp(reported) <= 0 {
		return nil
	}
	volume, err := derived.Get[corev1.PersistentVolume](sn, volumes, "", claim.Spec.VolumeName)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if volume.Spec.CSI == nil || volume.Spec.CSI.Driver != Driver {
		return nil
	}
	if size := volume.Spec.Capacity[corev1.ResourceStorage]; size.Cmp(wanted) < 0 {
		c.recorder.Event(claim, corev1.EventTypeNormal, "Resizing", "External resizer is resizing volume "+volume.Name)
		volume = volume.DeepCopy()
		volume.Spec.Capacity[corev1.ResourceStorage] = wanted
		if err := c.cfg.Client.Update(ctx, volume); err != nil {
			return fmt.Errorf("resize volume: %w", err)
		}
	}
	claim = claim.DeepCopy()
	claim.Status.Capacity[corev1.ResourceStorage] = wanted
	claim.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: wanted}
	delete(claim.Status.AllocatedResourceStatuses, corev1.ResourceStorage)
	if err := c.cfg.Client.Subresource("status").Update(ctx, claim, nil); err != nil {
		return fmt.Errorf("report size of claim: %w", err)
	}
	c.recorder.Event(claim, corev1.EventTypeNormal, "VolumeResizeSuccessful", "Resize volume succeeded")
	return nil
}
