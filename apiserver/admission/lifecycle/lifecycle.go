// Package lifecycle implements the admission plugin NamespaceLifecycle. It rejects creating objects
// in a namespace that does not exist or is being terminated, and deleting the namespaces that the
// system needs.
//
// It reads the newest state of the store. Unlike a plugin with informers, it needs no caches and
// does not wait. Its errors have the wording of k8s.io/apiserver's plugin of the same name.
package lifecycle

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"kelson.dev/apiserver/store"
)

// Name is the plugin's name in --enable-admission-plugins.
const Name = "NamespaceLifecycle"

// protected lists the namespaces that cannot be deleted.
var protected = map[string]bool{
	metav1.NamespaceDefault: true,
	metav1.NamespaceSystem:  true,
	metav1.NamespacePublic:  true,
}

var (
	namespaceKind     = schema.GroupKind{Kind: "Namespace"}
	namespaceResource = schema.GroupResource{Resource: "namespaces"}
	// A LocalSubjectAccessReview must not reveal whether its namespace exists.
	localReview = schema.GroupResource{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}
)

// Plugin is the plugin. Like upstream's, it implements admission.MutationInterface, so that it
// rejects requests before other plugins do work.
type Plugin struct {
	store *store.Store
}

var _ admission.MutationInterface = (*Plugin)(nil)

// New returns the plugin for a store.
func New(s *store.Store) *Plugin { return &Plugin{store: s} }

// Handles returns true for creation and deletion.
func (p *Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Delete
}

// Admit returns a NotFound or Forbidden error for rejected requests.
func (p *Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetKind().GroupKind() == namespaceKind {
		if a.GetOperation() == admission.Delete && protected[a.GetName()] {
			return apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(),
				errors.New("this namespace may not be deleted"))
		}
		return nil
	}
	if a.GetNamespace() == "" || a.GetOperation() != admission.Create ||
		a.GetResource().GroupResource() == localReview {
		return nil
	}
	ns := p.store.Snapshot().Get(store.Key{Resource: namespaceResource.Resource, Name: a.GetNamespace()})
	if ns == nil {
		return apierrors.NewNotFound(namespaceResource, a.GetNamespace())
	}
	if ns.Head.DeletionTimestamp.IsZero() {
		return nil
	}
	err := admission.NewForbidden(a, fmt.Errorf(
		"unable to create new content in namespace %s because it is being terminated", a.GetNamespace()))
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{
			Type:    corev1.NamespaceTerminatingCause,
			Message: fmt.Sprintf("namespace %s is being terminated", a.GetNamespace()),
			Field:   "metadata.namespace",
		})
	}
	return err
}
