//go:build !linux

package explore

import (
	"errors"
	"net"
	"os/exec"
)

func canIsolate() bool { return false }

func ownNetwork() error { return errors.ErrUnsupported }

func showNamespace(string) error { return errors.ErrUnsupported }

// dialHere returns a function that connects to addresses, until stop is called.
func dialHere() (dial func(address string) (net.Conn, error), stop func(), err error) {
	return func(address string) (net.Conn, error) {
		return net.DialTimeout("tcp", address, dialTimeout)
	}, func() {}, nil
}

func setGroup(*exec.Cmd) {}

func running(int) bool { return false }

func suspend(int, bool) error { return errors.ErrUnsupported }
