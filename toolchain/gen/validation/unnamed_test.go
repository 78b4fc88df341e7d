package validation_test

import (
	"strings"
	"testing"

	"kelson.dev/toolchain/gen/validation"
	"kelson.dev/toolchain/internal/modtest"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

// GEN-04: rules inside unnamed structs, which have no functions, are errors.
func TestUnnamedStructs(t *testing.T) {
	dir, ws := modtest.Open(t, map[string]string{"go.mod": "module example.com/m\n\ngo 1.26.0\n", "types.go": `// +groupName=a.b
package v1

type Spec struct {
	One struct {
		// +k8s:minimum=1
		A int
		B int
	}
	List []map[string]*struct {
		Leaf Leaf
	}
	// +k8s:opaqueType
	Opaque struct {
		// +k8s:minimum=1
		A int
	}
	Free struct{ A int }
}

type Leaf struct {
	// +k8s:minimum=1
	A int
}
`})
	api, err := model.Build(ws, marker.Standard())
	if err != nil {
		t.Fatal(err)
	}
	_, err = validation.Generate(validation.Config{API: api, Package: api.Packages[0], Generated: func(*loader.Package) bool { return true }})
	const hint = ": +k8s: rules in unnamed structs are not supported; give the struct a name, or +k8s:opaqueType ignores them"
	if want := "types.go:7:3: A" + hint + "\ntypes.go:11:3: Leaf" + hint; err == nil || strings.ReplaceAll(err.Error(), dir+"/", "") != want {
		t.Errorf("the error is\n%v\nwant\n%s", err, want)
	}
}
