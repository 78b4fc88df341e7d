// Package matching matches requests for webhooks and policies. It contains the common parts:
// namespace selectors over the store, and the resources that are exempt.
//
//	m := matching.Namespaces(st) // for k8s.io/apiserver's own predicates
//	if matching.Review(attributes) { return nil }
package matching

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/namespace"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// reviews are requests of authentication and authorization. If admission could reject them, a
// faulty webhook or policy could lock out the administrators who have to repair it.
var reviews = map[schema.GroupResource]bool{
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}:       true,
	{Group: "authentication.k8s.io", Resource: "tokenreviews"}:             true,
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}: true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}:  true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"}:   true,
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}:      true,
}

// Review reports whether a request is a review, for which webhooks are not called and policies are
// not evaluated.
func Review(a admission.Attributes) bool { return reviews[a.GetResource().GroupResource()] }

// Policy reports whether a request is for a policy or a binding. The policies of the API do not
// apply to them, so that a faulty policy cannot prevent its own repair.
func Policy(a admission.Attributes) bool { return policies[a.GetResource().GroupResource()] }

var policies = map[schema.GroupResource]bool{
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}:       true,
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: true,
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"}:         true,
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicybindings"}:   true,
}

// Namespaces returns a matcher of namespace selectors that uses the newest state of the store.
func Namespaces(s *store.Store) *namespace.Matcher {
	return &namespace.Matcher{NamespaceLister: lister{store: s}, Client: client{store: s}}
}

// Policies returns a matcher of the constraints of policies and their bindings.
func Policies(s *store.Store) *matching.Matcher {
	return matching.NewMatcher(lister{store: s}, client{store: s})
}

// lister reads namespaces from the store. The matchers use only Get.
type lister struct {
	corelisters.NamespaceLister
	store *store.Store
}

func (l lister) Get(name string) (*corev1.Namespace, error) {
	return derived.Get[corev1.Namespace](l.store.Snapshot(), "namespaces", "", name)
}

func (l lister) List(selector labels.Selector) (all []*corev1.Namespace, err error) {
	for ns, err := range derived.List[corev1.Namespace](l.store.Snapshot(), "namespaces", "") {
		if err != nil {
			return nil, err
		}
		if selector.Matches(labels.Set(ns.Labels)) {
			all = append(all, ns)
		}
	}
	return all, nil
}

// client is the fallback that matchers use if the lister does not find a namespace. It returns the
// same NotFound error; a nil client would make the matchers panic.
type client struct {
	kubernetes.Interface
	store *store.Store
}

func (c client) CoreV1() typedcorev1.CoreV1Interface { return core{store: c.store} }

type core struct {
	typedcorev1.CoreV1Interface
	store *store.Store
}

func (c core) Namespaces() typedcorev1.NamespaceInterface { return namespaces{store: c.store} }

type namespaces struct {
	typedcorev1.NamespaceInterface
	store *store.Store
}

func (n namespaces) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	return lister{store: n.store}.Get(name)
}
