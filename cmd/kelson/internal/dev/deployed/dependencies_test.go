package deployed

import (
	"path/filepath"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// MissingGroup parses the errors of client-go and controller-runtime, as text and as JSON.
func TestMissingGroup(t *testing.T) {
	for line, want := range map[string]string{
		`{"error":"no matches for kind \"GitRepository\" in version \"source.toolkit.fluxcd.io/v1\""}`:                                      "source.toolkit.fluxcd.io",
		`ERROR no matches for kind "Group" in group "user.openshift.io"`:                                                                    "user.openshift.io",
		`failed to list *v1.Volume: the server could not find the requested resource (get volumesnapshots.snapshot.storage.k8s.io)`:         "snapshot.storage.k8s.io",
		`unable to retrieve the complete list of server APIs: snapshot.storage.k8s.io/v1: the server could not find the requested resource`: "snapshot.storage.k8s.io",
		`no matches for kind "PodSecurityPolicy" in version "v1"`:                                                                           "",
		`the server could not find the requested resource (get configmaps)`:                                                                 "",
		`{"level":"info","msg":"Starting workers"}`:                                                                                         "",
	} {
		assert.Equalf(t, MissingGroup(line), want, "%s", line)
	}
}

// Definitions come from the YAML files of the module with a group's Go types, or from the types.
func TestDependencies(t *testing.T) {
	const yaml = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: disks.storage.example.com}
spec: {group: storage.example.com, names: {kind: Disk, plural: disks}, conversion: {strategy: Webhook}}
`
	dir := write(t, `
-- main/go.mod --
module example.com/main
go 1.26
require example.com/files v1.0.0
replace example.com/files => ../files
-- main/main.go --
package main

import _ "example.com/files/api/v1"

func main() {}
-- files/go.mod --
module example.com/files
go 1.26
-- files/api/v1/register.go --
package v1

const Group = "storage.example.com"
-- files/config/crd/bases/disks.yaml --
`+yaml+`-- files/other.yaml --
`+yaml+``)
	d := Dependencies{Main: dir + "/main", Temp: t.TempDir()}
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOWORK", "off")
	found, source, err := d.Find(t.Context(), "storage.example.com")
	if err != nil || len(found) != 1 || found[0].GetName() != "disks.storage.example.com" ||
		source != "example.com/files" {
		t.Fatalf("found %v in %s: %v", found, source, err)
	}
	if spec := found[0].Object["spec"].(map[string]any); spec["conversion"] != nil {
		t.Errorf("it converts: %v", spec)
	}
	if found, _, err := d.Find(t.Context(), "other.example.com"); err != nil || len(found) > 0 {
		t.Errorf("found %v: %v", found, err)
	}
}

// A module with Go types and without YAML files: the definitions are generated.
func TestDependenciesGenerated(t *testing.T) {
	module, err := filepath.Abs("../../../../../examples")
	require.NoError(t, err)
	p := goPackage{path: "kelson.dev/examples/cnat/api/v1alpha1", dir: filepath.Join(module, "cnat", "api", "v1alpha1"),
		moduleDir: module}
	if !p.declares("cnat.programming-kubernetes.info") {
		t.Fatal("the package does not declare its group")
	}
	found, err := Dependencies{Temp: t.TempDir()}.generate(t.Context(), p, "cnat.programming-kubernetes.info")
	if err != nil || len(found) != 1 || found[0].GetName() != "ats.cnat.programming-kubernetes.info" {
		t.Fatalf("found %v: %v", found, err)
	}
}
