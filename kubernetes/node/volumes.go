package node

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/operator/client"
)

// volumes keeps the volumes of a pod up to date. Only the worker's goroutine uses it, except for
// stale.
type volumes struct {
	set     map[string]Volume // by name, as the sandbox has them
	current bool              // all volumes were set from the newest objects
	retry   retries
	// from is the version of the pod from which the volumes were computed.
	from      string
	measureAt time.Time // when to measure again the volumes with a limit
	// renew is when to request new tokens; zero means never.
	renew time.Time
	// stale is set when an object changed from which a volume is computed.
	stale     atomic.Bool
	following map[string]bool
}

// errUnsupportedVolume is the error for types of volumes that no runtime of this package mounts.
var errUnsupportedVolume = errors.New("this node does not support volumes of this type")

// mountVolumes sets the pod's volumes in the sandbox, if they aren't up to date. It returns false
// if a volume is missing, so that no container may start.
func (w *worker) mountVolumes(ctx context.Context) bool {
	v := &w.volumes
	if !w.agent.config.Runtime.Info().Executes || len(w.pod.Spec.Volumes) == 0 {
		return true
	}
	now := time.Now()
	changed := v.stale.Swap(false) || v.from != w.pod.ResourceVersion
	expired := !v.renew.IsZero() && !now.Before(v.renew)
	if v.current && !changed && !expired {
		return true
	}
	if !v.retry.due(now) && !changed {
		return len(v.set) == len(w.pod.Spec.Volumes)
	}
	mounter, ok := w.sandbox.(Mounter)
	if !ok {
		v.current = true
		return true
	}
	v.current, v.from = true, w.pod.ResourceVersion
	if expired {
		v.renew = time.Time{}
	}
	for i := range w.pod.Spec.Volumes {
		spec := &w.pod.Spec.Volumes[i]
		w.followSources(spec)
		if err := w.mountVolume(ctx, mounter, spec, now, expired); err != nil {
			v.current = false
			w.agent.events.pod(w.pod, corev1.EventTypeWarning, "FailedMount",
				fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", spec.Name, err))
		}
	}
	if v.current {
		v.retry.succeeded()
	} else {
		v.retry.failed(now, 500*time.Millisecond, 2*time.Minute)
	}
	return len(v.set) == len(w.pod.Spec.Volumes)
}

// volumesAt returns when mountVolumes has something to do even without an event; zero means never.
func (w *worker) volumesAt() time.Time {
	if !w.volumes.current && !w.volumes.retry.at.IsZero() {
		return w.volumes.retry.at
	}
	return w.volumes.renew
}

// mountVolume sets one volume. It reuses the token of an earlier call unless renew is set.
func (w *worker) mountVolume(ctx context.Context, mounter Mounter, spec *corev1.Volume, now time.Time,
	renew bool) error {
	if w.volumes.set == nil {
		w.volumes.set = map[string]Volume{}
	}
	before, known := w.volumes.set[spec.Name]
	source := &renewing{issuer: w.agent, now: now, at: w.volumes.renew}
	if known && !renew {
		source.known = before.Files
	}
	volume, err := resolveVolume(ctx, source, w.agent, w.pod, spec, w.agent.config.Capacity)
	if err != nil {
		return err
	}
	w.volumes.renew = source.at
	if known && reflect.DeepEqual(before, volume) {
		return nil
	}
	if err := mounter.SetVolume(volume); err != nil {
		return err
	}
	w.volumes.set[spec.Name] = volume
	return nil
}

// renewing is an issuer that keeps the tokens in known, and computes when to request new ones.
type renewing struct {
	issuer
	now   time.Time
	at    time.Time // the earliest time at which a token must be renewed, or zero
	known []File
}

// tokenSeconds is the lifetime of tokens whose volume doesn't specify one.
const tokenSeconds = 3600

// token implements issuer. Like a kubelet, it renews tokens after 80 % of their lifetime and at
// least daily.
func (r *renewing) token(ctx context.Context, pod *corev1.Pod,
	source *corev1.ServiceAccountTokenProjection) (string, error) {
	if i := slices.IndexFunc(r.known, func(f File) bool { return f.Path == source.Path }); i >= 0 {
		return string(r.known[i].Data), nil
	}
	token, err := r.issuer.token(ctx, pod, source)
	if err != nil {
		return "", err
	}
	seconds := int64(tokenSeconds)
	if source.ExpirationSeconds != nil {
		seconds = *source.ExpirationSeconds
	}
	at := r.now.Add(min(time.Duration(seconds)*time.Second*8/10, 24*time.Hour))
	if r.at.IsZero() || at.Before(r.at) {
		r.at = at
	}
	return token, nil
}

// subPaths returns the path in its volume of each of the container's mounts.
func subPaths(container *corev1.Container, env []corev1.EnvVar) []string {
	paths := make([]string, len(container.VolumeMounts))
	for i, mount := range container.VolumeMounts {
		if paths[i] = mount.SubPath; mount.SubPathExpr != "" {
			paths[i] = expandAll([]string{mount.SubPathExpr}, env)[0]
		}
	}
	return paths
}

// claims finds the volumes of PersistentVolumeClaims.
type claims interface {
	claimed(ctx context.Context, pod *corev1.Pod, name string) (*corev1.PersistentVolume, error)
	ownDriver(name string) bool
}

// resolveVolume computes a volume from the pod and the objects that it refers to.
func resolveVolume(ctx context.Context, from issuer, storage claims, pod *corev1.Pod, spec *corev1.Volume,
	allocatable corev1.ResourceList) (Volume, error) {
	v := Volume{Name: spec.Name}
	var err error
	switch {
	case spec.EmptyDir != nil:
	case spec.HostPath != nil:
		v.HostPath = spec.HostPath
	case spec.ConfigMap != nil:
		c := spec.ConfigMap
		v.Files, err = configMapFiles(ctx, from, pod, c.Name, c.Items, c.Optional,
			fileMode(c.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode))
	case spec.Secret != nil:
		s := spec.Secret
		v.Files, err = secretFiles(ctx, from, pod, s.SecretName, s.Items, s.Optional,
			fileMode(s.DefaultMode, corev1.SecretVolumeSourceDefaultMode))
	case spec.DownwardAPI != nil:
		v.Files, err = downwardFiles(pod, spec.DownwardAPI.Items,
			fileMode(spec.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode), allocatable)
	case spec.Projected != nil:
		v.Files, err = projectedFiles(ctx, from, pod, spec.Projected, allocatable)
	case spec.PersistentVolumeClaim != nil:
		return claimedVolume(ctx, storage, pod, spec.Name, spec.PersistentVolumeClaim.ClaimName)
	case spec.Ephemeral != nil:
		return claimedVolume(ctx, storage, pod, spec.Name, pod.Name+"-"+spec.Name)
	default:
		return v, errUnsupportedVolume
	}
	if v.Files == nil && spec.EmptyDir == nil && spec.HostPath == nil {
		v.Files = []File{}
	}
	return v, err
}

// claimedVolume returns the volume that is bound to a claim.
func claimedVolume(ctx context.Context, storage claims, pod *corev1.Pod, name, claim string) (Volume, error) {
	volume, err := storage.claimed(ctx, pod, claim)
	if err != nil {
		return Volume{}, err
	}
	switch source := &volume.Spec.PersistentVolumeSource; {
	case source.HostPath != nil:
		return Volume{Name: name, HostPath: source.HostPath}, nil
	case source.Local != nil:
		return Volume{Name: name, HostPath: &corev1.HostPathVolumeSource{Path: source.Local.Path}}, nil
	case source.CSI != nil && storage.ownDriver(source.CSI.Driver):
		return Volume{Name: name, Handle: source.CSI.VolumeHandle}, nil
	}
	return Volume{}, errUnsupportedVolume
}

// claimed implements claims.
func (a *Agent) claimed(ctx context.Context, pod *corev1.Pod, name string) (*corev1.PersistentVolume, error) {
	claim, err := client.Get[corev1.PersistentVolumeClaim](ctx, a.client,
		client.Key{Namespace: pod.Namespace, Name: name})
	if err != nil {
		return nil, fmt.Errorf("error getting PVC %s/%s: %w", pod.Namespace, name, err)
	}
	if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "" {
		return nil, fmt.Errorf("PVC %s/%s is not bound", pod.Namespace, name)
	}
	return client.Get[corev1.PersistentVolume](ctx, a.client, client.Key{Name: claim.Spec.VolumeName})
}

func (a *Agent) ownDriver(name string) bool { return slices.Contains(a.config.Drivers, name) }

// followSources watches the objects of a volume and wakes the worker when they change.
func (w *worker) followSources(spec *corev1.Volume) {
	switch {
	case spec.ConfigMap != nil:
		follow[corev1.ConfigMap](w, "configmap/", spec.ConfigMap.Name)
	case spec.Secret != nil:
		follow[corev1.Secret](w, "secret/", spec.Secret.SecretName)
	case spec.Projected != nil:
		for _, source := range spec.Projected.Sources {
			switch {
			case source.ConfigMap != nil:
				follow[corev1.ConfigMap](w, "configmap/", source.ConfigMap.Name)
			case source.Secret != nil:
				follow[corev1.Secret](w, "secret/", source.Secret.Name)
			}
		}
	}
}

func follow[T any, P client.Pointer[T]](w *worker, kind, name string) {
	if w.volumes.following[kind+name] {
		return
	}
	if w.volumes.following == nil {
		w.volumes.following = map[string]bool{}
	}
	w.volumes.following[kind+name] = true
	objects := &mirror[T, P]{
		client: w.agent.client, log: w.log(),
		options: []client.ListOption{client.InNamespace(w.pod.Namespace), client.MatchingFields{"metadata.name": name}},
		changed: func(_, _ P) {
			w.volumes.stale.Store(true)
			w.replan()
		},
	}
	w.background.Go(func() { _ = objects.run(w.ctx) }) // logs its errors
}
