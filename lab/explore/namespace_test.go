package explore

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"kelson.dev/internal/assert"
)

// A program finds the namespace of its ServiceAccount where Pods find it, and the rest of the
// system's files as before. Other programs do not see the file.
func TestNamespaceFile(t *testing.T) {
	const file = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	entries := func(dir string) (names []string) {
		all, err := os.ReadDir(dir)
		assert.NoError(t, err)
		for _, entry := range all {
			if entry.Name() != "secrets" {
				names = append(names, entry.Name())
			}
		}
		return names
	}
	before := entries("/var/run")
	found := make(chan string)
	go func() {
		runtime.LockOSThread() // and never unlocks it: the thread ends with the goroutine
		if err := showNamespace("tea"); err != nil {
			found <- err.Error()
			return
		}
		assert.Slicef(t, entries("/var/run"), before, "/var/run")
		out, err := exec.Command("cat", file).CombinedOutput()
		assert.NoError(t, err)
		found <- string(out)
	}()
	switch text := <-found; text {
	case "tea":
	case "operation not permitted", "permission denied", "unsupported operation":
		t.Skip("SKIPPED: it needs root on Linux: " + text)
	default:
		t.Errorf("a program finds %q", text)
	}
	if data, err := os.ReadFile(file); err == nil && string(data) == "tea" {
		t.Error("other programs see the file")
	}
}
