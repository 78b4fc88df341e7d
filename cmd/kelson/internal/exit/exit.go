// Package exit carries the exit code of a command as an error.
package exit

import "fmt"

// Code is an error that sets the exit code of the process. The command has already reported the
// cause, so main prints nothing more.
type Code int

func (c Code) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// Failure is an error with an exit code of its own, for commands whose code 1 has another meaning.
// Main prints the error.
type Failure struct {
	Code Code
	Err  error
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }
