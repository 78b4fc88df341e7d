//go:build !linux

package agent

import "os/exec"

// startCalm starts a process.
func startCalm(cmd *exec.Cmd) error { return cmd.Start() }
