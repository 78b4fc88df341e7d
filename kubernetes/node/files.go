package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AccountPath is where containers mount their service account's token by default.
const AccountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// File is a file of a volume.
type File struct {
	// Path is relative to the volume. In the results of ContainerSpec.Files, it is an absolute path
	// in the container.
	Path string
	Data []byte
	// Mode has the permissions.
	Mode os.FileMode
}

// issuer requests service account tokens, in addition to reading objects.
type issuer interface {
	sources
	token(ctx context.Context, pod *corev1.Pod, source *corev1.ServiceAccountTokenProjection) (string, error)
}

// accountFiles returns the files of the volume at AccountPath, with absolute paths: a token, the
// certificate of the API server, and the namespace. It omits the certificate if there is none, as
// on a control plane without a port. It returns nil if the container mounts nothing at AccountPath.
func accountFiles(ctx context.Context, from issuer, pod *corev1.Pod, container *corev1.Container) ([]File, error) {
	var files []File
	for _, mount := range container.VolumeMounts {
		if mount.MountPath != AccountPath {
			continue
		}
		i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if i < 0 || pod.Spec.Volumes[i].Projected == nil {
			continue
		}
		more, err := projectedFiles(ctx, from, pod, pod.Spec.Volumes[i].Projected, nil)
		if err != nil {
			return nil, fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", mount.Name, err)
		}
		files = append(files, more...)
	}
	for i := range files {
		files[i].Path = path.Join(AccountPath, path.Clean("/"+files[i].Path))
	}
	return files, nil
}

// projectedFiles returns the files of all sources of a projected volume.
func projectedFiles(ctx context.Context, from issuer, pod *corev1.Pod, volume *corev1.ProjectedVolumeSource,
	allocatable corev1.ResourceList) ([]File, error) {
	var files []File
	for _, source := range volume.Sources {
		more, err := projected(ctx, from, pod, source,
			fileMode(volume.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode), allocatable)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	return files, nil
}

// projected returns the files of one source.
func projected(ctx context.Context, from issuer, pod *corev1.Pod, source corev1.VolumeProjection, mode os.FileMode,
	allocatable corev1.ResourceList) ([]File, error) {
	switch {
	case source.ServiceAccountToken != nil:
		token, err := from.token(ctx, pod, source.ServiceAccountToken)
		return []File{{source.ServiceAccountToken.Path, []byte(token), mode}}, err
	case source.ConfigMap != nil:
		return configMapFiles(ctx, from, pod, source.ConfigMap.Name, source.ConfigMap.Items, source.ConfigMap.Optional,
			mode)
	case source.Secret != nil:
		return secretFiles(ctx, from, pod, source.Secret.Name, source.Secret.Items, source.Secret.Optional, mode)
	case source.DownwardAPI != nil:
		return downwardFiles(pod, source.DownwardAPI.Items, mode, allocatable)
	}
	return nil, errors.New("unsupported source of a projected volume")
}

// rootCA is the ConfigMap with the API server's certificate, in every namespace.
const rootCA = "kube-root-ca.crt"

func configMapFiles(ctx context.Context, from sources, pod *corev1.Pod, name string, chosen []corev1.KeyToPath,
	optional *bool, mode os.FileMode) ([]File, error) {
	object, err := from.configMap(ctx, pod.Namespace, name)
	if err != nil {
		if status := (*apierrors.StatusError)(nil); name == rootCA && !errors.As(err, &status) {
			return nil, nil // not found, as plain returns it
		}
		return nil, ifRequired(err, optional)
	}
	data := make(map[string][]byte, len(object.BinaryData)+len(object.Data))
	maps.Copy(data, object.BinaryData)
	for key, value := range object.Data {
		data[key] = []byte(value)
	}
	return items(data, chosen, optional, mode)
}

func secretFiles(ctx context.Context, from sources, pod *corev1.Pod, name string, chosen []corev1.KeyToPath,
	optional *bool, mode os.FileMode) ([]File, error) {
	object, err := from.secret(ctx, pod.Namespace, name)
	if err != nil {
		return nil, ifRequired(err, optional)
	}
	return items(object.Data, chosen, optional, mode)
}

// items returns files for the chosen keys, or for all keys if none are chosen.
func items(data map[string][]byte, chosen []corev1.KeyToPath, optional *bool, mode os.FileMode) ([]File, error) {
	var files []File
	if len(chosen) == 0 {
		for _, key := range slices.Sorted(maps.Keys(data)) {
			files = append(files, File{key, data[key], mode})
		}
	}
	for _, item := range chosen {
		value, ok := data[item.Key]
		if !ok {
			if err := ifRequired(fmt.Errorf("references non-existent config key: %s", item.Key), optional); err != nil {
				return nil, err
			}
			continue
		}
		files = append(files, File{item.Path, value, fileMode(item.Mode, int32(mode))})
	}
	return files, nil
}

// downwardFiles returns files with fields of the pod and resources of its containers.
func downwardFiles(pod *corev1.Pod, chosen []corev1.DownwardAPIVolumeFile, mode os.FileMode,
	allocatable corev1.ResourceList) ([]File, error) {
	var files []File
	for _, item := range chosen {
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = volumeField(pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			container := findContainer(pod, item.ResourceFieldRef.ContainerName)
			if container == nil {
				return nil, fmt.Errorf("container %s not found", item.ResourceFieldRef.ContainerName)
			}
			value, err = resourceField(pod, container, item.ResourceFieldRef, allocatable)
		}
		if err != nil {
			return nil, err
		}
		files = append(files, File{item.Path, []byte(value), fileMode(item.Mode, int32(mode))})
	}
	return files, nil
}

// volumeField returns the value of a field in a downward API volume, which unlike an environment
// variable can have all labels or annotations.
func volumeField(pod *corev1.Pod, path string) (string, error) {
	var all map[string]string
	switch path {
	case "metadata.labels":
		all = pod.Labels
	case "metadata.annotations":
		all = pod.Annotations
	default:
		return podField(pod, path)
	}
	lines := make([]string, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		lines = append(lines, fmt.Sprintf("%v=%q", key, all[key]))
	}
	return strings.Join(lines, "\n"), nil
}

// fileMode returns the permissions of a file, or the default ones.
func fileMode(mode *int32, defaults int32) os.FileMode {
	if mode == nil {
		return os.FileMode(defaults)
	}
	return os.FileMode(*mode)
}

// token implements issuer. The token is bound to the pod: it is invalid after the pod's deletion.
func (a *Agent) token(ctx context.Context, pod *corev1.Pod,
	source *corev1.ServiceAccountTokenProjection) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace,
		Name: pod.Spec.ServiceAccountName}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: source.ExpirationSeconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name,
			UID: pod.UID},
	}}
	if source.Audience != "" {
		request.Spec.Audiences = []string{source.Audience}
	}
	if err := a.client.Subresource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("failed to fetch token: %w", err)
	}
	return request.Status.Token, nil
}
