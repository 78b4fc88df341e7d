package upstream_test

import (
	"slices"
	"testing"

	"k8s.io/kubernetes/pkg/kubeapiserver/options"

	"kelson.dev/internal/assert"
	"kelson.dev/kubernetes/plugins"
)

// The table of admission plugins has Kubernetes' plugins in their order, and the same ones are on
// by default.
func TestAdmissionPlugins(t *testing.T) {
	var names []string
	off := options.DefaultOffAdmissionPlugins()
	for _, row := range plugins.Table() {
		names = append(names, row.Name)
		if row.On == off.Has(row.Name) {
			t.Errorf("%s: on by default: %v; in Kubernetes: %v", row.Name, row.On, !off.Has(row.Name))
		}
		if row.New == nil {
			t.Errorf("%s is not implemented", row.Name)
		}
	}
	for _, name := range options.AllOrderedPlugins {
		if !slices.Contains(names, name) {
			t.Errorf("%s of Kubernetes is not in plugins.Table", name)
		}
	}
	assert.Slicef(t, names, options.AllOrderedPlugins, "plugins in order")
}
