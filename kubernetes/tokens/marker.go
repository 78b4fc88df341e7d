package tokens

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// marker implements the client calls of Kubernetes' validator of legacy tokens: it records in a
// Secret the day of the token's last use.
type marker struct {
	patch func(ctx context.Context, namespace, secret string, patch []byte) error
}

func (m marker) Secrets(namespace string) typedv1.SecretInterface {
	return secretMarker{marker: m, namespace: namespace}
}

type secretMarker struct {
	typedv1.SecretInterface // nil: no other methods are called
	marker
	namespace string
}

func (m secretMarker) Patch(ctx context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions,
	_ ...string) (*corev1.Secret, error) {
	if m.patch == nil {
		return nil, nil
	}
	return nil, m.patch(ctx, m.namespace, name, data)
}
