// Package linked has the version of Kubernetes whose packages this module links. make
// kubernetes-version writes it, and a test compares it with all go.mod files.
package linked

import "strings"

// Minor returns the release of [Kubernetes] without its patch number, such as 1.37.
func Minor() string {
	parts := strings.SplitN(Kubernetes, ".", 3)
	return parts[0] + "." + parts[1]
}
