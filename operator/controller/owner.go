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

// EnqueueEveryOwner is EnqueueOwner for all owner references of kind owner, not only the one of the
// controller.
func EnqueueEveryOwner(owner schema.GroupVersionKind, mapper meta.RESTMapper) EventHandler {
	h := &ownerHandler{kind: owner, mapper: mapper, every: true}
	return h.handle
}

// EnqueueOwner returns an EventHandler for objects that objects of the controller's kind own: it
// enqueues the controller owner of the object, if that is of kind owner. On the first such object,
// it asks mapper whether the kind is namespaced. For an update, it enqueues the owners of the old
// and the new object.
func EnqueueOwner(owner schema.GroupVersionKind, mapper meta.RESTMapper) EventHandler {
	h := &ownerHandler{kind: owner, mapper: mapper}
	return h.handle
}

type ownerHandler struct {
	kind       schema.GroupVersionKind
	mapper     meta.RESTMapper
	every      bool
	namespaced atomic.Pointer[bool] // nil: not known yet
}

func (h *ownerHandler) handle(e Event, enqueue func(reconcile.Request)) {
	if e.Old != nil {
		h.enqueueOwnerOf(e.Old, enqueue)
	}
	h.enqueueOwnerOf(e.Object, enqueue)
}

// enqueueOwnerOf may enqueue an owner twice, which is harmless.

func (h *ownerHandler) enqueueOwnerOf(obj client.Object, enqueue func(reconcile.Request)) {
	if !h.every {
		if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
			h.enqueueRef(obj, ref, enqueue)
		}
		return
	}
	refs := obj.GetOwnerReferences()
	for i := range refs {
		h.enqueueRef(obj, &refs[i], enqueue)
	}
}

func (h *ownerHandler) enqueueRef(obj client.Object, ref *metav1.OwnerReference, enqueue func(reconcile.Request)) {
	if ref.Kind != h.kind.Kind {
		return
	}
	// The version may differ.
	if gv, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || gv.Group != h.kind.Group {
		return
	}
	req := reconcile.Request{NamespacedName: client.Key{Name: ref.Name}}
	if h.ownerNamespaced() {
		req.Namespace = obj.GetNamespace()
	}
	enqueue(req)
}

// ownerNamespaced reports whether the owner kind is namespaced. If the mapper fails, it assumes
// true, which holds for most kinds.
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

// Namespaced reports whether a kind is namespaced.
func Namespaced(mapper meta.RESTMapper, kind schema.GroupVersionKind) (bool, error) {
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return false, fmt.Errorf("scope of %s: %w", kind.Kind, err)
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}
