//go:build !linux

package explore

import (
	"errors"
	"os/exec"
)

func canIsolate() bool { return false }

func ownNetwork() error { return errors.ErrUnsupported }

func setGroup(*exec.Cmd) {}

func running(int) bool { return false }
