package loader

import (
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
)

// ErrNoModule says that a directory is not inside a Go module.
var ErrNoModule = errors.New("no go.mod here or in a parent directory")

// Error is a problem at a place in the source. errors.As finds it in what the toolchain returns.
type Error struct {
	Pos token.Position
	Msg string
}

// Error is "file:line:col: message", as compilers print it.
func (e *Error) Error() string {
	if !e.Pos.IsValid() {
		return e.Msg
	}
	return e.Pos.String() + ": " + e.Msg
}

// Errorf is an Error at pos.
func Errorf(pos token.Position, format string, args ...any) *Error {
	return &Error{Pos: pos, Msg: fmt.Sprintf(format, args...)}
}

// syntaxErrors turns the parser's list into Errors joined into one.
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
