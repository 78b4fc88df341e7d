//go:build unix && !linux

package process

import (
	"fmt"
	"os"
	"os/user"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// confine returns the strongest confinement that this system offers.
func (r *Runtime) confine() (Confinement, error) {
	if os.Geteuid() != 0 {
		return "", fmt.Errorf("%w: the system has no namespaces, and this process is not root", ErrNotConfined)
	}
	return ConfinedUser, nil
}

func (r *Runtime) newLauncher(*corev1.Pod, string, string) (launcher, error) {
	if r.confinement == Unconfined {
		return unconfined{}, nil
	}
	id := uint64(nobody)
	if u, err := user.Lookup("nobody"); err == nil {
		if id, err = strconv.ParseUint(u.Uid, 10, 32); err != nil {
			id = nobody
		}
	}
	return asUser{uint32(id)}, nil
}

func mapped(uint32) bool { return true }

// withoutNewPrivileges only calls start: set-user-ID programs keep their effect on this system.
func withoutNewPrivileges(start func() error) error { return start() }
