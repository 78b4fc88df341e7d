//go:build !linux

package serve

import "syscall"

// nodeAttributes has no effect: nodes run on Linux only.
func nodeAttributes() *syscall.SysProcAttr { return nil }
