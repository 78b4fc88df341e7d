package rest

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
)

// computedOperations implement the verbs on a kind whose objects are computed for each request.
var computedOperations = map[string]func(*scope) error{
	resource.Get:  (*scope).getComputed,
	resource.List: (*scope).listComputed,
}

func (s *scope) getComputed() error {
	f, err := wire.Negotiate(s.in.req, s.on.allow())
	if err != nil {
		return err
	}
	if err := s.in.query(&metav1.GetOptions{}); err != nil {
		return err
	}
	objects, err := s.compute(s.on.name)
	if err != nil {
		return err
	}
	if len(objects) == 0 {
		return apierrors.NewNotFound(s.on.res.GroupResource(), s.on.name)
	}
	if f.As.Kind == "Table" {
		return s.out.respondTable(http.StatusOK, f, metav1.ListMeta{}, objects[:1])
	}
	return s.out.respond(http.StatusOK, f, objects[0])
}

func (s *scope) listComputed() error {
	f, err := wire.Negotiate(s.in.req, s.on.allow())
	if err != nil {
		return err
	}
	_, sel, err := s.in.listOptions()
	if err != nil {
		return err
	}
	objects, err := s.compute(sel.name)
	if err != nil {
		return err
	}
	p := &page{}
	for _, obj := range objects {
		if ok, err := sel.matches(obj); err != nil {
			return err
		} else if ok {
			p.objects = append(p.objects, obj)
		}
	}
	return s.out.respondPage(f, p)
}

// compute returns the computed objects as the store would hold them, so that all forms of responses
// support them.
func (s *scope) compute(name string) ([]*store.Object, error) {
	hubs, err := s.on.res.Computed(s.in.ctx, s.on.namespace, name)
	if err != nil {
		return nil, err
	}
	objects := make([]*store.Object, len(hubs))
	for i, hub := range hubs {
		if objects[i], err = s.on.asStored(hub); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

func (t *target) asStored(hub runtime.Object) (*store.Object, error) {
	object, err := meta.Accessor(hub)
	if err != nil {
		return nil, err
	}
	obj := &store.Object{Key: t.res.Key(object.GetNamespace(), object.GetName()),
		Head: store.Head{UID: object.GetUID(), Labels: object.GetLabels()}}
	obj.Data, err = t.res.Codec.Store(hub)
	return obj, err
}
