//go:build unix

package inside

import "syscall"

// ForkExec replaces syscall.ForkExec in the operator.
func ForkExec(name string, args []string, attr *syscall.ProcAttr) (int, error) {
	if err := refuse(name); err != nil {
		return 0, err
	}
	return syscall.ForkExec(name, args, attr)
}
