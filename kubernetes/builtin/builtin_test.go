package builtin

import (
	"testing"

	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/require"
)

// resources returns the Resources of a Config, and a function that finds one of them.
func resources(t testing.TB, cfg Config) func(group, plural string) *resource.Resource {
	t.Helper()
	list, err := Resources(cfg)
	require.NoError(t, err)
	registry := resource.NewRegistry(list...).Current()
	return func(group, plural string) *resource.Resource {
		t.Helper()
		for _, r := range registry.All() {
			if r.Group == group && r.Plural == plural {
				return r
			}
		}
		t.Fatalf("no resource %s in group %q", plural, group)
		return nil
	}
}

func BenchmarkResources(b *testing.B) {
	for b.Loop() {
		_, err := Resources(Config{})
		require.NoError(b, err)
	}
}
