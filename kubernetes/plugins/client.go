package plugins

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	nodeclient "k8s.io/client-go/kubernetes/typed/node/v1"

	"kelson.dev/apiserver/inprocess"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// client implements the calls that plugins make to a client: reads of objects that their listers
// did not have, and the creation of namespaces. Listers over the store are always up to date, so
// the reads give the same answer as the listers.
type client struct {
	kubernetes.Interface // nil: no other calls
	store                *store.Store
	transport            http.RoundTripper
}

type (
	clientCoreV1 struct {
		coreclient.CoreV1Interface
		client
	}
	clientNodeV1 struct {
		nodeclient.NodeV1Interface
		client
	}
	namespaces struct {
		coreclient.NamespaceInterface
		client
	}
	limitRanges     struct{ coreclient.LimitRangeInterface }
	serviceAccounts struct {
		coreclient.ServiceAccountInterface
		client
		namespace string
	}
	runtimeClasses struct {
		nodeclient.RuntimeClassInterface
		client
	}
)

func (c client) CoreV1() coreclient.CoreV1Interface { return clientCoreV1{client: c} }
func (c client) NodeV1() nodeclient.NodeV1Interface { return clientNodeV1{client: c} }

func (v clientCoreV1) Namespaces() coreclient.NamespaceInterface { return namespaces{client: v.client} }
func (v clientCoreV1) LimitRanges(string) coreclient.LimitRangeInterface {
	return limitRanges{}
}
func (v clientCoreV1) ServiceAccounts(namespace string) coreclient.ServiceAccountInterface {
	return serviceAccounts{client: v.client, namespace: namespace}
}
func (v clientNodeV1) RuntimeClasses() nodeclient.RuntimeClassInterface {
	return runtimeClasses{client: v.client}
}

func (n namespaces) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	return derived.Get[corev1.Namespace](n.store.Snapshot(), "namespaces", "", name)
}

// List returns an empty list. LimitRanger calls it only when its lister returned nothing, and would
// cache the result for 30 seconds.
func (limitRanges) List(context.Context, metav1.ListOptions) (*corev1.LimitRangeList, error) {
	return &corev1.LimitRangeList{}, nil
}

// Get returns an error that has the text of a NotFound status but is not one: after a NotFound
// status, the plugin would sleep and retry. Type accounts has already waited for the account.
func (s serviceAccounts) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.ServiceAccount, error) {
	account, err := derived.Get[corev1.ServiceAccount](s.store.Snapshot(), "serviceaccounts", s.namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("serviceaccount %q not found", name)
	}
	return account, err
}

func (r runtimeClasses) Get(_ context.Context, name string, _ metav1.GetOptions) (*nodev1.RuntimeClass, error) {
	return derived.Get[nodev1.RuntimeClass](r.store.Snapshot(), "runtimeclasses.node.k8s.io", "", name)
}

// Create creates a namespace through the whole request pipeline.
func (n namespaces) Create(ctx context.Context, ns *corev1.Namespace,
	_ metav1.CreateOptions) (*corev1.Namespace, error) {
	ns = ns.DeepCopy()
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	answer, err := inprocess.Call{Method: http.MethodPost, Path: "/api/v1/namespaces", Body: ns}.Do(ctx, n.transport)
	if err != nil {
		return nil, err
	}
	return ns, json.Unmarshal(answer, ns)
}

// mapper is a RESTMapper over the served kinds.
type mapper struct {
	meta.RESTMapper // nil: plugins call only RESTMappings
	registry        *resource.Registry
}

func (m mapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	res, ok := m.registry.Current().ByKind(kind)
	if !ok {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	scope := meta.RESTScopeRoot
	if res.Namespaced {
		scope = meta.RESTScopeNamespace
	}
	var all []*meta.RESTMapping
	for _, version := range versions {
		if _, ok := res.Serves(version); ok {
			all = append(all, &meta.RESTMapping{Resource: res.GVR(version), GroupVersionKind: res.GVK(version),
				Scope: scope})
		}
	}
	if len(all) == 0 {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return all, nil
}
