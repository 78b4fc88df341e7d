// Package exit carries the exit code of a command as an error.
package exit

import "fmt"

// Code is an error that sets the exit code of the process. The command has already reported the
// cause, so main prints nothing more.
type Code int

func (c Code) Error() string { return fmt.Sprintf("exit code %d", int(c)) }
