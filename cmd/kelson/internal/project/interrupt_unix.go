//go:build unix

package project

import (
	"os/exec"
	"syscall"

	"kelson.dev/cmd/kelson/internal/child"
)

// interrupt sends SIGINT to a process group, as a terminal does for Ctrl-C.
func interrupt(cmd *exec.Cmd, _ *child.Group) error {
	return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
}
