package rest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// maxUnreadable is how many objects the error of a list names, as in Kubernetes.
const maxUnreadable = 100

// unreadable collects the objects of a list that cannot be decoded, such as those in a version that
// their definition no longer has. The error of the list names them, so that users can delete them.
type unreadable struct {
	res    *resource.Resource
	causes []metav1.StatusCause
}

// undecodable returns kube-apiserver's error for a stored object that cannot be decoded or
// converted. It has only the text of err, because a Status in it would be the response.
func undecodable(obj *store.Object, err error) error {
	if cause := obj.Unreadable(); cause != nil {
		err = cause
	}
	return fmt.Errorf("object not decodable revision=%d: %v", obj.Revision, err)
}

// corrupt returns the error of a request that reads one object, which cannot be decoded.
func corrupt(res *resource.Resource, obj *store.Object, err error) error {
	path := strings.TrimPrefix(storagePath(res, obj.Key), "/registry")
	return apierrors.NewInternalError(storage.NewCorruptObjError(path, undecodable(obj, err)))
}

// add adds an object that causes an error. It returns the error of the list if that must not
// continue, because the error is not the object's or there are too many.
func (u *unreadable) add(obj *store.Object, err error) error {
	// A conversion webhook that failed is not called for the other objects.
	_, failed := errors.AsType[*apierrors.StatusError](err)
	path := storagePath(u.res, obj.Key)
	err = storage.NewCorruptObjError(path, undecodable(obj, err))
	u.causes = append(u.causes, metav1.StatusCause{Type: metav1.CauseTypeUnexpectedServerResponse, Field: path,
		Message: err.Error()})
	if failed {
		return u.err()
	}
	if len(u.causes) < maxUnreadable {
		return nil
	}
	u.causes = append(u.causes, metav1.StatusCause{Type: metav1.CauseTypeTooMany,
		Message: "too many errors, the list is truncated"})
	return u.err()
}

// err returns the error of the list, or nil if all objects can be decoded.
func (u *unreadable) err() error {
	if len(u.causes) == 0 {
		return nil
	}
	message := fmt.Sprintf("failed to read one or more %s from the storage: %s", u.res.GroupResource(),
		u.causes[0].Message)
	if more := min(len(u.causes), maxUnreadable) - 1; more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonStoreReadError,
		Message: message,
		Details: &metav1.StatusDetails{Group: u.res.Group, Kind: u.res.Plural, Name: "list", Causes: u.causes},
	}}
}
