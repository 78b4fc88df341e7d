package toolchain_test

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"kelson.dev/internal/require"
	"kelson.dev/toolchain"
	"kelson.dev/toolchain/loader"
)

// Any source file leads to generated files or errors, never to a panic, in every generator.
func FuzzGenerate(f *testing.F) {
	archives, err := filepath.Glob("testdata/*.txtar")
	require.NoError(f, err)
	for _, name := range archives {
		ar, err := txtar.ParseFile(name)
		require.NoError(f, err)
		for _, file := range ar.Files {
			if strings.HasSuffix(file.Name, ".go") && !strings.HasPrefix(file.Name, "want/") {
				f.Add(string(file.Data))
			}
		}
	}
	for _, src := range []string{
		"// +groupName=a\n// +k8s:conversion-gen=example.com/shapes/api/v1\npackage v1\ntype T struct{}",
		"package v1\ntype T = T\ntype U U\ntype G[P any] struct { g G[G[P]] `json:\"g\"` }\ntype A [len(x)]G[int]",
		"// +groupName=a\npackage v1\n// +genclient\n// +default={\ntype T struct { *T `json:\",inline\"`; X func() `json:\"x\"`\n// +default=ref(X)\nY map[T]chan int `json:\"y\"` }",
		"// +groupName=a\npackage v1\nfunc SetDefaults_T() {}\n// +genclient:method=a,verb=\n// +genclient\ntype T struct { metav1.TypeMeta }\nfunc (T[int]) DeepCopy() {}",
		"package v1\ntype (\n// +kubebuilder:object:root=true\nT struct { struct{} }\n)\nconst ( A T = 1; B = \"x\" )",
	} {
		f.Add(src)
	}
	var all []string
	for _, g := range toolchain.Generators() {
		all = append(all, g.Name)
	}
	cache := &loader.Cache{}
	f.Fuzz(func(t *testing.T, src string) {
		t.Setenv("PATH", "") // the go command must not search for packages that do not exist
		dir, _ := writeProject(t, &txtar.Archive{Files: []txtar.File{{Name: "api/v1/types.go", Data: []byte(src)}}})
		for _, lenient := range []bool{false, true} {
			_, _ = toolchain.Generate(t.Context(),
				toolchain.Options{Dir: dir, Generators: all, Check: true, Lenient: lenient, Cache: cache})
		}
	})
}
