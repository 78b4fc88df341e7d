package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"kelson.dev/cmd/kelson/internal/child"
)

// planner returns a function that makes plans of a project's operator in a cluster. A plan runs in
// a process of its own, kelson plan, and uses the generated files as they are: kelson dev generates
// them.
func planner(dir, kubeconfig string) func(ctx context.Context, lastCommit bool) ([]byte, error) {
	return func(ctx context.Context, lastCommit bool) ([]byte, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		args := []string{"plan", dir, "--generate=false", "--output=json", "--kubeconfig=" + kubeconfig}
		if lastCommit {
			args = append(args, "--against=HEAD")
		}
		cmd := exec.CommandContext(ctx, self, args...)
		cmd.Cancel = func() error { return child.Terminate(cmd.Process) }
		cmd.WaitDelay = 10 * time.Second
		var out, report bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &report
		err = cmd.Run()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == 2 {
			err = nil // the operator would do something
		}
		if err != nil && out.Len() > 0 {
			err = nil // the plan is incomplete, and lists what is missing
		}
		if err != nil {
			return nil, fmt.Errorf("kelson plan: %w: %s", err, end(report.String()))
		}
		return out.Bytes(), nil
	}
}

// end returns the last lines of a report.
func end(report string) string {
	const lines = 20
	all := strings.Split(strings.TrimSpace(report), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
