package reconcile

import (
	"errors"
	"fmt"
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

// IsTerminal says whether an error is not to be retried: one of Terminal, or an InvalidError.
func IsTerminal(err error) bool {
	var terminal *terminalError
	var invalid *InvalidError
	return errors.As(err, &terminal) || errors.As(err, &invalid)
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
