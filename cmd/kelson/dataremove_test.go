package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/disk"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/cmd/kelson/internal/data"
)

func dataCommand(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	c := data.Command()
	var stdout, stderr bytes.Buffer
	c.SetArgs(args)
	c.SetOut(&stdout)
	c.SetErr(&stderr)
	c.SilenceUsage = true
	err = c.Execute()
	return stdout.String(), err
}

// A check names the object that no server can read, and the command that takes it out. Objects
// that exceed the limits are named, too.
func TestCheckNamesTheObjectToRemove(t *testing.T) {
	dir := t.TempDir()
	large := `{"kind":"ConfigMap","metadata":{"name":"large"},"data":{"k":"` + strings.Repeat("x", store.MaxObject) +
		`"}}`
	storetest.Fill(t, func() (store.Backend, error) { return disk.Open(dir) },
		store.Record{Key: store.Key{Resource: "configmaps", Namespace: "a", Name: "large"}, Revision: 2, Created: 2,
			Data: []byte(large)},
		store.Record{Key: store.Key{Resource: "deployments.apps", Namespace: "a", Name: "bad"}, Revision: 3, Created: 3,
			Data: []byte(`{"kind":"Deployment","metadata":[]}`)})
	_, err := dataCommand(t, "check", dir)
	if err == nil || !strings.Contains(err.Error(), "deployments.apps a/bad (Deployment): ") {
		t.Fatalf("check: %v", err)
	}
	_, hint, _ := strings.Cut(err.Error(), "kelson data ")
	hint, _, _ = strings.Cut(hint, " takes")
	saved := filepath.Join(t.TempDir(), "bad.json")
	if out, err := dataCommand(t, strings.Fields(strings.Replace(hint, "FILE", saved, 1))...); err != nil ||
		!strings.Contains(out, "removed deployments.apps a/bad from ") {
		t.Fatalf("%s: %q, %v", hint, out, err)
	}
	if data, err := os.ReadFile(saved); err != nil || string(data) != `{"kind":"Deployment","metadata":[]}` {
		t.Errorf("saved %q, %v", data, err)
	}
	if out, err := dataCommand(t, "check", dir); err != nil || !strings.Contains(out, "sound: 1 objects") ||
		!strings.Contains(out, "configmaps a/large (ConfigMap): ") {
		t.Errorf("check afterwards: %q, %v", out, err)
	}
	if out, err := dataCommand(t, "check", dir, "-o", "json"); err != nil || !strings.Contains(out, `"name": "large"`) {
		t.Errorf("check in JSON: %q, %v", out, err)
	}
}
