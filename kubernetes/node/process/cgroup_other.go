//go:build unix && !linux

package process

import (
	"os/exec"

	corev1 "k8s.io/api/core/v1"
)

// cgroups creates no control groups, because this system has none.
type cgroups struct{}

func newCgroups(string) *cgroups { return nil }

func (*cgroups) new(string, share) (*cgroup, error) { return nil, nil }

func (*cgroups) available() bool { return false }

func (*cgroups) tracked() bool { return false }

func (*cgroups) endLeftovers(string) {}

// share has the limits and requests that a system with control groups would enforce.
type share struct{}

func shareOf(corev1.ResourceRequirements) share { return share{} }

// cgroup limits nothing.
type cgroup struct{}

func (*cgroup) start(cmd *exec.Cmd) error {
	if err := withholdDescriptors(); err != nil {
		return err
	}
	return cmd.Start()
}

func (*cgroup) outOfMemory() bool  { return false }
func (*cgroup) resize(share) error { return nil }
func (*cgroup) tracks() bool       { return false }
func (*cgroup) kill()              {}
func (*cgroup) close()             {}
