//go:build !unix

// Package process runs containers as processes; only on Unix systems.
package process

import (
	"errors"

	"kelson.dev/server/node"
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

// New returns an error: process groups are a Unix system's.
func New(Config) (node.Runtime, error) {
	return nil, errors.New("the process runtime needs a Unix system")
}
