package defaults_test

import (
	"strings"
	"testing"

	"kelson.dev/toolchain/gen/defaults"
	"kelson.dev/toolchain/internal/modtest"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

const unnamedTypes = `// +groupName=a.b
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

type Pizza struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	One struct {
		// +default="x"
		A string
		None struct{ B string }
	}
	Pointer *struct {
		// +default=true
		B *bool
		// +default={"a":1}
		M map[string]int
	}
	List []struct {
		Leaves [][]*Leaf
	}
	Map map[string]struct {
		// +default=2
		N int
		Maps map[string]map[string]Leaf
	}
	Leaves *[]Leaf
}

type Leaf struct {
	// +default="leaf"
	S string
}
`

const unnamedDefaults = `func SetObjectDefaults_Pizza(in *Pizza) {
	if in.One.A == "" {
		in.One.A = "x"
	}
	if in.Pointer != nil {
		if (*in.Pointer).B == nil {
			var value bool = true
			(*in.Pointer).B = &value
		}
		if (*in.Pointer).M == nil {
			if err := json.Unmarshal([]byte(§{"a":1}§), &(*in.Pointer).M); err != nil {
				panic(err)
			}
		}
	}
	for i := range in.List {
		for i2 := range in.List[i].Leaves {
			for i3 := range in.List[i].Leaves[i2] {
				if in.List[i].Leaves[i2][i3] != nil {
					setDefaults_Leaf(in.List[i].Leaves[i2][i3])
				}
			}
		}
	}
	for key, value := range in.Map {
		if value.N == 0 {
			value.N = 2
		}
		for key2, value2 := range value.Maps {
			for key3, value3 := range value2 {
				setDefaults_Leaf(&value3)
				value2[key3] = value3
			}
			value.Maps[key2] = value2
		}
		in.Map[key] = value
	}
	if in.Leaves != nil {
		for i := range *in.Leaves {
			setDefaults_Leaf(&(*in.Leaves)[i])
		}
	}
}
`

// GEN-04: the defaults inside unnamed structs are set, also in nested lists and maps.
func TestUnnamedStructs(t *testing.T) {
	_, ws := modtest.Open(t, map[string]string{
		"go.mod":                                 "module example.com/m\n\ngo 1.26.0\n\nrequire k8s.io/apimachinery v0.0.0\n\nreplace k8s.io/apimachinery => ./apimachinery\n",
		"v1/types.go":                            unnamedTypes,
		"apimachinery/go.mod":                    "module k8s.io/apimachinery\n",
		"apimachinery/pkg/apis/meta/v1/types.go": "package v1\n\ntype TypeMeta struct{}\n\ntype ObjectMeta struct{}\n",
	})
	api, err := model.Build(ws, marker.Standard())
	if err != nil {
		t.Fatal(err)
	}
	src, err := defaults.Generate(defaults.Config{API: api, Package: api.Packages[0]})
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.ReplaceAll(unnamedDefaults, "§", "`"); !strings.Contains(string(src), want) {
		t.Errorf("the functions are\n%s\nwant\n%s", src, want)
	}
}
