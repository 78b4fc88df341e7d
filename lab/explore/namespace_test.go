package explore

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
)

// A program finds the namespace of its ServiceAccount where Pods find it, and the rest of the
// system's files as before. Other programs do not see the file.
func TestNamespaceFile(t *testing.T) {
	const file = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	entries := func(dir string) (names []string) {
		all, err := os.ReadDir(dir)
		if err != nil {
			t.Error(err)
		}
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
		if after := entries("/var/run"); !slices.Equal(after, before) {
			t.Errorf("/var/run has %v, want %v", after, before)
		}
		out, err := exec.Command("cat", file).CombinedOutput()
		if err != nil {
			t.Error(err)
		}
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
