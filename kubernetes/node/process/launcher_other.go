//go:build unix && !linux

package process

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// confine returns the strongest confinement that this system offers.
func (r *Runtime) confine() (Confinement, error) {
	if os.Geteuid() != 0 {
		return "", fmt.Errorf("%w: the system has no namespaces, and this process is not root", ErrNotConfined)
	}
	return ConfinedUser, nil
}

func (r *Runtime) newLauncher(*corev1.Pod, string, string, []mount, *cgroup, *identity,
	bool, string) (launcher, error) {
	if r.confinement == Unconfined {
		return unconfined{}, nil
	}
	id := uint64(nobody)
	if u, err := user.Lookup("nobody"); err == nil {
		if id, err = strconv.ParseUint(u.Uid, 10, 32); err != nil {
			id = nobody
		}
	}
	return asUser{user: uint32(id)}, nil
}

// assume does nothing, because this system has no user namespaces.
func (*identity) assume(*syscall.SysProcAttr, uint32) {}

// This system has no user namespaces.
func (r *Runtime) translates() bool   { return false }
func (r *Runtime) tryNamespace() bool { return false }

func mapped(uint32) bool { return true }

// withoutNewPrivileges calls start. Programs can still gain privileges on this system, because it
// has no equivalent of Linux' no_new_privs: set-user-ID programs work.
func withoutNewPrivileges(start func() error) error { return start() }

// lasting calls start. This system does not end processes with the thread that started them.
func lasting(start func() error) error { return start() }
