package gen_test

import (
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/internal/modtest"
	"kelson.dev/toolchain/loader"
)

const unnamedTypesSource = `// +groupName=example.com
package v1

import t "time"

type Named struct{}

type Alias = Named

type unexported struct{}

type Generic[T any] struct {
	Inside struct{ Value T }
}

type Types struct {
	Tags     []struct{ A, B string "json:\"a\"" }
	Raw      struct{ A string ` + "`json:\"a,omitempty\" yaml:\"x\"`" + ` }
	Packages map[string]*struct{ At *t.Time; Of []Named }
	Nested   struct{ In struct{ At t.Time ` + "`json:\"at\"`" + ` } }
	Embedded struct{ Named; *t.Location ` + "`json:\",inline\"`" + ` }
	Args     Generic[t.Time]
	Any      struct{ A any; B interface{}; C interface{ M(a int) (b error) } }

	Hidden    struct{ U unexported }
	Renamed   struct{ Alias }
	Interface struct{ I interface{ M() t.Time } }
	Function  struct{ F func() }
}
`

// Unnamed structs keep their tags, and name packages as the file that they are written in.
func TestSourceUnnamedStructs(t *testing.T) {
	dir, ws := modtest.Open(t, map[string]string{"go.mod": "module example.com/m\n\ngo 1.26.0\n",
		"types.go": unnamedTypesSource})
	want := map[string]string{
		"Tags":     `[]struct{A string "json:\"a\""; B string "json:\"a\""}`,
		"Raw":      "struct{A string `json:\"a,omitempty\" yaml:\"x\"`}",
		"Packages": "map[string]*struct{At *time.Time; Of []m.Named}",
		"Nested":   "struct{In struct{At time.Time `json:\"at\"`}}",
		"Embedded": "struct{m.Named; *time.Location `json:\",inline\"`}",
		"Args":     "m.Generic[time.Time]",
		"Any":      "struct{A any; B interface{}; C interface{M(a int) (b error)}}",

		"Hidden":    "types.go:10:6: unexported is used in generated code of package example.com/m/out, so its name must be exported",
		"Renamed":   "types.go:26:20: Alias: an unnamed struct that embeds the alias Alias cannot be written in generated code; give the struct a name",
		"Interface": "types.go:27:20: I: an unnamed interface with the type t.Time cannot be written in generated code; give the interface a name",
		"Function":  "types.go:28:20: F: a function cannot be written in generated code",
	}
	pkg := ws.Packages()[0]
	st := pkg.Type("Types").Type().Underlying().(*loader.Struct)
	require.Equalf(t, len(st.Fields), len(want), "fields")
	spell := func(typ loader.Type) string {
		got, err := source.New("example.com/m/out", "out").Spell(typ)
		if err != nil {
			return strings.TrimPrefix(err.Error(), dir+"/")
		}
		return got
	}
	for _, f := range st.Fields {
		assert.Equalf(t, spell(f.Type()), want[f.Name], "%s", f.Name)
		if n, ok := f.Type().(*loader.Named); ok && f.Name == "Args" {
			got := spell(n.Underlying().(*loader.Struct).Fields[0].Type())
			assert.Equalf(t, got, "struct{Value time.Time}", "the struct inside a generic type")
		}
	}
}
