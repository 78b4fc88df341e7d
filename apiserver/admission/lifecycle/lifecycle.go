// Package lifecycle is the NamespaceLifecycle admission plugin: nothing is created in a namespace that does not exist or is being
// terminated, and the namespaces that the system needs are not deleted.
//
// It looks at the store's newest state and so needs neither caches nor the waiting of a plugin that is fed by informers.
// Its answers are worded as those of k8s.io/apiserver's plugin of the same name.
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

// immortal are the namespaces that may not be deleted.
var immortal = map[string]bool{
	metav1.NamespaceDefault: true,
	metav1.NamespaceSystem:  true,
	metav1.NamespacePublic:  true,
}

var (
	namespaceKind     = schema.GroupKind{Kind: "Namespace"}
	namespaceResource = schema.GroupResource{Resource: "namespaces"}
	// reviews tell nothing of namespaces that the asker may not know.
	localReview = schema.GroupResource{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}
)

// Plugin implements admission.MutationInterface, as upstream's does: it must refuse before other plugins do work.
type Plugin struct {
	store *store.Store
}

var _ admission.MutationInterface = (*Plugin)(nil)

// New returns the plugin over a store.
func New(s *store.Store) *Plugin { return &Plugin{store: s} }

// Handles says which operations the plugin looks at.
func (p *Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Delete
}

// Admit refuses with NotFound or Forbidden.
func (p *Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetKind().GroupKind() == namespaceKind {
		if a.GetOperation() == admission.Delete && immortal[a.GetName()] {
			return apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(), errors.New("this namespace may not be deleted"))
		}
		return nil
	}
	if a.GetNamespace() == "" || a.GetOperation() != admission.Create || a.GetResource().GroupResource() == localReview {
		return nil
	}
	ns := p.store.Snapshot().Get(store.Key{Resource: namespaceResource.Resource, Name: a.GetNamespace()})
	if ns == nil {
		return apierrors.NewNotFound(namespaceResource, a.GetNamespace())
	}
	if ns.Head.DeletionTimestamp.IsZero() {
		return nil
	}
	err := admission.NewForbidden(a, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", a.GetNamespace()))
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
