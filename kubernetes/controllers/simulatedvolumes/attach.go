package simulatedvolumes

import (
	"context"
	"crypto/sha256"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/follow"
)

// attach makes the VolumeAttachments of a volume correspond to the pods that mount it. Kubernetes'
// own attach-detach-controller would poll ten times a second.
func (c *Controller) attach(ctx context.Context, sn *store.Snapshot, volume *corev1.PersistentVolume) error {
	wanted := usedOn(sn, volume)
	for attachment, err := range derived.List[storagev1.VolumeAttachment](sn, attachments, "") {
		if err != nil || attachment.Spec.Attacher != Driver || attachment.Spec.Source.PersistentVolumeName == nil ||
			*attachment.Spec.Source.PersistentVolumeName != volume.Name {
			continue
		}
		if !wanted[attachment.Spec.NodeName] {
			key := store.Key{Resource: attachments, Name: attachment.Name}
			if err := follow.IgnoreGone(c.cfg.Store, key, attachment.UID,
				c.cfg.Client.Delete(ctx, attachment.DeepCopy())); err != nil {
				return fmt.Errorf("detach volume: %w", err)
			}
			continue
		}
		delete(wanted, attachment.Spec.NodeName)
		if err := c.attached(ctx, attachment); err != nil {
			return err
		}
	}
	for node := range wanted {
		attachment := &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: attachmentName(volume.Spec.CSI.VolumeHandle, node)},
			Spec: storagev1.VolumeAttachmentSpec{
				Attacher: Driver, NodeName: node,
				Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume.Name},
			},
		}
		if err := c.cfg.Client.Create(ctx, attachment); err != nil {
			if follow.IgnoreExists(c.cfg.Store, store.Key{Resource: attachments, Name: attachment.Name}, err) == nil {
				continue // its event adds the volume again
			}
			return fmt.Errorf("attach volume: %w", err)
		}
		if err := c.attached(ctx, attachment); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) attached(ctx context.Context, attachment *storagev1.VolumeAttachment) error {
	if attachment.Status.Attached || attachment.DeletionTimestamp != nil {
		return nil
	}
	attachment = attachment.DeepCopy()
	attachment.Status.Attached = true
	key := store.Key{Resource: attachments, Name: attachment.Name}
	if err := follow.IgnoreGone(c.cfg.Store, key, attachment.UID,
		c.cfg.Client.Subresource("status").Update(ctx, attachment, nil)); err != nil {
		return fmt.Errorf("report attachment: %w", err)
	}
	return nil
}

// usedOn returns the nodes that run a pod that mounts the volume.
func usedOn(sn *store.Snapshot, volume *corev1.PersistentVolume) map[string]bool {
	nodes := map[string]bool{}
	claim := volume.Spec.ClaimRef
	if claim == nil || volume.Status.Phase != corev1.VolumeBound {
		return nodes
	}
	for pod, err := range derived.List[corev1.Pod](sn, pods, claim.Namespace) {
		if err != nil || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded ||
			pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, name := range mounted(pod) {
			if name == claim.Name {
				nodes[pod.Spec.NodeName] = true
			}
		}
	}
	return nodes
}

// attachmentName returns the name that attach-detach-controller gives a VolumeAttachment.
func attachmentName(handle, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+Driver+node)))
}
