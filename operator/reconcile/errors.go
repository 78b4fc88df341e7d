package reconcile

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Terminal wraps an error that a retry can't fix. The controller logs it and does not reconcile the
// object again until something changes. Terminal(nil) is nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err}
}

type terminalError struct{ err error }

func (e *terminalError) Error() string { return e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }

// IsTerminal reports whether the controller does not retry an error: one from Terminal, or an
// InvalidError. If the status could not be written, the error is always retried.
func IsTerminal(err error) bool {
	switch e := err.(type) {
	case nil, *unwrittenError:
		return false
	case *terminalError, *InvalidError:
		return true
	case interface{ Unwrap() error }:
		return IsTerminal(e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), IsTerminal)
	}
	return false
}

// unwrittenError combines a reconciler's error with the error of the following status write.
type unwrittenError struct{ err, write error }

func (e *unwrittenError) Error() string { return e.err.Error() + "\n" + e.write.Error() }

// Unwrap returns both errors, except for a conflict of the write, so that IsConflict is false for
// the combination.
func (e *unwrittenError) Unwrap() []error {
	if apierrors.IsConflict(e.write) {
		return []error{e.err}
	}
	return []error{e.err, e.write}
}

// InvalidError reports that the object itself is invalid. Typed reconcilers turn it into the
// condition ConditionAccepted. The controller does not retry until the object changes.
type InvalidError struct {
	Path string // path of the field, such as "spec.schedule"; may be empty
	Err  error
}

func (e *InvalidError) Error() string {
	if e.Path == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("%s: %v", e.Path, e.Err)
}

// Unwrap returns the reason.
func (e *InvalidError) Unwrap() error { return e.Err }

// Invalid returns an InvalidError.
func Invalid(path string, err error) error { return &InvalidError{Path: path, Err: err} }

// PanicError is a recovered panic of a reconciler.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value of the panic, if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// IsConflict reports whether an error is a conflict (409) and nothing else, so that a retry
// resolves it. It is false for a conflict joined with another error, because that error must be
// reported.
func IsConflict(err error) bool {
	if _, ok := err.(apierrors.APIStatus); ok {
		return apierrors.IsConflict(err)
	}
	switch e := err.(type) {
	case nil:
		return false
	case interface{ Unwrap() error }:
		return IsConflict(e.Unwrap())
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		return len(all) > 0 && !slices.ContainsFunc(all, func(err error) bool { return !IsConflict(err) })
	}
	return false
}
