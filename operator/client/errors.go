package client

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var (
	// ErrNoKind is wrapped by errors about objects whose kind is not known: the scheme does not
	// have the Go type, or a dynamic object has no apiVersion and kind.
	ErrNoKind = errors.New("unknown kind")
	// ErrNoNamespace is wrapped by errors about namespaced objects without a namespace.
	ErrNoNamespace = errors.New("namespace is missing")
	// ErrNoName is wrapped by errors about calls that need the name of an object.
	ErrNoName = errors.New("name is missing")
	// ErrNoVersion is wrapped by errors about patches with OptimisticLock from an object without a
	// resourceVersion.
	ErrNoVersion = errors.New("resourceVersion is missing")
	// ErrNoIndex is wrapped by errors about lists by an index that does not exist.
	ErrNoIndex = errors.New("no such index")
)

// IgnoreNotFound returns nil for a NotFound status, and every other error unchanged. Use it for
// operations on objects that may have been deleted.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// IgnoreAlreadyExists returns nil for an AlreadyExists status, and every other error unchanged. Use
// it for creates of objects that may exist and then need no change. The object that was passed to
// Create then does not have the content of the existing one.
func IgnoreAlreadyExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
