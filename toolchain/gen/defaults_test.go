package gen_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain/gen/defaults"
	"kelson.dev/toolchain/internal/modtest"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

const unnamedTypesDefaults = `// +groupName=a.b
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
	for key, entry := range in.Map {
		if entry.N == 0 {
			entry.N = 2
		}
		for key2, entry2 := range entry.Maps {
			for key3, entry3 := range entry2 {
				setDefaults_Leaf(&entry3)
				entry2[key3] = entry3
			}
			entry.Maps[key2] = entry2
		}
		in.Map[key] = entry
	}
	if in.Leaves != nil {
		for i := range *in.Leaves {
			setDefaults_Leaf(&(*in.Leaves)[i])
		}
	}
}
`

// The defaults inside unnamed structs are set, also in nested lists and maps.
func TestDefaultsUnnamedStructs(t *testing.T) {
	_, ws := modtest.Open(t, map[string]string{
		"go.mod":                                 "module example.com/m\n\ngo 1.26.0\n\nrequire k8s.io/apimachinery v0.0.0\n\nreplace k8s.io/apimachinery => ./apimachinery\n",
		"v1/types.go":                            unnamedTypesDefaults,
		"apimachinery/go.mod":                    "module k8s.io/apimachinery\n\ngo 1.26.0\n",
		"apimachinery/pkg/apis/meta/v1/types.go": "package v1\n\ntype TypeMeta struct{}\n\ntype ObjectMeta struct{}\n",
	})
	api, err := model.Build(ws, marker.Standard())
	require.NoError(t, err)
	src, err := defaults.Generate(defaults.Config{API: api, Package: api.Packages[0]})
	require.NoError(t, err)
	assert.Containsf(t, string(src), strings.ReplaceAll(unnamedDefaults, "§", "`"), "the functions")
}

const containerTypes = `// +groupName=a.b
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

type Pizza struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Pointers       map[string]*Leaf
	MapsOfPointers map[string]map[string]*Leaf
	Maps           map[string]map[string]Leaf
	Slices         map[string][]*Leaf
	Arrays         map[string][2]Leaf
	PointersToMaps []*map[string]*Leaf
	ToSlices       map[string]*[]Leaf
	Named          Leaves
	NamedPointer   *Leaves
	OfNamed        map[Key]Leaves
	Unnamed        map[string]*struct {
		// +default=1
		N *int
	}
	UnnamedMap map[string]struct{ L *Leaf }
}

type Key string

type Leaves map[Key]*Leaf

type Leaf struct {
	// +default="leaf"
	S string
}
`

const containerTest = `package v1

import "testing"

func Test(t *testing.T) {
	one := func() map[string]*Leaf { return map[string]*Leaf{"a": {}, "nil": nil} }
	m, s := one(), []Leaf{{}}
	named := Leaves{"a": {}}
	p := &Pizza{
		Pointers: one(), MapsOfPointers: map[string]map[string]*Leaf{"a": one()}, Maps: map[string]map[string]Leaf{"a": {"a": {}}},
		Slices: map[string][]*Leaf{"a": {{}, nil}}, Arrays: map[string][2]Leaf{"a": {}}, PointersToMaps: []*map[string]*Leaf{&m, nil},
		ToSlices: map[string]*[]Leaf{"a": &s}, Named: Leaves{"a": {}}, NamedPointer: &named, OfNamed: map[Key]Leaves{"a": {"a": {}}},
		Unnamed: map[string]*struct{ N *int }{"a": {}}, UnnamedMap: map[string]struct{ L *Leaf }{"a": {L: &Leaf{}}},
	}
	SetObjectDefaults_Pizza(p)
	for i, got := range []string{
		p.Pointers["a"].S, p.MapsOfPointers["a"]["a"].S, p.Maps["a"]["a"].S, p.Slices["a"][0].S, p.Arrays["a"][1].S, (*p.PointersToMaps[0])["a"].S,
		(*p.ToSlices["a"])[0].S, p.Named["a"].S, named["a"].S, p.OfNamed["a"]["a"].S, p.UnnamedMap["a"].L.S,
	} {
		if got != "leaf" {
			t.Errorf("the default number %d is %q", i, got)
		}
	}
	if *p.Unnamed["a"].N != 1 {
		t.Error(p.Unnamed["a"])
	}
}
`

// Defaults inside maps, slices and pointers in any combination compile and are set.
func TestContainers(t *testing.T) {
	dir, ws := modtest.Open(t, map[string]string{
		"go.mod":                                 "module example.com/m\n\ngo 1.26.0\n\nrequire k8s.io/apimachinery v0.0.0\n\nreplace k8s.io/apimachinery => ./apimachinery\n",
		"v1/types.go":                            containerTypes,
		"v1/types_test.go":                       containerTest,
		"apimachinery/go.mod":                    "module k8s.io/apimachinery\n\ngo 1.26.0\n",
		"apimachinery/pkg/apis/meta/v1/types.go": "package v1\n\ntype TypeMeta struct{}\n\ntype ObjectMeta struct{}\n",
		"apimachinery/pkg/runtime/runtime.go":    "package runtime\n\ntype Scheme struct{}\n\nfunc (*Scheme) AddTypeDefaultingFunc(any, func(any)) {}\n",
	})
	api, err := model.Build(ws, marker.Standard())
	require.NoError(t, err)
	src, err := defaults.Generate(defaults.Config{API: api, Package: api.Packages[0]})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "v1", "zz_generated.defaults.go"), src, 0o644))
	cmd := exec.Command("go", "test", "-vet=off", "./v1")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	assert.NoErrorf(t, err, "\n%s\n%s", out, src)
}
