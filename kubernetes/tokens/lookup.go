package tokens

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

var (
	_ serviceaccount.ServiceAccountTokenGetter = lookup{}
	_ serviceaccount.ServiceAccountTokenGetter = wholeLookup{}
)

// lookup returns the objects that tokens refer to. It sets only what identifies them, uid and
// deletionTimestamp, which the store keeps decoded.
type lookup struct{ store *store.Store }

func (l lookup) meta(resource schema.GroupResource, namespace, name string) (metav1.ObjectMeta, error) {
	obj := l.store.Snapshot().Get(store.Key{Resource: resource.String(), Namespace: namespace, Name: name})
	if obj == nil {
		return metav1.ObjectMeta{}, apierrors.NewNotFound(resource, name)
	}
	m := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: obj.Head.UID}
	if deleted := obj.Head.DeletionTimestamp; !deleted.IsZero() {
		m.DeletionTimestamp = &metav1.Time{Time: deleted}
	}
	return m, nil
}

func (l lookup) GetServiceAccount(_ context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	m, err := l.meta(schema.GroupResource{Resource: "serviceaccounts"}, namespace, name)
	return &corev1.ServiceAccount{ObjectMeta: m}, err
}

func (l lookup) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	m, err := l.meta(schema.GroupResource{Resource: "pods"}, namespace, name)
	return &corev1.Pod{ObjectMeta: m}, err
}

func (l lookup) GetSecret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	m, err := l.meta(schema.GroupResource{Resource: "secrets"}, namespace, name)
	return &corev1.Secret{ObjectMeta: m}, err
}

func (l lookup) GetNode(_ context.Context, name string) (*corev1.Node, error) {
	m, err := l.meta(schema.GroupResource{Resource: "nodes"}, "", name)
	return &corev1.Node{ObjectMeta: m}, err
}

func (l lookup) GetValidatingWebhookConfiguration(_ context.Context,
	name string) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	m, err := l.meta(admissionregistrationv1.Resource("validatingwebhookconfigurations"), "", name)
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: m}, err
}

func (l lookup) GetMutatingWebhookConfiguration(_ context.Context,
	name string) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	m, err := l.meta(admissionregistrationv1.Resource("mutatingwebhookconfigurations"), "", name)
	return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: m}, err
}

// wholeLookup returns whole Secrets and accounts, because legacy tokens are compared with their
// Secret.
type wholeLookup struct{ lookup }

func (l wholeLookup) GetSecret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	return derived.Get[corev1.Secret](l.store.Snapshot(), "secrets", namespace, name)
}

func (l wholeLookup) GetServiceAccount(_ context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return derived.Get[corev1.ServiceAccount](l.store.Snapshot(), "serviceaccounts", namespace, name)
}
