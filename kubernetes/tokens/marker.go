package tokens

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// marker is as much of a client as Kubernetes' check of old tokens calls: it notes in a Secret which day its token was last used.
type marker struct {
	patch func(ctx context.Context, namespace, secret string, patch []byte) error
}

func (m marker) Secrets(namespace string) typedv1.SecretInterface {
	return secretMarker{marker: m, namespace: namespace}
}

type secretMarker struct {
	typedv1.SecretInterface // nil: nothing else is called
	marker
	namespace string
}

func (m secretMarker) Patch(ctx context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*corev1.Secret, error) {
	if m.patch == nil {
		return nil, nil
	}
	return nil, m.patch(ctx, m.namespace, name, data)
}
