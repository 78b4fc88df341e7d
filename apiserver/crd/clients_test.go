package crd_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	kubediscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/restmapper"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// client-go's discovery reads the contents of the registry, in both forms.
func TestDiscoveryClient(t *testing.T) {
	p := newPlane(t)
	p.do("POST", definitionsPath, widgets()).want(201)
	client, err := kubediscovery.NewDiscoveryClientForConfig(p.config())
	require.NoError(t, err)
	legacy, err := kubediscovery.NewDiscoveryClientForConfig(p.config())
	require.NoError(t, err)
	legacy.UseLegacyDiscovery = true
	for name, c := range map[string]*kubediscovery.DiscoveryClient{"aggregated": client, "legacy": legacy} {
		groups, lists, err := c.ServerGroupsAndResources()
		require.NoErrorf(t, err, "%s", name)
		var names, resources []string
		for _, g := range groups {
			names = append(names, g.Name+"="+g.PreferredVersion.GroupVersion)
		}
		for _, list := range lists {
			for _, r := range list.APIResources {
				line := []string{list.GroupVersion, r.Name, r.Kind}
				// client-go gives subresources the singular name, but only from the aggregated form
				if !strings.Contains(r.Name, "/") {
					line = append(line, r.SingularName, strings.Join(r.ShortNames, ","),
						strings.Join(r.Categories, ","))
				}
				resources = append(resources, strings.Join(append(line, strings.Join(r.Verbs, ",")), " "))
			}
		}
		want := []string{"apiextensions.k8s.io=apiextensions.k8s.io/v1",
			"example.com=example.com/v1"}
		assert.Slicef(t, names, want, "%s: groups", name)
		all := "create,delete,deletecollection,get,list,patch,update,watch"
		slices.Sort(resources)
		if want := []string{
			"apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition customresourcedefinition crd,crds api-extensions " + all,
			"apiextensions.k8s.io/v1 customresourcedefinitions/status CustomResourceDefinition get,patch,update",
			"example.com/v1 widgets Widget widget wd all delete,deletecollection,get,list,patch,create,update,watch",
			"example.com/v1 widgets/scale Scale get,patch,update",
			"example.com/v1 widgets/status Widget get,patch,update",
		}; !slices.Equal(resources, want) {
			t.Errorf("%s: resources\n%s\nwant\n%s", name, strings.Join(resources, "\n"), strings.Join(want, "\n"))
		}
	}
	mapped, err := restmapper.GetAPIGroupResources(client)
	require.NoError(t, err)
	gvk, err := restmapper.NewDiscoveryRESTMapper(mapped).KindFor(schema.GroupVersionResource{Resource: "widgets"})
	if err != nil || gvk != (schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}) {
		t.Errorf("KindFor(widgets) = %v, %v", gvk, err)
	}
}

// client-go's OpenAPI clients read both forms, and see a changed definition.
func TestOpenAPIClients(t *testing.T) {
	p := newPlane(t)
	p.do("POST", definitionsPath, widgets()).want(201)
	client, err := kubediscovery.NewDiscoveryClientForConfig(p.config())
	require.NoError(t, err)
	describe := func() string {
		t.Helper()
		spec, err := openapi3.NewRoot(client.OpenAPIV3()).GVSpec(schema.GroupVersion{Group: "example.com",
			Version: "v1"})
		require.NoError(t, err)
		widget, ok := spec.Components.Schemas["com.example.v1.Widget"]
		if !ok {
			t.Fatal("no schema of Widget")
		}
		if _, ok := spec.Paths.Paths["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}/scale"]; !ok {
			t.Error("no path of the scale subresource")
		}
		return widget.Properties["spec"].Description
	}
	assert.Equalf(t, describe(), "What the widget should be.", "description")
	current := p.do("GET", definitionsPath+"/widgets.example.com", "").object()
	p.do("PUT", definitionsPath+"/widgets.example.com",
		strings.Replace(mustJSON(t, current.Object), "should be.", "is to be.", 1)).want(200)
	if got := describe(); got != "What the widget is to be." {
		t.Errorf("description %q after the change", got)
	}
	v2, err := client.OpenAPISchema()
	require.NoError(t, err)
	var names []string
	for _, d := range v2.GetDefinitions().GetAdditionalProperties() {
		if strings.HasPrefix(d.Name, "com.example.") || strings.HasSuffix(d.Name, "v1.CustomResourceDefinition") {
			names = append(names, d.Name)
		}
	}
	if want := []string{"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
		"com.example.v1.Widget", "com.example.v1.WidgetList"}; len(names) != len(want) || names[0] != want[0] {
		t.Errorf("definitions %q, want %q", names, want)
	}
	var paths int
	for _, path := range v2.GetPaths().GetPath() {
		if strings.HasPrefix(path.Name, "/apis/apps/") {
			t.Errorf("path of a group that is not served: %s", path.Name)
		}
		if strings.HasPrefix(path.Name, "/apis/example.com/v1/") {
			paths++
		}
	}
	assert.Equalf(t, paths, 5, "paths of widgets")
	p.do("DELETE", definitionsPath+"/widgets.example.com", "").want(200)
}
