//go:build unix

package child

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

type group struct{ cmd *exec.Cmd }

func (g *group) start() error {
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return g.cmd.Start()
}

func (g *group) terminate() error { return syscall.Kill(-g.cmd.Process.Pid, syscall.SIGTERM) }

func (g *group) interrupt() error { return syscall.Kill(-g.cmd.Process.Pid, syscall.SIGINT) }

func (g *group) kill() error { return syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL) }

func (g *group) release() {}

func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

func pass(cmd *exec.Cmd, f *os.File) (string, error) {
	cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	return strconv.Itoa(2 + len(cmd.ExtraFiles)), nil // after stdin, stdout and stderr
}
