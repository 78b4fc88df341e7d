// Package child starts processes that belong to this one, and ends them: on Unix with process
// groups and SIGTERM, on Windows with job objects and console events.
package child

import (
	"os"
	"os/exec"
)

// Group is a started process with the processes that it starts. Ctrl-C does not reach them.
type Group struct{ group }

// Start starts cmd as a group. When the context of cmd ends, it terminates the group.
func Start(cmd *exec.Cmd) (*Group, error) {
	g := &Group{group{cmd: cmd}}
	started := make(chan struct{})
	defer close(started)
	if cmd.Cancel != nil {
		cmd.Cancel = func() error {
			<-started
			return g.Terminate()
		}
	}
	return g, g.start()
}

// Run starts cmd as a group and waits for its first process.
func Run(cmd *exec.Cmd) error {
	g, err := Start(cmd)
	if err != nil {
		return err
	}
	return g.Wait()
}

// Wait calls Wait of the [exec.Cmd]. Afterwards, the group cannot be ended; its processes that
// still run continue.
func (g *Group) Wait() error {
	defer g.release()
	return g.cmd.Wait()
}

// Terminate asks the processes of the group to end. A Go program on Windows receives os.Interrupt.
func (g *Group) Terminate() error { return g.terminate() }

// Interrupt is Terminate as a terminal does it for Ctrl-C: on Unix, it sends SIGINT.
func (g *Group) Interrupt() error { return g.interrupt() }

// Kill ends the processes of the group.
func (g *Group) Kill() error { return g.kill() }

// Terminate asks a process outside of a Group to end. On Windows it kills the process: Ctrl-C
// reaches such a process directly, and Windows has no other way to ask a process to end.
func Terminate(p *os.Process) error { return terminate(p) }

// Pass gives the process that cmd will start an open file. It returns the number that the process
// passes to os.NewFile. f must stay open until cmd has been started.
func Pass(cmd *exec.Cmd, f *os.File) (number string, err error) { return pass(cmd, f) }
