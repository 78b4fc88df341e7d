package rest

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"

	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
)

// A view with its own type (scale) is computed from the object and written back into it.
// Admission sees the view; the strategy and the field manager see the object.

func (s *scope) getView() error {
	f, err := wire.Negotiate(s.in.req, s.on.viewAllow())
	if err != nil {
		return err
	}
	obj, err := s.fetch()
	if err != nil {
		return err
	}
	hub, err := s.on.res.Codec.Load(obj.Data)
	if err != nil {
		return corrupt(s.on.res, obj, err)
	}
	return s.out.respondViewOf(f, hub)
}

func (out *output) respondViewOf(f wire.Format, hub runtime.Object) error {
	view, err := out.on.sub.Update.Get(hub)
	if err != nil {
		return err
	}
	return out.respondView(http.StatusOK, f, view)
}

func (s *scope) updateView() error {
	f, err := wire.Negotiate(s.in.req, s.on.viewAllow())
	if err != nil {
		return err
	}
	body, media, err := s.in.viewBody()
	if err != nil {
		return err
	}
	opts := &metav1.UpdateOptions{}
	if err := s.in.query(opts); err != nil {
		return err
	}
	if errs := validation.ValidateUpdateOptions(opts); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "UpdateOptions"}, "", errs)
	}
	opts.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("UpdateOptions"))
	done, err := bounded(s, s.size(body, media), (*scope).updateViewFrom, body, media, opts)
	if err != nil {
		return err
	}
	return s.out.respondViewOf(f, done.hub)
}

// updateViewFrom updates a view from a body.
func (s *scope) updateViewFrom(body []byte, media string, opts *metav1.UpdateOptions) (*written, error) {
	view, err := s.in.decodeView(body, media, opts.FieldValidation, s.on.sub.Update.NewView())
	if err != nil {
		return nil, err
	}
	if err := s.on.checkIdentity(view); err != nil {
		return nil, err
	}
	return s.replaceView(opts, func(*owners, runtime.Object) (runtime.Object, bool, error) {
		return view.DeepCopyObject(), false, nil
	})
}

// nextView computes the new view from the current one. applied reports that it has updated the
// view's managedFields. owned is nil if they are not tracked.
type nextView func(owned *owners, view runtime.Object) (next runtime.Object, applied bool, err error)

// replaceView changes an object through a view.
func (s *scope) replaceView(opts *metav1.UpdateOptions, next nextView) (*written, error) {
	update := s.on.sub.Update
	c := s.change(opts)
	c.validateUpdate = s.on.validateView(c.validateUpdate)
	c.next = func(ctx context.Context, old runtime.Object, current *store.Object) (runtime.Object, error) {
		if current == nil {
			return nil, apierrors.NewNotFound(s.on.res.GroupResource(), s.on.name)
		}
		before, err := update.Get(old)
		if err != nil {
			return nil, err
		}
		owned, err := s.on.viewOwners(old)
		if err != nil {
			return nil, err
		}
		if owned != nil {
			if err := owned.show(before); err != nil {
				return nil, err
			}
		}
		view, applied, err := next(owned, before.DeepCopyObject())
		if err != nil {
			return nil, err
		}
		if owned != nil && !applied { // before admission, which sees the owners
			view = owned.UpdateNoErrors(before, view, managerName(opts.FieldManager, s.in.req.UserAgent()))
		}
		if view, err = s.admitView(s.updateAdmit(opts), view, before); err != nil {
			return nil, err
		}
		hub := old.DeepCopyObject()
		if err := update.Set(hub, view); err != nil {
			return nil, err
		}
		if err := s.on.viewMeta(hub, view, c.key); err != nil {
			return nil, err
		}
		if owned != nil {
			return hub, owned.keep(hub, view)
		}
		manager, err := s.on.res.Codec.FieldManager(s.on.version, s.on.sub.Name)
		if err != nil {
			return nil, err
		}
		return manager.UpdateNoErrors(old, hub, managerName(opts.FieldManager, s.in.req.UserAgent())), nil
	}
	return s.h.replace(s.in.ctx, c)
}

// viewMeta applies the preconditions of a view, uid and resourceVersion, to the object.
func (t *target) viewMeta(hub, view runtime.Object, key store.Key) error {
	object, err := meta.Accessor(hub)
	if err != nil {
		return err
	}
	from, err := meta.Accessor(view)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("expected input object type to be %s, but %T", t.kind.Kind, view))
	}
	if uid := from.GetUID(); uid != "" {
		if err := (&storage.Preconditions{UID: &uid}).Check(storagePath(t.res, key), hub); err != nil {
			return interpretUpdate(err, key, t.res)
		}
	}
	// Without a resourceVersion the view applies to the current object, even if an update of the
	// object requires one.
	if version := from.GetResourceVersion(); version != "" || !t.res.Behavior.ResourceVersionRequired {
		object.SetResourceVersion(version)
	}
	return nil
}

// validateView returns a function that passes views to the validating plugins instead of objects.
func (t *target) validateView(validate upstream.ValidateObjectUpdateFunc) upstream.ValidateObjectUpdateFunc {
	if validate == nil {
		return nil
	}
	return func(ctx context.Context, obj, old runtime.Object) error {
		after, err := t.sub.Update.Get(obj)
		if err != nil {
			return err
		}
		before, err := t.sub.Update.Get(old)
		if err != nil {
			return err
		}
		hubAfter, err := t.viewHub(after)
		if err != nil {
			return err
		}
		hubBefore, err := t.viewHub(before)
		if err != nil {
			return err
		}
		return validate(ctx, hubAfter, hubBefore)
	}
}
