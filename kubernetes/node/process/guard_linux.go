package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// guard is a shell that kills the processes of a control group if this process is killed. The
// kernel kills only those that this process has started, not their children. A nil guard does
// nothing.
//
// The shell waits for the end of a pipe whose other end only this process has. Its working
// directory is that of the group, so that it never kills the processes of a later group with the
// same name.
type guard struct {
	cmd *exec.Cmd
	end *os.File // of the pipe
}

// guardScript ignores the signals that a terminal or a service manager sends to this process and
// its children, because this process still ends its containers after them.
const guardScript = `trap "" HUP INT TERM; read nothing; echo 1 >` + killFile

// newGuard starts the guard of a control group. It returns nil if the kernel cannot kill groups or
// the machine has no shell.
func newGuard(dir string) *guard {
	if !exists(filepath.Join(dir, killFile)) || withholdDescriptors() != nil {
		return nil
	}
	in, end, err := os.Pipe()
	if err != nil {
		return nil
	}
	defer in.Close()
	cmd := exec.Command("/bin/sh", "-c", guardScript)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.SysProcAttr = dir, []string{}, in, &syscall.SysProcAttr{Setsid: true}
	if cmd.Start() != nil {
		end.Close()
		return nil
	}
	return &guard{cmd, end}
}

func (g *guard) close() {
	if g == nil {
		return
	}
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
	g.end.Close() // the shell no longer sees it
}
