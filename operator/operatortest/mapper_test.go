package operatortest_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"

	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/operatortest"
)

// The client's mapper has the same results as client-go's, for every kind and resource of a server,
// with complete, partial and unknown names.
func TestMapperAgainstClientGo(t *testing.T) {
	needKelson(t)
	env := operatortest.New(t, operatortest.CRDs("testdata"))
	c, err := client.New(client.Config{REST: env.RESTConfig()})
	require.NoError(t, err)
	ours := c.Mapper()
	d, err := discovery.NewDiscoveryClientForConfig(env.RESTConfig())
	require.NoError(t, err)
	groups, err := restmapper.GetAPIGroupResources(d)
	require.NoError(t, err)
	theirs := restmapper.NewDiscoveryRESTMapper(groups)
	_, lists, err := d.ServerGroupsAndResources()
	require.NoError(t, err)

	asked := 0
	same := func(what string, got any, gotErr error, want any, wantErr error) {
		t.Helper()
		asked++
		if !reflect.DeepEqual(got, want) || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
			t.Errorf("%s: got %v, %v, want %v, %v", what, got, gotErr, want, wantErr)
		}
	}
	kind := func(gvk schema.GroupVersionKind) {
		t.Helper()
		for _, versions := range [][]string{{gvk.Version}, nil, {"v0", gvk.Version}} {
			got, gotErr := ours.RESTMapping(gvk.GroupKind(), versions...)
			want, wantErr := theirs.RESTMapping(gvk.GroupKind(), versions...)
			same(fmt.Sprintf("mapping of %v in %q", gvk, versions), got, gotErr, want, wantErr)
		}
		got, gotErr := ours.RESTMappings(gvk.GroupKind(), gvk.Version)
		want, wantErr := theirs.RESTMappings(gvk.GroupKind(), gvk.Version)
		same(fmt.Sprintf("mappings of %v", gvk), got, gotErr, want, wantErr)
	}
	resource := func(gvr schema.GroupVersionResource) {
		t.Helper()
		for _, partial := range []schema.GroupVersionResource{gvr, gvr.GroupResource().WithVersion(""),
			{Resource: gvr.Resource}} {
			gotKind, gotErr := ours.KindFor(partial)
			wantKind, wantErr := theirs.KindFor(partial)
			same(fmt.Sprintf("kind of %v", partial), gotKind, gotErr, wantKind, wantErr)
			gotKinds, gotErr := ours.KindsFor(partial)
			wantKinds, wantErr := theirs.KindsFor(partial)
			same(fmt.Sprintf("kinds of %v", partial), gotKinds, gotErr, wantKinds, wantErr)
			gotResource, gotErr := ours.ResourceFor(partial)
			wantResource, wantErr := theirs.ResourceFor(partial)
			same(fmt.Sprintf("resource of %v", partial), gotResource, gotErr, wantResource, wantErr)
			gotResources, gotErr := ours.ResourcesFor(partial)
			wantResources, wantErr := theirs.ResourcesFor(partial)
			same(fmt.Sprintf("resources of %v", partial), gotResources, gotErr, wantResources, wantErr)
		}
		got, gotErr := ours.ResourceSingularizer(gvr.Resource)
		want, wantErr := theirs.ResourceSingularizer(gvr.Resource)
		same(fmt.Sprintf("singular of %v", gvr), got, gotErr, want, wantErr)
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		require.NoError(t, err)
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") {
				kind(gv.WithKind(r.Kind))
				resource(gv.WithResource(r.Name))
				resource(gv.WithResource(r.SingularName))
			}
		}
	}
	if asked < 1000 {
		t.Errorf("only %d lookups were compared", asked)
	}
	kind(schema.GroupVersionKind{Version: "v1", Kind: "Nothing"})
	kind(schema.GroupVersionKind{Group: "nowhere.example", Version: "v1", Kind: "Pod"})
	resource(schema.GroupVersionResource{Version: "v1", Resource: "nothings"})
}
