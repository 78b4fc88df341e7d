package informer

import (
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/client"
)

// hollow is an informer in the form Metadata of a Go type: the informer of the metadata, whose objects are given out as that type.
type hollow struct {
	*informer
	form reflect.Type
}

func (h hollow) of(obj client.Object) client.Object {
	whole := reflect.New(h.form.Elem()).Interface().(client.Object)
	whole.GetObjectKind().SetGroupVersionKind(h.id.kind)
	setMetadata(whole, obj)
	return whole
}

func (h hollow) all(objs []client.Object) []client.Object {
	for n, obj := range objs {
		objs[n] = h.of(obj)
	}
	return objs
}

func (h hollow) Get(key client.Key) (client.Object, bool) {
	obj, ok := h.informer.Get(key)
	if !ok {
		return nil, false
	}
	return h.of(obj), true
}

func (h hollow) List(namespace string) []client.Object { return h.all(h.informer.List(namespace)) }

func (h hollow) ByIndex(name, value string) ([]client.Object, error) {
	objs, err := h.informer.ByIndex(name, value)
	return h.all(objs), err
}

func (h hollow) AddIndex(name string, of func(client.Object) []string) error {
	return h.informer.AddIndex(name, func(obj client.Object) []string { return of(h.of(obj)) })
}

func (h hollow) AddHandler(handler Handler) (Registration, error) {
	if known, ok := handler.(KnownHandler); ok {
		return h.informer.AddHandler(hollowKnownHandler{hollowHandler{h, handler}, known})
	}
	return h.informer.AddHandler(hollowHandler{h, handler})
}

type hollowHandler struct {
	hollow  hollow
	handler Handler
}

func (h hollowHandler) OnAdd(obj client.Object, initial bool) {
	h.handler.OnAdd(h.hollow.of(obj), initial)
}

func (h hollowHandler) OnUpdate(old, obj client.Object) {
	h.handler.OnUpdate(h.hollow.of(old), h.hollow.of(obj))
}

func (h hollowHandler) OnDelete(obj client.Object, stale bool) {
	h.handler.OnDelete(h.hollow.of(obj), stale)
}

type hollowKnownHandler struct {
	hollowHandler
	handler KnownHandler
}

func (h hollowKnownHandler) OnKnown(old, obj client.Object, since time.Time) {
	if old != nil {
		old = h.hollow.of(old)
	}
	h.handler.OnKnown(old, h.hollow.of(obj), since)
}

// setMetadata makes the metadata of an object that of another, with which it shares maps and slices.
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
