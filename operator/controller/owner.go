package controller

import (
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
)

// EnqueueOwner is the EventHandler for objects that belong to those of the controller: the object of kind owner whose controller
// reference an object carries is the one to reconcile. Whether that kind has namespaces is asked of mapper when the first such object
// is seen. Of an update, the references before and after count.
func EnqueueOwner(owner schema.GroupVersionKind, mapper meta.RESTMapper) EventHandler {
	h := &ownerHandler{kind: owner, mapper: mapper}
	return h.handle
}

type ownerHandler struct {
	kind       schema.GroupVersionKind
	mapper     meta.RESTMapper
	namespaced atomic.Pointer[bool] // nil: not known yet
}

func (h *ownerHandler) handle(e Event, enqueue func(reconcile.Request)) {
	if e.Old != nil {
		h.enqueueOwnerOf(e.Old, enqueue)
	}
	h.enqueueOwnerOf(e.Object, enqueue)
}

func (h *ownerHandler) enqueueOwnerOf(obj client.Object, enqueue func(reconcile.Request)) {
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil || ref.Kind != h.kind.Kind {
		return
	}
	// The version may be another one of the same kind.
	if gv, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || gv.Group != h.kind.Group {
		return
	}
	req := reconcile.Request{NamespacedName: client.Key{Name: ref.Name}}
	if h.ownerNamespaced() {
		req.Namespace = obj.GetNamespace()
	}
	enqueue(req)
}

// ownerNamespaced says whether owners have a namespace. As long as the server can't tell, they are taken to be where what they own is,
// which is so for most.
func (h *ownerHandler) ownerNamespaced() bool {
	if known := h.namespaced.Load(); known != nil {
		return *known
	}
	namespaced, err := Namespaced(h.mapper, h.kind)
	if err != nil {
		return true
	}
	h.namespaced.Store(&namespaced)
	return namespaced
}

// Namespaced says whether objects of a kind have a namespace.
func Namespaced(mapper meta.RESTMapper, kind schema.GroupVersionKind) (bool, error) {
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return false, fmt.Errorf("scope of %s: %w", kind.Kind, err)
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}
