package process

import "errors"

// Confinement is how the processes of pods are isolated from the rest of the machine.
type Confinement string

const (
	// ConfinedRoot gives each pod its own root directory, with the system's programs and libraries
	// (read-only), the pod's own directory, and an empty /tmp. If the agent runs as root, each pod
	// also has its own unprivileged user; otherwise it runs as the agent's user in its own user
	// namespace.
	ConfinedRoot Confinement = "root"
	// ConfinedUser gives each pod an unprivileged user. The machine's file permissions decide what
	// it can read.
	ConfinedUser Confinement = "user"
	// Unconfined runs pods as the agent's user, with access to its files.
	Unconfined Confinement = "none"
)

// ErrNotConfined means that this system offers no way to isolate pods from the user of this
// process.
var ErrNotConfined = errors.New("this system can't isolate pods from the user of this process")

// ErrUnsupported means that this system cannot run containers as processes.
var ErrUnsupported = errors.New("running containers as processes needs a Unix system")
