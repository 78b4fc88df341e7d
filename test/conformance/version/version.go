// Package version has the version of Kubernetes whose specs this module runs.
package version

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Kubernetes returns the version of k8s.io/kubernetes in this module's go.mod, such as v1.38.0. The
// working directory must be in the module.
func Kubernetes(ctx context.Context) (string, error) {
	c := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	c.Env = append(os.Environ(), "GOWORK=off")
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("read the version of Kubernetes from go.mod: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
