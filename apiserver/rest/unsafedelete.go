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
	audit.AddAuditAnnotation(s.ctx, "apiserver.k8s.io/unsafe-delete-ignore-read-error", "")
	if s.res.Behavior.Delete.NotUnsafe {
		return apierrors.NewInternalError(errors.New(
			"no unsafe deleter provided, can not honor ignoreStoreReadErrorWithClusterBreakingPotential"))
	}
	if s.authorizer == nil {
		return nil
	}
	user, _ := request.UserFrom(s.ctx)
	decision, reason, err := s.authorizer.Authorize(s.ctx, authorizer.AttributesRecord{
		User: user, Verb: unsafeVerb, ResourceRequest: true,
		APIGroup: s.res.Group, APIVersion: s.version, Resource: s.res.Plural,
		Namespace: request.NamespaceValue(s.ctx), Name: s.name,
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
	key := s.res.Key(s.namespace, s.name)
	_, err := retried(s.ctx, s.Handler, key, func(current *store.Object) ([]*store.Object, error) {
		if current == nil {
			return nil, apierrors.NewNotFound(s.res.GroupResource(), s.name)
		}
		if _, err := s.res.Codec.Load(current.Data); err == nil {
			err := storage.NewInvalidObjError(storagePath(s.res, key),
				"unsafe deletion is not allowed because the object is decodable from storage")
			return nil, storeerr.InterpretDeleteError(err, s.res.GroupResource(), s.name)
		}
		if len(opts.DryRun) > 0 {
			return nil, nil
		}
		return s.write(s.ctx, store.Op{Key: key, Expect: current.Revision})
	})
	if err != nil {
		return err
	}
	return s.respondView(http.StatusOK, f, &metav1.Status{
		Status: metav1.StatusSuccess, Code: http.StatusOK,
		Details: &metav1.StatusDetails{Name: s.name, Kind: s.kind.Kind},
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
