//go:build !unix

// Package process runs containers as processes. It works only on Unix systems.
package process

import "kelson.dev/kubernetes/node"

// Config configures a Runtime.
type Config struct {
	Root     string
	Path     string
	LogBytes int64
	HostIP   string
	Images   map[string]string

	Hidden     []string
	Unconfined bool
}

// Runtime is not implemented on this system.
type Runtime struct{ node.Runtime }

// Confinement returns Unconfined.
func (*Runtime) Confinement() Confinement { return Unconfined }

// New returns ErrUnsupported, because process groups exist only on Unix systems.
func New(Config) (*Runtime, error) { return nil, ErrUnsupported }
