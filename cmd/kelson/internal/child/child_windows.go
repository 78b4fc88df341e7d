package child

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/windows"
)

// group is a job object, which contains the processes.
type group struct {
	cmd *exec.Cmd

	mu  sync.Mutex
	job windows.Handle // 0 after release
}

// start starts the process and moves it to a job object. Processes that it starts before that, in
// its first microseconds, are not part of the group.
func (g *group) start() error {
	attributes(g.cmd).CreationFlags |= windows.CREATE_NEW_PROCESS_GROUP
	handle, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return os.NewSyscallError("CreateJobObject", err)
	}
	g.job = handle
	if err := g.cmd.Start(); err != nil {
		g.release()
		return err
	}
	var failed error
	err = g.cmd.Process.WithHandle(func(process uintptr) {
		failed = windows.AssignProcessToJobObject(handle, windows.Handle(process))
	})
	if err := errors.Join(err, os.NewSyscallError("AssignProcessToJobObject", failed)); err != nil {
		_ = g.cmd.Process.Kill()
		_ = g.cmd.Wait()
		g.release()
		return err
	}
	return nil
}

// terminate sends CTRL_BREAK, because processes in a group of their own ignore CTRL_C. Without a
// console there are no such events: then it kills the group.
func (g *group) terminate() error {
	if err := windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(g.cmd.Process.Pid)); err != nil {
		return g.kill()
	}
	return nil
}

func (g *group) interrupt() error { return g.terminate() }

func (g *group) kill() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.job == 0 {
		return os.ErrProcessDone
	}
	return os.NewSyscallError("TerminateJobObject", windows.TerminateJobObject(g.job, 1))
}

func (g *group) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.job != 0 {
		_ = windows.CloseHandle(g.job)
		g.job = 0
	}
}

func terminate(p *os.Process) error { return p.Kill() }

func pass(cmd *exec.Cmd, f *os.File) (string, error) {
	handle := f.Fd()
	if err := windows.SetHandleInformation(windows.Handle(handle), windows.HANDLE_FLAG_INHERIT,
		windows.HANDLE_FLAG_INHERIT); err != nil {
		return "", os.NewSyscallError("SetHandleInformation", err)
	}
	a := attributes(cmd)
	a.AdditionalInheritedHandles = append(a.AdditionalInheritedHandles, syscall.Handle(handle))
	return strconv.FormatUint(uint64(handle), 10), nil
}

func attributes(cmd *exec.Cmd) *syscall.SysProcAttr {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	return cmd.SysProcAttr
}
