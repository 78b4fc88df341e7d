package client

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var (
	// ErrNoKind is wrapped by errors about objects whose kind cannot be told: a Go type the scheme does not know, or a
	// dynamic object without apiVersion and kind.
	ErrNoKind = errors.New("unknown kind")
	// ErrNoNamespace is wrapped by errors about an object that lives in a namespace and names none.
	ErrNoNamespace = errors.New("namespace is missing")
	// ErrNoName is wrapped by errors about a call that needs the name of an object.
	ErrNoName = errors.New("name is missing")
	// ErrNoVersion is wrapped by errors about a patch that is to fail when the object has changed, from an object without resourceVersion.
	ErrNoVersion = errors.New("resourceVersion is missing")
)

// IgnoreNotFound gives nil for a NotFound status, and every other error as it is: for writes to what may be gone by now.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
