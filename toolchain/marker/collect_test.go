package marker_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
)

// load reads one file as a package.
func load(t *testing.T, src string) *loader.Package {
	t.Helper()
	t.Setenv("GOWORK", "off")
	dir := t.TempDir()
	require.Files(t, dir, map[string]string{"go.mod": "module example.com/m\n\ngo 1.26\n", "m.go": src})
	ws, err := loader.Open(t.Context(), loader.Config{Dir: dir})
	require.NoError(t, err)
	return ws.Packages()[0]
}

func names(ms marker.Markers) string {
	var ns []string
	for _, m := range ms {
		ns = append(ns, m.Name)
	}
	return strings.Join(ns, " ")
}

// Markers belong to the right declarations.
func TestPlaces(t *testing.T) {
	pkg := load(t, `// Package m.
// +groupName=a
package m

// +kubebuilder:rbac:groups=a,verbs=b

// +kubebuilder:resource:path=x
// +versionName=v2

// A has its markers above and in its comment.
// +kubebuilder:object:root=true
type A struct {
	// far

	// +optional

	// B is documented.
	// +nullable
	B int

	C struct {
		// +required
		D int
	}
}

type (
	// +kubebuilder:storageversion

	// E is one of a group.
	// +kubebuilder:skipversion
	E struct{}

	// F
	// +kubebuilder:unservedversion
	F struct{}
)

// G has a function inside.
// +k8s:enum
type G func(a int /* optional */)

// H is a function.
func H() {
	// +kubebuilder:scaffold:inside
	_ = struct {
		X int
	}{}
}

// +kubebuilder:validation:Optional
`)
	set, err := marker.Collect(pkg, marker.Standard(), true)
	require.NoError(t, err)
	check := func(what string, got marker.Markers, want string) {
		t.Helper()
		assert.Equalf(t, names(got), want, "%s", what)
	}
	check("the package", set.Package, "groupName kubebuilder:rbac versionName kubebuilder:validation:Optional")
	check("A", set.Type(pkg.Type("A")), "kubebuilder:resource kubebuilder:object:root")
	check("E", set.Type(pkg.Type("E")), "kubebuilder:storageversion kubebuilder:skipversion")
	check("F", set.Type(pkg.Type("F")), "kubebuilder:unservedversion")
	check("G", set.Type(pkg.Type("G")), "k8s:enum")
	fields := pkg.Type("A").Type().Underlying().(*loader.Struct).Fields
	check("B", set.Field(fields[0]), "optional nullable")
	check("D", set.Field(fields[1].Type().(*loader.Struct).Fields[0]), "required")
}

// Markers that belong to no declaration are reported with their positions.
func TestMisplaced(t *testing.T) {
	pkg := load(t, `package m

// V is a variable.
// +optional
var V int

const (
	// +listType=set
	C = 1 // +nullable
)

type T struct {
	// +optional
	A int // +nullable

	// +required
}

// +k8s:immutable
func F() {}

// + prose, and +1 more
// +whatever it is
var W int
`)
	reg := marker.Standard()
	_, err := marker.Collect(pkg, reg, true)
	if err == nil {
		t.Fatal("no error")
	}
	var places []string
	for _, line := range strings.Split(err.Error(), "\n") {
		_, rest, _ := strings.Cut(line, "m.go:")
		place, _, _ := strings.Cut(rest, " m")
		places = append(places, strings.TrimSuffix(place, ":"))
	}
	slices.Sort(places)
	if want := []string{"14:11", "16:5", "19:4", "4:4", "8:5", "9:11"}; !slices.Equal(places, want) {
		t.Errorf("errors at %v, want %v:\n%v", places, want, err)
	}
	_, err = marker.Collect(pkg, reg, false)
	assert.NoErrorf(t, err, "in a package that is only imported")
}

