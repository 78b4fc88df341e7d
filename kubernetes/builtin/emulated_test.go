package builtin_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/discovery"
	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/builtin"
	"kelson.dev/kubernetes/emulation"
)

// Differences between the discovery documents of a release and of its emulation, with the reasons.
// Kubernetes causes them: kube-apiserver with --emulated-version has the same differences.
const (
	subresource = "subresources have no lifecycle, so emulation does not hide new ones"
	hash        = "emulation stores the versions that --min-compatibility-version has, and the release stored older ones"
)

var knownDifferences = map[string]map[string]string{
	"1.34": {
		"resource.k8s.io/v1 deviceclasses": hash, "resource.k8s.io/v1 resourceclaims": hash,
		"resource.k8s.io/v1 resourceclaimtemplates": hash, "resource.k8s.io/v1 resourceslices": hash,
		"storage.k8s.io/v1 volumeattributesclasses": hash, "storage.k8s.io/v1 csinodes/status": subresource,
	},
	"1.35": {"storage.k8s.io/v1 volumeattributesclasses": hash, "storage.k8s.io/v1 csinodes/status": subresource},
	"1.36": {"storage.k8s.io/v1 csinodes/status": subresource},
	"1.37": {},
}

// An emulated release serves exactly the stable resources that the release itself served, except
// for the known differences. The documents of the releases come from their modules.
func TestEmulatedDiscovery(t *testing.T) {
	for release, known := range knownDifferences {
		t.Run(release, func(t *testing.T) {
			version, err := emulation.Parse(release)
			require.NoError(t, err)
			unclaim, err := version.Claim()
			require.NoError(t, err)
			defer unclaim()
			kinds, err := builtin.Resources(builtin.Config{Version: version})
			require.NoError(t, err)
			registry := resource.NewRegistry(kinds...)
			h := discovery.New(discovery.Config{Registry: registry, Priorities: builtin.Priorities})
			want := stableResources(t, moduleOf(t, release))
			got := map[string]string{}
			for gv := range groupVersions(want, registry) {
				path := "/apis/" + gv
				if gv == "v1" {
					path = "/api/v1"
				}
				if w := get(t, h, path); w.Code == 200 {
					list(t, w.Body.Bytes(), got)
				}
			}
			if len(got) < 100 {
				t.Fatalf("only %d resources", len(got))
			}
			found := map[string]bool{}
			for name := range got {
				if strings.HasPrefix(name, "apiextensions.k8s.io/") {
					continue
				}
				if got[name] != want[name] {
					if found[name] = true; known[name] == "" {
						t.Errorf("%s:\n got %s\nwant %s", name, got[name], want[name])
					}
				}
			}
			for name := range want {
				// package crd serves definitions, and tokens need Config.Tokens
				elsewhere := strings.HasPrefix(name, "apiextensions.k8s.io/") || name == "v1 serviceaccounts/token"
				if _, have := got[name]; !have && !elsewhere {
					t.Errorf("%s is missing", name)
				}
			}
			for name := range known {
				if !found[name] {
					t.Errorf("%s: no difference: remove it from the table", name)
				}
			}
		})
	}
}

// An API that is newer than the emulated release can be enabled only explicitly and with forward
// compatibility; the error is kube-apiserver's.
func TestEmulatedNewerAPI(t *testing.T) {
	version, err := emulation.Parse("1.34")
	require.NoError(t, err)
	unclaim, err := version.Claim()
	require.NoError(t, err)
	defer unclaim()
	apis, err := builtin.ParseAPIs(map[string]string{
		"admissionregistration.k8s.io/v1/mutatingadmissionpolicies": "true"})
	require.NoError(t, err)
	_, err = builtin.Resources(builtin.Config{APIs: apis, Version: version})
	if err == nil || !strings.Contains(err.Error(), "introduced at 1.36 after the current version 1.34") {
		t.Errorf("without forward compatibility: %v", err)
	}
	version.ConfigForwardCompatible = true
	kinds, err := builtin.Resources(builtin.Config{APIs: apis, Version: version})
	require.NoError(t, err)
	for _, r := range kinds {
		if r.Plural == "mutatingadmissionpolicies" {
			return
		}
	}
	t.Error("not served with forward compatibility")
}

// moduleOf returns the directory of the module of a release.
func moduleOf(t *testing.T, release string) string {
	t.Helper()
	name := "k8s.io/kubernetes@v" + release + ".0"
	if release == "1.37" {
		name = "k8s.io/kubernetes@v" + emulation.Linked
	}
	download := exec.Command("go", "mod", "download", "-json", name)
	download.Dir = t.TempDir() // outside of this module, whose go.sum does not list it
	download.Env = append(os.Environ(), "GOWORK=off")
	data, err := download.Output()
	var module struct{ Dir string }
	if err != nil || json.Unmarshal(data, &module) != nil {
		t.Skipf("the module proxy is needed once: go mod download %s: %v\n%s", name, err, data)
	}
	return module.Dir
}

var stableDocument = regexp.MustCompile(`^(api__v1|apis__.*__v\d+)\.json$`)

// stableResources returns the resources of stable versions in a module's discovery documents.
func stableResources(t *testing.T, dir string) map[string]string {
	t.Helper()
	folder := filepath.Join(dir, "api", "discovery")
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	out := map[string]string{}
	for _, file := range files {
		if !stableDocument.MatchString(file.Name()) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(folder, file.Name()))
		require.NoError(t, err)
		list(t, data, out)
	}
	return out
}

// list adds the resources of a document to out, as JSON by group version and name.
func list(t *testing.T, data []byte, out map[string]string) {
	t.Helper()
	document := parse[metav1.APIResourceList](t, data)
	for _, r := range document.APIResources {
		text, err := json.Marshal(r)
		require.NoError(t, err)
		out[document.GroupVersion+" "+r.Name] = string(text)
	}
}

// groupVersions returns the group versions of documents and of a registry.
func groupVersions(documents map[string]string, registry *resource.Registry) map[string]bool {
	out := map[string]bool{}
	for name := range documents {
		gv, _, _ := strings.Cut(name, " ")
		out[gv] = true
	}
	for _, r := range registry.Current().All() {
		for _, v := range r.Versions {
			out[strings.TrimPrefix(r.Group+"/"+v.Name, "/")] = true
		}
	}
	return out
}
