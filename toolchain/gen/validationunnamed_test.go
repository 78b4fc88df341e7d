package gen_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/toolchain/gen/validation"
	"kelson.dev/toolchain/internal/modtest"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

// Rules inside unnamed structs, which have no functions, are errors.
func TestValidationUnnamedStructs(t *testing.T) {
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
	require.NoError(t, err)
	_, err = validation.Generate(validation.Config{API: api, Package: api.Packages[0],
		Generated: func(*loader.Package) bool { return true }})
	const hint = ": +k8s: rules in unnamed structs are not supported; give the struct a name, or +k8s:opaqueType ignores them"
	if want := "types.go:7:3: A" + hint + "\ntypes.go:11:3: Leaf" + hint; err == nil ||
		strings.ReplaceAll(err.Error(), dir+"/", "") != want {
		t.Errorf("the error is\n%v\nwant\n%s", err, want)
	}
}

// TestNextLibraries checks that functions of the library are called and never passed: later
// releases of it add variadic parameters, with which calls compile, but their type is another one.
func TestNextLibraries(t *testing.T) {
	_, ws := modtest.Open(t, map[string]string{"go.mod": "module example.com/m\n\ngo 1.26.0\n", "types.go": `// +groupName=a.b
package v1

type Spec struct {
	// +k8s:eachVal=+k8s:format=k8s-short-name
	Names []string ` + "`json:\"names\"`" + `
	// +k8s:eachKey=+k8s:format=k8s-uuid
	Marks map[string]string ` + "`json:\"marks\"`" + `
	// +k8s:subfield(name)=+k8s:required
	// +k8s:subfield(old)=+k8s:forbidden
	Leaf Leaf ` + "`json:\"leaf\"`" + `
	// +k8s:ifEnabled(A)=+k8s:required
	// +k8s:ifDisabled(A)=+k8s:immutable
	Size *int ` + "`json:\"size\"`" + `
	// +k8s:unionMember
	// +k8s:optional
	A *Leaf ` + "`json:\"a\"`" + `
	// +k8s:unionMember
	// +k8s:optional
	B *Leaf ` + "`json:\"b\"`" + `
}

type Leaf struct {
	Name string ` + "`json:\"name\"`" + `
	Old *string ` + "`json:\"old\"`" + `
}
`})
	api, err := model.Build(ws, marker.Standard())
	require.NoError(t, err)
	code, err := validation.Generate(validation.Config{API: api, Package: api.Packages[0],
		Generated: func(*loader.Package) bool { return true }})
	require.NoError(t, err)
	called := map[*ast.SelectorExpr]bool{}
	file, err := parser.ParseFile(token.NewFileSet(), "", code, parser.SkipObjectResolution)
	require.NoError(t, err)
	checks := 0
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			f := n.Fun
			if generic, ok := f.(*ast.IndexExpr); ok {
				f = generic.X
			}
			if sel, ok := f.(*ast.SelectorExpr); ok {
				called[sel] = true
			}
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); !ok || pkg.Name != "validate" {
				break
			}
			checks++
			// Functions that compare have a named type of the library, which stays.
			if !called[n] && !slices.Contains([]string{"DirectEqual", "SemanticDeepEqual"}, n.Sel.Name) {
				t.Errorf("validate.%s is not called, but passed", n.Sel.Name)
			}
		}
		return true
	})
	if checks < 15 {
		t.Errorf("%d uses of the library in\n%s", checks, code)
	}
}