// Every place where a comment can stand: the marker belongs to a declaration, or is reported at its
// line.
func TestEveryPlace(t *testing.T) {
	lines := func(err error) (all []string) {
		if err != nil {
			for _, line := range strings.Split(err.Error(), "\n") {
				_, rest, _ := strings.Cut(line, "m.go:")
				at, _, _ := strings.Cut(rest, ":")
				all = append(all, at)
			}
		}
		return all
	}
	for what, src := range map[string]string{
		"before a package without a comment": "// +kubebuilder:object:generate=true HERE\n\npackage m\n\ntype A struct{}\n",
		"above an import":                    "package m\n\n// +optional REPORTED\nimport _ \"fmt\"\n",
		"beside an import":                   "package m\n\nimport _ \"fmt\" // +optional REPORTED\n",
		"above a method":                     "package m\n\ntype A struct{}\n\n// +kubebuilder:rbac:groups=a,resources=b,verbs=get REPORTED\nfunc (A) F() {}\n",
		"in a function":                      "package m\n\nfunc F() {\n\t// +kubebuilder:rbac:groups=a,resources=b,verbs=get REPORTED\n}\n",
		"in a local type":                    "package m\n\nfunc F() {\n\ttype a struct {\n\t\t// +optional REPORTED\n\t\tB int\n\t}\n}\n",
		"in an interface":                    "package m\n\ntype A interface {\n\t// +optional REPORTED\n\tB()\n}\n",
		"in a function type":                 "package m\n\ntype A func(\n\t// +optional REPORTED\n\tb int,\n)\n",
		"in a value":                         "package m\n\nvar A = map[string]int{\n\t// +optional REPORTED\n\t\"b\": 1,\n}\n",
		"between keyword and name":           "package m\n\ntype // +kubebuilder:object:root=true REPORTED\n\tA struct{}\n\ntype B struct{}\n",
		"in an expression":                   "package m\n\ntype A map[ // +kubebuilder:validation:MinLength=1 REPORTED\nstring]int\n\ntype B string\n",
		"in a grouped expression":            "package m\n\ntype (\n\tA map[ // +kubebuilder:validation:MinLength=1 REPORTED\n\tstring]int\n\n\tB string\n)\n",
		"in a field":                         "package m\n\ntype A struct {\n\tB map[ // +optional REPORTED\n\tstring]int\n\n\tC int\n}\n",
		"beside a field":                     "package m\n\ntype A struct {\n\tB int // +optional REPORTED\n}\n",
		"below the fields":                   "package m\n\ntype A struct {\n\tB int\n\n\t// +optional REPORTED\n}\n",
		"beside a type":                      "package m\n\ntype A struct {\n} // +kubebuilder:object:root=true REPORTED\n\ntype B int\n",
		"below all types":                    "package m\n\ntype A int\n\n// +kubebuilder:object:root=true REPORTED\n",
		"in a group of types":                "package m\n\ntype (\n\tA int\n\n\t// +kubebuilder:object:root=true REPORTED\n)\n",
		"above a constant":                   "package m\n\n// +optional REPORTED\nconst A = 1\n",
		"beside a constant":                  "package m\n\nconst (\n\tA = 1 // +optional REPORTED\n)\n",
		"in a block comment":                 "package m\n\n/*\nA is documented.\n+kubebuilder:object:root=true REPORTED\n*/\ntype A struct{}\n",
		"in a block comment of one line":     "package m\n\n/* +kubebuilder:object:root=true */ // REPORTED\ntype A struct{}\n",
		"in a block comment with stars":      "package m\n\n/*\n * +kubebuilder:object:root=true REPORTED\n */\ntype A struct{}\n",
		"after a space":                      "package m\n\n// + kubebuilder:object:root=true REPORTED\ntype A struct{}\n",
	} {
		t.Run(what, func(t *testing.T) {
			var want []string
			for i, line := range strings.Split(src, "\n") {
				if strings.Contains(line, "REPORTED") {
					want = append(want, strconv.Itoa(i+1))
				}
			}
			pkg := load(t, strings.NewReplacer(" REPORTED", "", " HERE", "").Replace(src))
			set, err := marker.Collect(pkg, marker.Standard(), true)
			if got := lines(err); !slices.Equal(got, want) {
				t.Errorf("errors at lines %v, want %v: %v", got, want, err)
			}
			if want == nil && len(set.Package) != 1 {
				t.Errorf("the package has %v", names(set.Package))
			}
		})
	}
}
