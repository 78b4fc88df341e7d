package reconcile

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Terminal marks an error that trying again cannot mend: it is reported, and the object is left until something about it changes.
// Terminal(nil) is nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err}
}

type terminalError struct{ err error }

func (e *terminalError) Error() string { return e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }

// IsTerminal reports whether an error is not retried: one of Terminal, or an InvalidError. An error with which a status could not be written is
// retried, whatever it wraps.
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

// unwrittenError is a reconciler's error together with the failure to write the status that the reconciler left.
type unwrittenError struct{ err, write error }

func (e *unwrittenError) Error() string { return e.err.Error() + "\n" + e.write.Error() }

// Unwrap returns both errors. A conflict of the write is left out: the whole must not look like one.
func (e *unwrittenError) Unwrap() []error {
	if apierrors.IsConflict(e.write) {
		return []error{e.err}
	}
	return []error{e.err, e.write}
}

// InvalidError says that the object itself asks for something impossible. A typed reconciler's framework makes it the condition
// ConditionAccepted of the object. It is not retried: the next change of the object is the retry.
type InvalidError struct {
	Path string // of the field, as in "spec.schedule"; may be empty
	Err  error
}

func (e *InvalidError) Error() string {
	if e.Path == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("%s: %v", e.Path, e.Err)
}

// Unwrap is the reason.
func (e *InvalidError) Unwrap() error { return e.Err }

// Invalid is an InvalidError.
func Invalid(path string, err error) error { return &InvalidError{Path: path, Err: err} }

// PanicError is a panic of a reconciler, caught.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap is the value of the panic, if that was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// IsConflict reports whether an error is a conflict (409) and nothing else, so that trying again is all it takes. An error that joins a
// conflict with another error is not a conflict: that other error must be seen.
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
