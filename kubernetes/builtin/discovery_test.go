package builtin

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/tokens"
)

// Names, short names, categories, verbs and subresources equal those of kube-apiserver's discovery.
func TestResourcesMatchDiscovery(t *testing.T) {
	list, err := allKinds(Config{Tokens: &tokens.Issuer{}})
	require.NoError(t, err)
	var missing []string
	for _, r := range list {
		for _, version := range r.Versions {
			file := "api__v1.json"
			if r.Group != "" {
				file = "apis__" + r.Group + "__" + version.Name + ".json"
			}
			var doc metav1.APIResourceList
			require.NoError(t, json.Unmarshal(discoveryDocument(t, file), &doc))
			missing = append(missing, compareDiscovery(t, r, version.Name, doc.APIResources)...)
		}
	}
	if len(missing) > 0 {
		t.Errorf("subresources that are not served: %v", missing)
	}
}

// compareDiscovery compares a Resource with its discovery documents and returns the documented
// subresources that it lacks.
func compareDiscovery(t *testing.T, r *resource.Resource, version string,
	docs []metav1.APIResource) (missing []string) {
	t.Helper()
	find := func(name string) *metav1.APIResource {
		for i := range docs {
			if docs[i].Name == name {
				return &docs[i]
			}
		}
		return nil
	}
	doc := find(r.Plural)
	if doc == nil {
		t.Errorf("%s is not documented", r.GVR(version))
		return nil
	}
	verbs := r.Verbs
	if verbs == nil {
		verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	}
	got := metav1.APIResource{
		Name: r.Plural, SingularName: r.Singular, Namespaced: r.Namespaced, Kind: r.Kind, Verbs: verbs,
		ShortNames: r.ShortNames, Categories: r.Categories,
	}
	want := *doc
	want.StorageVersionHash = ""
	if a, b := mustJSON(t, got), mustJSON(t, want); a != b {
		t.Errorf("%s:\n got %s\nwant %s", r.GVR(version), a, b)
	}
	for _, sub := range r.Subresources {
		doc := find(r.Plural + "/" + sub.Name)
		if doc == nil {
			t.Errorf("%s/%s is not documented", r.GVR(version), sub.Name)
			continue
		}
		kind := sub.GVK
		if kind.Empty() {
			kind.Kind = r.Kind
		}
		verbs := []string{"get", "patch", "update"}
		switch {
		case sub.Create != nil:
			verbs = []string{"create"}
		case sub.Connect != nil:
			verbs = []string{"get"}
		}
		if sub.Verbs != nil {
			verbs = sub.Verbs
		}
		if doc.Kind != kind.Kind || doc.Group != kind.Group || doc.Version != kind.Version && kind.Group != "" ||
			!slices.Equal(doc.Verbs, verbs) {
			t.Errorf("%s/%s is %s with %v, documented as %s/%s %s with %v", r.GVR(version), sub.Name, kind, verbs,
				doc.Group, doc.Version, doc.Kind, doc.Verbs)
		}
	}
	for _, doc := range docs {
		if name, sub, ok := strings.Cut(doc.Name, "/"); ok && name == r.Plural {
			if _, ok := r.Subresource(sub); !ok {
				missing = append(missing, doc.Name)
			}
		}
	}
	return missing
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}
