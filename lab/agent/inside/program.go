package inside

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

var errProgram = errors.New("the operator runs in virtual time, without other programs; see --allow")

// refuse reports a program that the operator starts, and returns the error of its start; nil if the
// program is allowed.
func refuse(name string) error {
	if allowed(name) || allowed(filepath.Base(name)) {
		report(Allowed, "the program "+name)
		return nil
	}
	report(Refused, "the program "+name)
	return &exec.Error{Name: name, Err: errProgram}
}

// Command replaces exec.Command in the operator.
func Command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	if err := refuse(name); err != nil {
		cmd.Err = err
	}
	return cmd
}

// CommandContext replaces exec.CommandContext in the operator.
func CommandContext(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	if err := refuse(name); err != nil {
		cmd.Err = err
	}
	return cmd
}

// StartProcess replaces os.StartProcess in the operator.
func StartProcess(name string, args []string, attr *os.ProcAttr) (*os.Process, error) {
	if err := refuse(name); err != nil {
		return nil, err
	}
	return os.StartProcess(name, args, attr)
}

// SyscallStartProcess replaces syscall.StartProcess in the operator.
func SyscallStartProcess(name string, args []string, attr *syscall.ProcAttr) (int, uintptr, error) {
	if err := refuse(name); err != nil {
		return 0, 0, err
	}
	return syscall.StartProcess(name, args, attr)
}

// Exec replaces syscall.Exec in the operator. It never succeeds, because another program has no
// virtual time.
func Exec(name string, _, _ []string) error {
	report(Refused, "the program "+name)
	return &exec.Error{Name: name, Err: errors.New("an operator in virtual time cannot become another program")}
}
