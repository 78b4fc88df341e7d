package discovery

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
)

// built-in subresources are sorted; those of custom kinds are not.
func TestSortResources(t *testing.T) {
	for custom, want := range map[bool][]string{
		false: {"ants", "ants/scale", "ants/status", "bees"},
		true:  {"ants", "ants/status", "ants/scale", "bees"},
	} {
		list := []metav1.APIResource{{Name: "bees"}, {Name: "ants"}, {Name: "ants/status"}, {Name: "ants/scale"}}
		sortResources(list, custom)
		var got []string
		for _, r := range list {
			got = append(got, r.Name)
		}
		assert.Slicef(t, got, want, "custom %v", custom)
	}
}
