package rest

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxManagers bounds the managedFields that a client may send. Kubernetes' library compares each manager with all others.
const maxManagers = 1000

// checkManagers refuses an object with more managers than that.
func (s *scope) checkManagers(hub runtime.Object) error {
	held := heldBy(hub)
	n := len(held.typed) + len(held.untyped)
	if n <= maxManagers {
		return nil
	}
	object, err := meta.Accessor(hub)
	if err != nil {
		return err
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: s.res.Group, Kind: s.res.Kind}, object.GetName(), field.ErrorList{
		field.TooMany(field.NewPath("metadata", "managedFields"), n, maxManagers),
	})
}
