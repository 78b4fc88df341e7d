//go:build !unix

// Package process runs containers as processes; only on Unix systems.
package process

import (
	"errors"

	"kelson.dev/kubernetes/node"
)

// Config of a Runtime.
type Config struct {
	Root     string
	Path     string
	LogBytes int64
	HostIP   string

	Hidden     []string
	Unconfined bool
}

// Runtime does not exist here.
type Runtime struct{ node.Runtime }

// Confinement is that of no pod.
func (*Runtime) Confinement() Confinement { return Unconfined }

// New returns an error: process groups are a Unix system's.
func New(Config) (*Runtime, error) {
	return nil, errors.New("the process runtime needs a Unix system")
}
