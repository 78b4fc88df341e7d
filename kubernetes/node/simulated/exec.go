package simulated

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilexec "k8s.io/utils/exec"

	"kelson.dev/kubernetes/node"
)

var (
	_ node.Executor = (*container)(nil)
	_ node.Attacher = (*container)(nil)
)

// errNotExecuted means that a command can't be simulated.
var errNotExecuted = errors.New("the simulated runtime can't run this command: it simulates only echo, sleep, true, false and exit; " + HowToRun)

// Exec simulates a command in the same way as a container's own command (see command.go), or
// returns errNotExecuted.
func (c *container) Exec(ctx context.Context, command []string, s node.Streams) error {
	if len(command) == 0 {
		return errors.New("no command specified")
	}
	played, ok := interpret(command, c.env)
	if !ok {
		return fmt.Errorf("%q: %w", strings.Join(command, " "), errNotExecuted)
	}
	began := time.Now()
	for _, l := range played.lines {
		if err := c.wait(ctx, began.Add(l.after)); err != nil {
			return err
		}
		if s.Stdout != nil {
			end := "\n"
			if s.TTY {
				end = "\r\n"
			}
			if _, err := io.WriteString(s.Stdout, l.text+end); err != nil {
				return fmt.Errorf("write output: %w", err)
			}
		}
	}
	if err := c.wait(ctx, began.Add(played.at)); err != nil {
		return err
	}
	if played.code != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", played.code),
			Code: int(played.code)}
	}
	return nil
}

// wait waits until a time. It returns an error if ctx or the container ends first.
func (c *container) wait(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.done:
		return utilexec.CodeExitError{Err: errors.New("command terminated with exit code 137"), Code: 137}
	}
}

// Attach copies the further output of the script.
func (c *container) Attach(ctx context.Context, s node.Streams) error {
	none := int64(0)
	log, err := c.Logs(ctx, &corev1.PodLogOptions{Follow: true, TailLines: &none})
	if err != nil {
		return err
	}
	defer log.Close()
	if s.Stdout == nil {
		s.Stdout = io.Discard
	}
	_, err = io.Copy(s.Stdout, log)
	if ctx.Err() != nil {
		return nil
	}
	return err
}
