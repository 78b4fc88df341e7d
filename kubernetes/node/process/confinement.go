package process

import "errors"

// Confinement says what separates the processes of pods from the rest of the machine.
type Confinement string

const (
	// ConfinedRoot gives each pod a root directory of its own: the system's programs and libraries, read-only, the pod's own directory, and
	// an empty /tmp. If the agent is root, each pod also has an unprivileged user of its own; otherwise it has the agent's user in a user
	// namespace of its own.
	ConfinedRoot Confinement = "root"
	// ConfinedUser gives each pod an unprivileged user. The file permissions of the machine decide what it can read.
	ConfinedUser Confinement = "user"
	// Unconfined runs pods with the agent's user and files.
	Unconfined Confinement = "none"
)

// ErrNotConfined says that this system offers no way to separate pods from the user of this process.
var ErrNotConfined = errors.New("pods can't be separated from the user of this process on this system")
