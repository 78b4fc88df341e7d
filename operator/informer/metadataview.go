package informer

import (
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/client"
)

// metadataView presents a Metadata informer as the informer of a Go type: its objects have that
// type, with only metadata set.
type metadataView struct {
	*informer
	form reflect.Type
}

func (h metadataView) typed(obj client.Object) client.Object {
	whole := reflect.New(h.form.Elem()).Interface().(client.Object)
	whole.GetObjectKind().SetGroupVersionKind(h.id.kind)
	setMetadata(whole, obj)
	return whole
}

func (h metadataView) all(objs []client.Object) []client.Object {
	for n, obj := range objs {
		objs[n] = h.typed(obj)
	}
	return objs
}

func (h metadataView) Get(key client.Key) (client.Object, bool) {
	obj, ok := h.informer.Get(key)
	if !ok {
		return nil, false
	}
	return h.typed(obj), true
}

func (h metadataView) List(namespace string) []client.Object {
	return h.all(h.informer.List(namespace))
}

func (h metadataView) ByIndex(name, value string) ([]client.Object, error) {
	objs, err := h.informer.ByIndex(name, value)
	return h.all(objs), err
}

func (h metadataView) AddIndex(name string, values func(client.Object) []string) error {
	return h.informer.AddIndex(name, func(obj client.Object) []string { return values(h.typed(obj)) })
}

func (h metadataView) AddHandler(handler Handler) (Registration, error) {
	if known, ok := handler.(KnownHandler); ok {
		return h.informer.AddHandler(metadataViewKnownHandler{metadataViewHandler{h, handler}, known})
	}
	return h.informer.AddHandler(metadataViewHandler{h, handler})
}

type metadataViewHandler struct {
	view    metadataView
	handler Handler
}

func (h metadataViewHandler) OnAdd(obj client.Object, initial bool) {
	h.handler.OnAdd(h.view.typed(obj), initial)
}

func (h metadataViewHandler) OnUpdate(old, obj client.Object) {
	h.handler.OnUpdate(h.view.typed(old), h.view.typed(obj))
}

func (h metadataViewHandler) OnDelete(obj client.Object, stale bool) {
	h.handler.OnDelete(h.view.typed(obj), stale)
}

type metadataViewKnownHandler struct {
	metadataViewHandler
	handler KnownHandler
}

func (h metadataViewKnownHandler) OnKnown(old, obj client.Object, since time.Time) {
	if old != nil {
		old = h.view.typed(old)
	}
	h.handler.OnKnown(old, h.view.typed(obj), since)
}

// setMetadata copies the metadata of from to obj. Maps and slices are shared.
func setMetadata(obj, from metav1.Object) {
	obj.SetName(from.GetName())
	obj.SetGenerateName(from.GetGenerateName())
	obj.SetNamespace(from.GetNamespace())
	obj.SetSelfLink(from.GetSelfLink())
	obj.SetUID(from.GetUID())
	obj.SetResourceVersion(from.GetResourceVersion())
	obj.SetGeneration(from.GetGeneration())
	obj.SetCreationTimestamp(from.GetCreationTimestamp())
	obj.SetDeletionTimestamp(from.GetDeletionTimestamp())
	obj.SetDeletionGracePeriodSeconds(from.GetDeletionGracePeriodSeconds())
	obj.SetLabels(from.GetLabels())
	obj.SetAnnotations(from.GetAnnotations())
	obj.SetOwnerReferences(from.GetOwnerReferences())
	obj.SetFinalizers(from.GetFinalizers())
	obj.SetManagedFields(from.GetManagedFields())
}
