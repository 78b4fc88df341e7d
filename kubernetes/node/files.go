package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AccountPath is where containers mount their service account's token by default.
const AccountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// File is a file of a volume.
type File struct {
	// Path is the path in the container. In results of projected, it is relative to the volume.
	Path string
	Data []byte
}

// issuer requests service account tokens, in addition to reading objects.
type issuer interface {
	sources
	token(ctx context.Context, pod *corev1.Pod, source *corev1.ServiceAccountTokenProjection) (string, error)
}

// accountFiles returns the files of the volume at AccountPath: a token, the certificate of the API
// server, and the namespace. It leaves out the certificate if there is none, as on a control plane
// without a port. It returns nil if the container mounts nothing at AccountPath.
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
		for _, source := range pod.Spec.Volumes[i].Projected.Sources {
			more, err := projected(ctx, from, pod, source)
			if err != nil {
				return nil, fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", mount.Name, err)
			}
			files = append(files, more...)
		}
	}
	for i := range files {
		files[i].Path = path.Join(AccountPath, path.Clean("/"+files[i].Path))
	}
	return files, nil
}

// projected returns the files of one source, with paths relative to the volume.
func projected(ctx context.Context, from issuer, pod *corev1.Pod, source corev1.VolumeProjection) ([]File, error) {
	switch {
	case source.ServiceAccountToken != nil:
		token, err := from.token(ctx, pod, source.ServiceAccountToken)
		return []File{{source.ServiceAccountToken.Path, []byte(token)}}, err
	case source.ConfigMap != nil:
		object, err := from.configMap(ctx, pod.Namespace, source.ConfigMap.Name)
		if err != nil {
			if status := (*apierrors.StatusError)(nil); source.ConfigMap.Name == rootCA && !errors.As(err, &status) {
				return nil, nil // not found, as plain returns it
			}
			return nil, ifRequired(err, source.ConfigMap.Optional)
		}
		data := maps.Clone(object.BinaryData)
		if data == nil {
			data = map[string][]byte{}
		}
		for key, value := range object.Data {
			data[key] = []byte(value)
		}
		return items(data, source.ConfigMap.Items), nil
	case source.Secret != nil:
		object, err := from.secret(ctx, pod.Namespace, source.Secret.Name)
		if err != nil {
			return nil, ifRequired(err, source.Secret.Optional)
		}
		return items(object.Data, source.Secret.Items), nil
	case source.DownwardAPI != nil:
		var files []File
		for _, item := range source.DownwardAPI.Items {
			if item.FieldRef == nil {
				continue
			}
			value, err := podField(pod, item.FieldRef.FieldPath)
			if err != nil {
				return nil, err
			}
			files = append(files, File{item.Path, []byte(value)})
		}
		return files, nil
	}
	return nil, errors.New("unsupported source of a projected volume")
}

// rootCA is the ConfigMap with the API server's certificate, in every namespace.
const rootCA = "kube-root-ca.crt"

// items returns files for the chosen keys, or for all keys if none are chosen.
func items(data map[string][]byte, chosen []corev1.KeyToPath) []File {
	var files []File
	if len(chosen) == 0 {
		for _, key := range slices.Sorted(maps.Keys(data)) {
			files = append(files, File{key, data[key]})
		}
	}
	for _, item := range chosen {
		if value, ok := data[item.Key]; ok {
			files = append(files, File{item.Path, value})
		}
	}
	return files
}

// token implements issuer. The token is bound to the pod: it is invalid after the pod's deletion.
func (a *Agent) token(ctx context.Context, pod *corev1.Pod, source *corev1.ServiceAccountTokenProjection) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: source.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if source.Audience != "" {
		request.Spec.Audiences = []string{source.Audience}
	}
	if err := a.client.Subresource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("failed to fetch token: %w", err)
	}
	return request.Status.Token, nil
}
