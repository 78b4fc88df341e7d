package loader

import (
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
)

// ErrNoModule means that a directory is not inside a Go module.
var ErrNoModule = errors.New("no go.mod here or in a parent directory")

// Error is an error with a position in the source. Use errors.As to get it from errors of the
// toolchain.
type Error struct {
	Pos token.Position
	Msg string
}

// Error returns "file:line:col: message", as compilers print errors.
func (e *Error) Error() string {
	if !e.Pos.IsValid() {
		return e.Msg
	}
	return e.Pos.String() + ": " + e.Msg
}

// Errorf returns an *Error at pos.
func Errorf(pos token.Position, format string, args ...any) *Error {
	return &Error{Pos: pos, Msg: fmt.Sprintf(format, args...)}
}

// syntaxErrors converts the parser's error list into joined *Errors.
func syntaxErrors(err error) error {
	var list scanner.ErrorList
	if !errors.As(err, &list) {
		return err
	}
	var errs []error
	for _, e := range list {
		errs = append(errs, &Error{Pos: e.Pos, Msg: e.Msg})
	}
	return errors.Join(errs...)
}
