package nodes_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kelson.dev/internal/require"
)

// kelson deploy --load builds an operator's image and imports it. The operator runs as a pod, with
// its service account and role, and becomes the leader. kelson undeploy removes it.
func TestOperatorAsAPod(t *testing.T) {
	c := start(t)
	const project = "../../examples/cnat"
	on := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(c.kelson, append(args, project, "--kubeconfig", c.kubeconfig)...).CombinedOutput()
		if err != nil {
			t.Fatalf("kelson %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	c.wants("deploy", on("deploy", "--generate=false", "--load", "--containerd",
		containerdSocket(t, filepath.Dir(c.kubeconfig))),
		"image kelson.local/cnat:", "deployment.apps/cnat-controller-manager serverside-applied")
	c.eventually("the operator is ready", 3*time.Minute, func() bool {
		return strings.TrimSpace(c.try("get", "deployment", "-n", "cnat-system", "cnat-controller-manager", "-o",
			"jsonpath={.status.readyReplicas}")) == "1"
	})
	c.kubectl("apply", "-f", project+"/config/samples/cnat_v1alpha1_at.yaml")
	c.eventually("the operator has created the pod of the At", 3*time.Minute, func() bool {
		return strings.Contains(c.try("get", "pods", "-n", "default"), "example-at-")
	})
	pod := strings.TrimSpace(c.kubectl("get", "pods", "-n", "cnat-system", "-o", "name"))
	c.becomes("logs", "leader", "logs", "-n", "cnat-system", pod)
	c.wants("the lease", c.kubectl("get", "leases", "-n", "cnat-system", "-o", "wide"), strings.TrimPrefix(pod, "pod/"))
	c.wants("the user", c.kubectl("get", "pod", "-n", "cnat-system", strings.TrimPrefix(pod, "pod/"), "-o",
		"jsonpath={.spec.serviceAccountName} {.spec.securityContext.runAsNonRoot}"),
		"cnat-controller-manager true")
	on("undeploy")
	c.eventually("all objects of the operator are deleted", 3*time.Minute, func() bool {
		left := c.try("get", "namespaces,clusterroles,clusterrolebindings,crds", "-o", "name")
		return left != "" && !strings.Contains(left, "cnat")
	})
}

// containerdSocket returns the socket of the containerd that the node has started below dir, or
// that of the machine.
func containerdSocket(t *testing.T, dir string) string {
	t.Helper()
	socket := "/run/containerd/containerd.sock"
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "containerd.sock" {
			socket = path
		}
		return nil // a folder may have been deleted
	})
	require.NoError(t, err)
	_, err = os.Stat(socket)
	require.NoErrorf(t, err, "no containerd")
	return socket
}
