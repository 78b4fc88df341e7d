package tokens

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/kubernetes/plugin/pkg/auth/authenticator/token/bootstrap"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// Bootstrap returns the authenticator of bootstrap tokens. It reads the current Secrets
// bootstrap-token-ID in kube-system. The user is system:bootstrap:ID in the group
// system:bootstrappers.
func Bootstrap(st *store.Store) authenticator.Token {
	return bootstrap.NewTokenAuthenticator(systemSecrets{st})
}

// systemSecrets is a lister of the Secrets in kube-system.
type systemSecrets struct{ store *store.Store }

func (s systemSecrets) Get(name string) (*corev1.Secret, error) {
	return derived.Get[corev1.Secret](s.store.Snapshot(), "secrets", metav1.NamespaceSystem, name)
}

func (s systemSecrets) List(selector labels.Selector) (found []*corev1.Secret, err error) {
	for secret, err := range derived.List[corev1.Secret](s.store.Snapshot(), "secrets", metav1.NamespaceSystem) {
		if err != nil {
			return nil, err
		}
		if selector.Matches(labels.Set(secret.Labels)) {
			found = append(found, secret)
		}
	}
	return found, nil
}
