package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"kelson.dev/cmd/kelson/internal/child"
)

// pollPause is the time between two checks of whether a detached server is ready.
const pollPause = 20 * time.Millisecond

// detached starts the server of this command line in the background, and returns when it is ready.
// It writes what the server printed to out.
func (o *Options) detached(ctx context.Context, out io.Writer) error {
	dir, err := folderOf(o.named.name)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, logFile)
	log, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := withoutDetach(os.Args[1:])
	if !slices.Contains(args, "--name") {
		at := slices.Index(args, o.command)
		args = slices.Insert(args, at+1, "--name="+o.named.name)
	}
	cmd := exec.Command(self, args...) // survives ctx
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = inBackground()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start server %q: %w", o.named.name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
wait:
	for {
		select {
		case err := <-ended:
			printed, _ := os.ReadFile(file)
			return fmt.Errorf("server %q: %w\n%s", o.named.name, err, bytes.TrimSpace(printed))
		case <-ctx.Done():
			_ = child.Terminate(cmd.Process)
			<-ended
			return ctx.Err()
		case <-time.After(pollPause):
		}
		if r, err := Running(ctx, o.named.name); err == nil && r.PID == cmd.Process.Pid {
			break wait
		}
	}
	printed, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%sserver %q runs in the background: kelson list shows it, kelson stop %s ends it; its log is %s\n",
		printed, o.named.name, o.named.name, file)
	return err
}
