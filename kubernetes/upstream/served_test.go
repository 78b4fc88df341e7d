package upstream_test

import (
	"encoding/json"
	"go/ast"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/kubeapiserver"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/builtin"
	"kelson.dev/kubernetes/controlplane"
)

// everything starts a control plane with all APIs and all feature gates, and without controllers.
func everything(t *testing.T) *controlplane.ControlPlane {
	t.Helper()
	for _, gates := range []featuregate.Feature{"AllBeta", "AllAlpha"} {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, gates, true)
	}
	apis, err := builtin.ParseAPIs(map[string]string{"api/all": "true"})
	require.NoError(t, err)
	plane, err := controlplane.Start(t.Context(), controlplane.Config{APIs: apis, Controllers: controlplane.NoControllers{}})
	require.NoError(t, err)
	t.Cleanup(plane.Stop)
	return plane
}

// listed returns the resources of a discovery document as JSON, by group version and name.
func listed(t *testing.T, document []byte) map[string]string {
	t.Helper()
	var list metav1.APIResourceList
	require.NoError(t, json.Unmarshal(document, &list))
	all := map[string]string{}
	for _, r := range list.APIResources {
		text, err := json.Marshal(r)
		require.NoError(t, err)
		all[list.GroupVersion+" "+r.Name] = string(text)
	}
	return all
}

// A control plane with all APIs and feature gates serves exactly the groups, versions, resources,
// subresources and verbs that are in the discovery documents of the linked version of Kubernetes.
func TestServedKinds(t *testing.T) {
	handler := everything(t).Transport()
	get := func(path string) []byte {
		resp, err := handler.RoundTrip(httptest.NewRequest(http.MethodGet, "http://plane"+path, nil))
		require.NoError(t, err)
		defer resp.Body.Close()
		body := httptest.NewRecorder()
		if _, err := body.Body.ReadFrom(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d, %v", path, resp.StatusCode, err)
			return []byte("{}")
		}
		return body.Body.Bytes()
	}
	ours := listed(t, get("/api/v1"))
	var groups metav1.APIGroupList
	require.NoError(t, json.Unmarshal(get("/apis"), &groups))
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			maps.Copy(ours, listed(t, get("/apis/"+v.GroupVersion)))
		}
	}
	theirs := map[string]string{}
	documents, err := filepath.Glob(filepath.Join(location(t, "k8s.io/kubernetes/api/discovery"), "api*__v*.json"))
	if err != nil || len(documents) < 30 {
		t.Fatalf("%d documents, %v", len(documents), err)
	}
	for _, name := range documents {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		maps.Copy(theirs, listed(t, data))
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if ours[name] != theirs[name] {
			t.Errorf("%s:\n served     %s\n Kubernetes %s", name, ours[name], theirs[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if theirs[name] == "" {
			t.Errorf("%s is served, and not in Kubernetes", name)
		}
	}
}

// storedElsewhere are the versions in which kube-apiserver stores kinds that this server stores in
// their newest one. kube-apiserver serves the newest one only with a feature gate or an older
// emulated version, and must be able to roll back. No such version of this server exists.
var storedElsewhere = map[string]string{
	"clustertrustbundles.certificates.k8s.io":          "certificates.k8s.io/v1beta1",
	"podcertificaterequests.certificates.k8s.io":       "certificates.k8s.io/v1beta1",
	"devicetaintrules.resource.k8s.io":                 "resource.k8s.io/v1beta2",
	"storageversionmigrations.storagemigration.k8s.io": "storagemigration.k8s.io/v1beta1",
}

// Each kind is stored in the version in which kube-apiserver stores it by default, or in the one
// that storedElsewhere explains.
func TestStorageVersions(t *testing.T) {
	factory, err := kubeapiserver.NewStorageFactoryConfig().Complete(
		serveroptions.NewEtcdOptions(&storagebackend.Config{})).New()
	require.NoError(t, err)
	compared := 0
	for _, r := range everything(t).Registry().Current().All() {
		// Package crd serves definitions, and reviews are not stored.
		if r.StorageVersion == "" || r.Owner != "builtin" || r.Review != nil || r.Computed != nil ||
			r.Group == "apiregistration.k8s.io" {
			continue
		}
		want, err := factory.ResourceEncodingConfig.StorageEncodingFor(r.GroupResource())
		if err != nil {
			t.Errorf("%s: %v", r.GroupResource(), err)
			continue
		}
		group := r.Group
		if r.StoredAs != "" {
			group = schema.ParseGroupResource(r.StoredAs).Group
		}
		if decided, ok := storedElsewhere[r.GroupResource().String()]; ok {
			if decided != want.String() {
				t.Errorf("%s: kube-apiserver stores %s now, and storedElsewhere has %s", r.GroupResource(), want,
					decided)
			}
			continue
		}
		if got := (schema.GroupVersion{Group: group, Version: r.StorageVersion}); got != want {
			t.Errorf("%s is stored as %s; kube-apiserver stores %s", r.GroupResource(), got, want)
		}
		compared++
	}
	if compared < 60 {
		t.Errorf("only %d kinds compared", compared)
	}
}

// The kinds whose tables show only name and age are those for which Kubernetes' registry does not
// use its printers.
func TestTables(t *testing.T) {
	plain := map[string]bool{}
	err := filepath.WalkDir(location(t, "k8s.io/kubernetes/pkg/registry"),
		func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Base(path) != "storage.go" {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(data), "NewDefaultTableConvertor") {
				return err
			}
			relative, err := filepath.Rel(location(t, "k8s.io/kubernetes"), path)
			if err != nil {
				return err
			}
			for _, file := range parsed(t, "k8s.io/kubernetes/"+filepath.ToSlash(relative)) {
				ast.Inspect(file, func(n ast.Node) bool {
					if call, ok := n.(*ast.CallExpr); ok && ident(call.Fun) == "NewDefaultTableConvertor" {
						plain[literal(call)] = true
					}
					return true
				})
			}
			return nil
		})
	require.NoError(t, err)
	for _, r := range everything(t).Registry().Current().All() {
		if r.Owner != "builtin" || r.Table == nil || r.Codec == nil {
			continue
		}
		if r.Review != nil || r.Verbs != nil && !slices.Contains(r.Verbs, "list") {
			continue // clients can only create reviews and bindings
		}
		table, err := r.Table(r.Versions[0].Name).ConvertToTable(t.Context(), r.Codec.New(), nil)
		if err != nil {
			t.Errorf("%s: %v", r.GroupResource(), err)
			continue
		}
		var columns []string
		for _, c := range table.ColumnDefinitions {
			columns = append(columns, c.Name)
		}
		if got := slices.Equal(columns, []string{"Name", "Created At"}); got != plain[r.Plural] {
			t.Errorf("%s: columns %q; Kubernetes has a printer: %v", r.GroupResource(), columns, !plain[r.Plural])
		}
		delete(plain, r.Plural)
	}
	for plural := range plain {
		t.Errorf("%s is not served", plural)
	}
}

// literal returns the first string literal in a call, such as the resource of
// NewDefaultTableConvertor(rbac.Resource("roles")).
func literal(call *ast.CallExpr) (text string) {
	ast.Inspect(call, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && text == "" {
			text, _ = strconv.Unquote(lit.Value)
		}
		return true
	})
	return text
}
