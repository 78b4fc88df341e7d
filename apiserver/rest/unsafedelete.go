package rest

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"

	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
)

// unsafeDelete reports whether the client requests the deletion of an object that cannot be
// decoded.
func unsafeDelete(opts *metav1.DeleteOptions) bool {
	unsafe := opts.IgnoreStoreReadErrorWithClusterBreakingPotential
	return unsafe != nil && *unsafe
}

// unsafeVerb is the verb that an unsafe deletion needs in addition to delete.
const unsafeVerb = "unsafe-delete-ignore-read-errors"

// mayDeleteUnsafely checks that the kind supports unsafe deletions and that the user may request
// them.
func (s *scope) mayDeleteUnsafely(opts *metav1.DeleteOptions) error {
	audit.AddAuditAnnotation(s.in.ctx, "apiserver.k8s.io/unsafe-delete-ignore-read-error", "")
	if s.on.res.Behavior.Delete.NotUnsafe {
		return apierrors.NewInternalError(errors.New(
			"no unsafe deleter provided, can not honor ignoreStoreReadErrorWithClusterBreakingPotential"))
	}
	if s.h.authorizer == nil {
		return nil
	}
	user, _ := request.UserFrom(s.in.ctx)
	decision, reason, err := s.h.authorizer.Authorize(s.in.ctx, authorizer.AttributesRecord{
		User: user, Verb: unsafeVerb, ResourceRequest: true,
		APIGroup: s.on.res.Group, APIVersion: s.on.version, Resource: s.on.res.Plural,
		Namespace: request.NamespaceValue(s.in.ctx), Name: s.on.name,
	})
	attributes := s.admit(len(opts.DryRun) > 0, func(admission.Operation) runtime.Object {
		return opts
	}).attributes(nil, nil, admission.Delete)
	switch {
	case err != nil:
		return admission.NewForbidden(attributes, fmt.Errorf("error while checking permission for %q, %w", unsafeVerb,
			err))
	case decision != authorizer.DecisionAllow:
		return admission.NewForbidden(attributes, fmt.Errorf("not permitted to do %q, reason: %s", unsafeVerb, reason))
	}
	return nil
}

// deleteUnreadable removes an object that cannot be decoded, such as one in a version that its
// definition no longer has. It ignores preconditions and finalizers, and skips admission and hooks.
func (s *scope) deleteUnreadable(f wire.Format, opts *metav1.DeleteOptions) error {
	if err := s.mayDeleteUnsafely(opts); err != nil {
		return err
	}
	key := s.on.res.Key(s.on.namespace, s.on.name)
	_, err := retried(s.in.ctx, s.h, key, func(current *store.Object) ([]*store.Object, error) {
		if current == nil {
			return nil, apierrors.NewNotFound(s.on.res.GroupResource(), s.on.name)
		}
		if _, err := s.on.res.Codec.Load(current.Data); err == nil {
			err := storage.NewInvalidObjError(storagePath(s.on.res, key),
				"unsafe deletion is not allowed because the object is decodable from storage")
			return nil, storeerr.InterpretDeleteError(err, s.on.res.GroupResource(), s.on.name)
		}
		if len(opts.DryRun) > 0 {
			return nil, nil
		}
		return s.h.write(s.in.ctx, store.Op{Key: key, Expect: current.Revision})
	})
	if err != nil {
		return err
	}
	return s.out.respondView(http.StatusOK, f, &metav1.Status{
		Status: metav1.StatusSuccess, Code: http.StatusOK,
		Details: &metav1.StatusDetails{Name: s.on.name, Kind: s.on.kind.Kind},
	})
}

// refuseUnsafe refuses the unsafe deletion of a collection.
func refuseUnsafe(opts *metav1.DeleteOptions) error {
	if !unsafeDelete(opts) {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", field.ErrorList{
		field.Invalid(field.NewPath("ignoreStoreReadErrorWithClusterBreakingPotential"), true,
			"is not allowed with DELETECOLLECTION, try again after removing the option"),
	})
}
