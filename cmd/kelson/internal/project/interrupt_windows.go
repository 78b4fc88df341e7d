package project

import (
	"os/exec"

	"kelson.dev/cmd/kelson/internal/child"
)

// interrupt asks a process group to end: Go programs receive os.Interrupt.
func interrupt(_ *exec.Cmd, g *child.Group) error { return g.Terminate() }
