package discovery_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/discovery"
	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// Groups are ordered by priority, then name, and versions by priority, then Kubernetes' order.
func TestOrderOfOtherGroups(t *testing.T) {
	kind := func(group string, versions ...string) *resource.Resource {
		r := &resource.Resource{Group: group, Plural: "things", Singular: "thing", Kind: "Thing",
			Verbs: []string{"get"}}
		for _, v := range versions {
			r.Versions = append(r.Versions, resource.Version{Name: v})
		}
		return r
	}
	registry := resource.NewRegistry(kind("apps", "v1"), kind("autoscaling", "v1", "v2"),
		kind("b.example.com", "v1", "v2beta1"), kind("c.example.com", "v1"))
	priorities := func(group, version int32) discovery.Priorities {
		return discovery.Priorities{Group: group, Version: version}
	}
	var others *discovery.Others
	handler := discovery.New(discovery.Config{
		Registry: registry, Others: func() *discovery.Others { return others }, Priorities: priorityOf,
	})
	get := func(path, accept string, into any) int {
		t.Helper()
		req := httptest.NewRequest(http.MethodGet, path, nil)
		req.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req)
		if w.Code == http.StatusOK {
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), into))
		}
		return w.Code
	}
	want := func(want string) {
		t.Helper()
		var legacy metav1.APIGroupList
		get("/apis", "application/json", &legacy)
		var both [2][]string
		for _, g := range legacy.Groups {
			for _, v := range g.Versions {
				both[0] = append(both[0], v.GroupVersion)
			}
		}
		var list apidiscoveryv2.APIGroupDiscoveryList
		get("/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", &list)
		for _, g := range list.Items {
			for _, v := range g.Versions {
				both[1] = append(both[1], g.Name+"/"+v.Version)
			}
		}
		for _, got := range both {
			assert.Equal(t, strings.Join(got, " "), want)
		}
	}
	want("apps/v1 autoscaling/v2 autoscaling/v1 b.example.com/v1 b.example.com/v2beta1 c.example.com/v1")
	others = &discovery.Others{
		{Group: "a.example.com", Version: "v1"}:      {Priorities: priorities(1000, 10), Served: true, Stale: true},
		{Group: "a.example.com", Version: "v1beta1"}: {Priorities: priorities(1000, 20), Served: true},
		{Group: "z.example.com", Version: "v1"}:      {Priorities: priorities(17650, 10), Served: true},
		{Group: "b.example.com", Version: "v3"}:      {Priorities: priorities(1100, 1), Served: true},
		{Group: "c.example.com", Version: "v1"}:      {Priorities: priorities(900, 1)},
		// not served
		{Group: "d.example.com", Version: "v1"}: {Priorities: priorities(900, 1)},
	}
	want("apps/v1 z.example.com/v1 autoscaling/v2 autoscaling/v1 b.example.com/v1 b.example.com/v2beta1 b.example.com/v3 " +
		"a.example.com/v1beta1 a.example.com/v1 c.example.com/v1")
	var group metav1.APIGroup
	if code := get("/apis/a.example.com", "application/json", &group); code != http.StatusOK ||
		group.PreferredVersion.Version != "v1beta1" {
		t.Error(code, group)
	}
	// The server itself serves the document about its group version.
	assert.Equal(t, get("/apis/a.example.com/v1", "application/json", &group), http.StatusNotFound)
}

// priorityOf gives two groups priorities that differ from those of custom kinds.
func priorityOf(gv schema.GroupVersion) discovery.Priorities {
	switch {
	case gv.Group == "apps":
		return discovery.Priorities{Group: 17800, Version: 15}
	case gv == schema.GroupVersion{Group: "autoscaling", Version: "v2"}:
		return discovery.Priorities{Group: 17500, Version: 30}
	case gv.Group == "autoscaling":
		return discovery.Priorities{Group: 17500, Version: 15}
	}
	return discovery.CustomPriorities(gv)
}
