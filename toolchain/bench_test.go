package toolchain_test

import (
	"testing"

	"golang.org/x/tools/txtar"

	"kelson.dev/internal/require"
	"kelson.dev/toolchain"
	"kelson.dev/toolchain/loader"
)

// Cold is the first run of a process; warm is a later run with a shared Cache, as in watch mode.
func BenchmarkGenerate(b *testing.B) {
	for _, project := range []string{"resource", "types"} {
		ar, err := txtar.ParseFile("testdata/" + project + ".txtar")
		require.NoError(b, err)
		dir, _ := writeProject(b, ar)
		b.Run(project+"/cold", func(b *testing.B) {
			for b.Loop() {
				_, err := toolchain.Generate(b.Context(), toolchain.Options{Dir: dir})
				require.NoError(b, err)
			}
		})
		b.Run(project+"/warm", func(b *testing.B) {
			cache := &loader.Cache{}
			for b.Loop() {
				_, err := toolchain.Generate(b.Context(), toolchain.Options{Dir: dir, Cache: cache})
				require.NoError(b, err)
			}
		})
	}
}
