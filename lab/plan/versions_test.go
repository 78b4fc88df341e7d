package plan

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/resource"
)

// A definition may store a version that it does not serve. Its objects are then read in a version
// that it serves: the one that the group prefers, or else its newest.
func TestVersionThatIsNotStored(t *testing.T) {
	for name, test := range map[string]struct {
		served    []string
		preferred string
		want      string
	}{
		"stored":                           {[]string{"v1", "v1alpha1"}, "v1", "v1alpha1"},
		"preferred":                        {[]string{"v1", "v2"}, "v1", "v1"},
		"newest":                           {[]string{"v1beta1", "v1", "v1beta2"}, "v3", "v1"},
		"preferred is one of another kind": {[]string{"v1"}, "v2", "v1"},
	} {
		gr := schema.GroupResource{Group: "example.com", Resource: "shops"}
		versions := map[string]metav1.APIResource{}
		for _, v := range test.served {
			versions[v] = metav1.APIResource{Name: "shops", Kind: "Shop"}
		}
		r := &reader{kinds: map[schema.GroupKind]kind{}, unread: map[schema.GroupKind]bool{}}
		r.choose(gr, versions, test.preferred, map[schema.GroupResource]string{gr: "v1alpha1"}, &resource.Set{})
		if len(r.order) != 1 || r.order[0].gvr.Version != test.want || r.order[0].kind != "Shop" {
			t.Errorf("%s: %+v, want %s of Shops", name, r.order, test.want)
		}
	}
}
