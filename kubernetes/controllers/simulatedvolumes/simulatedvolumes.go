// Package simulatedvolumes simulates a storage system: a CSI driver whose volumes are only objects.
// It replaces the external-provisioner, external-resizer and external-attacher that run beside a
// real driver, with the same annotations, finalizers, conditions and Events:
//
//	claim, with the annotation of the volume binder ──provision──▶ PersistentVolume pvc-UID
//	released volume with the policy Delete ──────────delete─────▶ gone
//	claim that requests more than its volume has ────resize─────▶ larger volume, larger claim
//	pod with a claim, on a node ─────────────────────attach─────▶ VolumeAttachment
//
// Kubernetes' own controllers do the rest: see package workloads for the binder and package
// scheduler for volumes that wait for their first consumer.
//
// On a control plane without StorageClasses, [Controller.Install] creates the CSIDriver and the
// default StorageClass "standard". The parameters of classes simulate a slow or failing driver:
//
//	parameters:
//	  delay: 5s                  # until a volume is provisioned
//	  error: quota exceeded      # provisioning fails with this message, and is retried
package simulatedvolumes

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/operator/client"
	"kelson.dev/operator/events"
)

// Driver is the name of the CSI driver, and the provisioner of StorageClasses that use it.
const Driver = "csi.sim.kelson.dev"

// DefaultClass is the name of the default StorageClass.
const DefaultClass = "standard"

const (
	claims      = "persistentvolumeclaims"
	volumes     = "persistentvolumes"
	classes     = "storageclasses.storage.k8s.io"
	attachments = "volumeattachments.storage.k8s.io"
	pods        = "pods"
)

// Config configures the controller. Store and Client are required.
type Config struct {
	Store  *store.Store
	Client client.Client
	Log    *slog.Logger
}

// Controller is the driver of one control plane.
type Controller struct {
	cfg         Config
	broadcaster *events.Broadcaster
	recorder    *events.Recorder
}

// New returns a controller; call Run to start it.
func New(cfg Config) *Controller {
	broadcaster := events.New(events.Config{Client: cfg.Client, Log: cfg.Log})
	return &Controller{cfg: cfg, broadcaster: broadcaster, recorder: broadcaster.Recorder(Driver)}
}

// Install creates the CSIDriver and the default StorageClass, unless StorageClasses exist.
func (c *Controller) Install(ctx context.Context) error {
	if c.cfg.Store.Snapshot().Count(classes, "") > 0 {
		return nil
	}
	for _, obj := range []client.Object{
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: Driver}, Spec: storagev1.CSIDriverSpec{
			AttachRequired: new(true), PodInfoOnMount: new(false),
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent},
		}},
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: DefaultClass,
				Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
			Provisioner: Driver, VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
			ReclaimPolicy: new(corev1.PersistentVolumeReclaimDelete), AllowVolumeExpansion: new(true),
		},
	} {
		if err := c.cfg.Client.Create(ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("install simulated volumes: create %s: %w", obj.GetName(), err)
		}
	}
	return nil
}

// Run runs the controller until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	defer parts.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parts.Go(func() { _ = c.broadcaster.Run(ctx) })
	return follow.Run(ctx, follow.Config[store.Key]{
		Name: "simulated volumes", Store: c.cfg.Store, Log: c.cfg.Log, Keys: c.keys, Sync: c.sync,
		Resources: []string{claims, volumes, classes, attachments, pods},
	})
}

// keys adds the claims and volumes that an object affects.
func (c *Controller) keys(obj *store.Object, add func(store.Key)) {
	sn := c.cfg.Store.Snapshot()
	switch obj.Key.Resource {
	case claims, volumes:
		add(obj.Key)
	case classes: // claims may have waited for it
		for claim := range sn.Scan(claims, "", store.Key{}) {
			add(claim.Key)
		}
	case attachments:
		if attachment, err := derived.Of[storagev1.VolumeAttachment](obj); err == nil &&
			attachment.Spec.Source.PersistentVolumeName != nil {
			add(store.Key{Resource: volumes, Name: *attachment.Spec.Source.PersistentVolumeName})
		}
	case pods:
		if sn.Count(claims, obj.Key.Namespace) == 0 {
			return
		}
		if pod, err := derived.Of[corev1.Pod](obj); err == nil {
			for _, name := range mounted(pod) {
				claim, err := derived.Get[corev1.PersistentVolumeClaim](sn, claims, pod.Namespace, name)
				if err == nil && claim.Spec.VolumeName != "" {
					add(store.Key{Resource: volumes, Name: claim.Spec.VolumeName})
				}
			}
		}
	}
}

// mounted returns the names of the claims that a pod mounts.
func mounted(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, pod.Name+"-"+v.Name)
		}
	}
	return names
}

func (c *Controller) sync(ctx context.Context, key store.Key) (time.Duration, error) {
	sn := c.cfg.Store.Snapshot()
	if key.Resource == claims {
		claim, err := derived.Get[corev1.PersistentVolumeClaim](sn, claims, key.Namespace, key.Name)
		if err != nil {
			return 0, client.IgnoreNotFound(err)
		}
		if claim.Spec.VolumeName != "" {
			return 0, c.resize(ctx, sn, claim)
		}
		return c.provision(ctx, sn, claim)
	}
	volume, err := derived.Get[corev1.PersistentVolume](sn, volumes, "", key.Name)
	if err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	if volume.Spec.CSI == nil || volume.Spec.CSI.Driver != Driver {
		return 0, nil
	}
	if err := c.attach(ctx, sn, volume); err != nil {
		return 0, err
	}
	return 0, c.reclaim(ctx, volume)
}
