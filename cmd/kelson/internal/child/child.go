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

// Wait is Wait of [exec.Cmd]. The group can not be ended afterwards. Processes of it that are still
// running continue.
func (g *Group) Wait() error {
	defer g.release()
	return g.cmd.Wait()
}

// Terminate asks the processes of the group to end. A Go program on Windows receives os.Interrupt.
func (g *Group) Terminate() error { return g.terminate() }

// Kill ends the processes of the group.
func (g *Group) Kill() error { return g.kill() }

// Terminate asks a process to end that is not in a group of its own. On Windows it kills the
// process, because Ctrl-C reaches the process by itself and there is no other request.
func Terminate(p *os.Process) error { return terminate(p) }

// Pass gives the process that cmd will start an open file. It returns the number that the process
// passes to os.NewFile. f must stay open until cmd has been started.
func Pass(cmd *exec.Cmd, f *os.File) (number string, err error) { return pass(cmd, f) }
