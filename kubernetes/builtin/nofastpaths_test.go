package builtin

import (
	"testing"

	"kelson.dev/apiserver/fastpath/managedfields"
	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/require"
)

// TestNoFastPaths checks that Config.NoFastPaths reaches every kind: no strategy, field manager,
// codec or function of stored fields is a fast path. Resources with fast paths in the same process
// keep theirs.
func TestNoFastPaths(t *testing.T) {
	for _, off := range []bool{true, false} {
		resources, err := Resources(Config{NoFastPaths: off})
		require.NoError(t, err)
		strategies, managers, codecs, fields := 0, 0, 0, 0
		for _, r := range resources {
			if _, ok := r.Strategy.(resource.Shortcut); ok {
				strategies++
			}
			if r.StoredFields != nil {
				fields++
			}
			if r.Review != nil || r.Computed != nil {
				continue
			}
			if _, ok := r.Codec.(resource.Fresh).Written(r.Codec.New(), nil, r.Versions[0].Name); ok {
				codecs++
			}
			manager, err := r.Codec.FieldManager(r.Versions[0].Name, "")
			require.NoError(t, err)
			if _, ok := Unwrapped(manager).(*managedfields.StructManager); ok {
				managers++
			}
		}
		if off && strategies+managers+codecs+fields > 0 || !off && min(strategies, managers, codecs, fields) == 0 {
			t.Errorf("NoFastPaths %t: fast paths in %d strategies, %d field managers, %d codecs and %d functions of "+
				"stored fields", off, strategies, managers, codecs, fields)
		}
	}
}
