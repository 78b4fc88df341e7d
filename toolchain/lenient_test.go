package toolchain_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"kelson.dev/internal/require"
	"kelson.dev/toolchain"
)

// A marker of a dependency that does not fit its field has no effect; the project's own is an
// error, or a warning if lenient.
func TestMarkersOfDependencies(t *testing.T) {
	const types = `
-- go.mod --
module example.com/shapes

go 1.26.0

require (
	example.com/dep v1.0.0
	k8s.io/apimachinery v0.37.2
)

replace example.com/dep => ./dep
-- dep/go.mod --
module example.com/dep
-- dep/dep.go --
package dep

type Spec struct {
	// +k8s:unique=map
	// +k8s:listMapKey=name
	// +listMapKey=name
	// +kubebuilder:validation:MinLength=1
	Items []Item ` + "`json:\"items\"`" + `
	// +kubebuilder:validation:Minumum=1
	// +kubebuilder:validation:items:Maximum=1
	Name string ` + "`json:\"name\"`" + `
}

type Item struct {
	Name string ` + "`json:\"name\"`" + `
}
-- api/shape.go --
// +groupName=shapes.example.com
package api

import (
	"example.com/dep"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type Shape struct {
	metav1.TypeMeta   ` + "`json:\",inline\"`" + `
	metav1.ObjectMeta ` + "`json:\"metadata,omitempty\"`" + `
	Spec dep.Spec ` + "`json:\"spec\"`" + `
	OWN
	Own []string ` + "`json:\"own,omitempty\"`" + `
}
`
	write := func(own string) string {
		dir := t.TempDir()
		for _, f := range txtar.Parse([]byte(strings.ReplaceAll(types, "OWN", own))).Files {
			write(t, dir, f.Name, string(f.Data))
		}
		return dir
	}
	t.Setenv("GOWORK", "off")
	crd := []string{"crd"}
	dir := write("")
	_, err := toolchain.Generate(t.Context(), toolchain.Options{Dir: dir, Generators: crd})
	require.NoError(t, err)
	doc, err := os.ReadFile(filepath.Join(dir, "config/crd/shapes.example.com_shapes.yaml"))
	if err != nil || strings.Contains(string(doc), "minLength") || strings.Contains(string(doc), "list-map-keys") {
		t.Errorf("%v\n%s", err, doc)
	}
	dir = write("// +kubebuilder:validation:MinLength=1\n\t// +listType=bag")
	_, err = toolchain.Generate(t.Context(), toolchain.Options{Dir: dir, Generators: crd})
	if err == nil || !strings.Contains(err.Error(),
		"+kubebuilder:validation:MinLength needs a string, this is of type array") ||
		strings.Contains(err.Error(), "dep.go") {
		t.Errorf("the project's own marker: %v", err)
	}
	result, err := toolchain.Generate(t.Context(), toolchain.Options{Dir: dir, Generators: crd, Lenient: true})
	if err != nil || len(result.Warnings) != 2 ||
		!strings.Contains(errors.Join(result.Warnings...).Error(), "MinLength needs a string") {
		t.Errorf("lenient: %v, %v", result.Warnings, err)
	}
	doc, err = os.ReadFile(filepath.Join(dir, "config/crd/shapes.example.com_shapes.yaml"))
	if err != nil || strings.Contains(string(doc), "bag") {
		t.Errorf("a marker with a mistake has an effect: %v\n%s", err, doc)
	}
}

// A field that hides one of an inlined struct has its constraints too. Equal defaults are one
// default: the server rejects a default in allOf.
func TestDefaultOfHiddenField(t *testing.T) {
	t.Setenv("GOWORK", "off")
	dir := t.TempDir()
	write(t, dir, "go.mod", goMod)
	write(t, dir, "api/shape.go", `// +groupName=shapes.example.com
package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

type Shape struct {
	metav1.TypeMeta   `+"`json:\",inline\"`"+`
	metav1.ObjectMeta `+"`json:\"metadata,omitempty\"`"+`
	Base `+"`json:\",inline\"`"+`
	// +kubebuilder:default=small
	Size string `+"`json:\"size,omitempty\"`"+`
}

type Base struct {
	// +kubebuilder:default=small
	Size string `+"`json:\"size,omitempty\"`"+`
}
`)
	_, err := toolchain.Generate(t.Context(), toolchain.Options{Dir: dir, Generators: []string{"crd"}, Lenient: true})
	require.NoError(t, err)
	doc, err := os.ReadFile(filepath.Join(dir, "config/crd/shapes.example.com_shapes.yaml"))
	if err != nil || strings.Contains(string(doc), "allOf") || !strings.Contains(string(doc), "default: small") {
		t.Errorf("%v\n%s", err, doc)
	}
}

// KeepEqual leaves files that other versions of controller-gen wrote, and no others.
func TestKeepEqual(t *testing.T) {
	t.Setenv("GOWORK", "off")
	const api = `// +groupName=shapes.example.com
// +kubebuilder:object:generate=true
package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/shapes/other"
)

type Meta = metav1.Condition

type Names map[string]string

// Shape is
// a shape.
// +kubebuilder:object:root=true
// +kubebuilder:validation:ExactlyOneOf=a;b
type Shape struct {
	metav1.TypeMeta   ` + "`json:\",inline\"`" + `
	metav1.ObjectMeta ` + "`json:\"metadata,omitempty\"`" + `
	A []Meta ` + "`json:\"a,omitempty\"`" + `
	B string ` + "`json:\"b,omitempty\"`" + `
	// +kubebuilder:validation:Enum=x;y
	E string ` + "`json:\"e,omitempty\"`" + `
	D map[string][]string ` + "`json:\"d,omitempty\"`" + `
	C *other.Text ` + "`json:\"c,omitempty\"`" + `
}
`
	dir := t.TempDir()
	write(t, dir, "go.mod", goMod)
	write(t, dir, "other/text.go", "package other\n\ntype Text = Word\n\ntype Word string\n")
	write(t, dir, "api/shape.go", api)
	opts := toolchain.Options{Dir: dir, KeepEqual: true}
	_, err := toolchain.Generate(t.Context(), opts)
	require.NoError(t, err)
	const definition, code = "config/crd/shapes.example.com_shapes.yaml", "api/zz_generated.deepcopy.go"
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(data)
	}
	first, firstCode := read(definition), read(code)
	for _, tc := range []struct {
		name, file, old, new string
		kept                 bool
	}{
		{"an annotation", definition, "metadata:\n  name",
			"metadata:\n  annotations:\n    controller-gen.kubebuilder.io/version: v0.11.1\n  creationTimestamp: null\n  name", true},
		{"line breaks", definition, "Shape is\n          a shape.", "Shape is a shape.", true},
		{"a former rule", definition, "(has(self.a)?1:0)+(has(self.b)?1:0) == 1",
			"'[has(self.a),has(self.b)].filter(x,x==true).size() == 1'", true},
		{"a TODO in one line", definition, "Shape is\n          a shape.", "Shape is a shape. TODO: more", true},
		{"a TODO in several", definition, "description: |-\n          Shape is\n",
			"description: |-\n          Shape is\n          TODO: more\n", true},
		{"equal enums", definition, "            enum:\n            - x\n            - \"y\"\n",
			"            allOf: [{enum: [x, \"y\"]}, {enum: [x, \"y\"]}]\n", true},
		{"other enums", definition, "            enum:\n            - x\n            - \"y\"\n",
			"            allOf: [{enum: [x, \"y\"]}, {enum: [x]}]\n", false},
		{"another rule", definition, "(has(self.a)?1:0)+(has(self.b)?1:0) == 1", "(has(self.a)?1:0) == 1", false},
		{"another description", definition, "a shape.", "a form.", false},
		{"another type", definition, "type: string", "type: integer", false},
		{"a missing property", definition, "b:\n", "c:\n", false},
		{"an alias", code, "[]v1.Condition", "[]Meta", true},
		{"an alias of another package", code, "new(other.Word)", "new(other.Text)", true},
		{"another type of another package", code, "new(other.Word)", "new(other.Number)", false},
		{"deepcopy-gen's return", code, "}\n\n// DeepCopy is", "\treturn\n}\n\n// DeepCopy is", true},
		{"deepcopy-gen's return in a block", code,
			"\t}\n}\n\n// DeepCopy is an autogenerated deepcopy function, copying the receiver, creating a new Names",
			"\t\treturn\n\t}\n}\n\n// DeepCopy is an autogenerated deepcopy function, copying the receiver, creating a new Names", true},
		{"a return elsewhere", code, "\tin.ObjectMeta.DeepCopyInto", "\treturn\n\tin.ObjectMeta.DeepCopyInto", false},
		{"deepcopy-gen's variables", code, "inVal := (*in)[key]\n\t\t\t\tin, out := &inVal, &outVal",
			"in, out := &val, &outVal", true},
		{"another function", code, "func (in *Shape) DeepCopy()", "func (in *Shape) Copy()", false},
	} {
		base := map[string]string{definition: first, code: firstCode}[tc.file]
		changed := strings.ReplaceAll(base, tc.old, tc.new)
		if changed == base {
			t.Errorf("%s: %q is not in\n%s", tc.name, tc.old, base)
			continue
		}
		write(t, dir, tc.file, changed)
		result, err := toolchain.Generate(t.Context(), opts)
		if err != nil || (len(result.Changed()) == 0) != tc.kept || (read(tc.file) == changed) != tc.kept {
			t.Errorf("%s: changed %s, %v", tc.name, result.Changed(), err)
		}
		write(t, dir, tc.file, base)
	}
	// the annotation stays in a file that changes
	write(t, dir, definition, strings.Replace(strings.Replace(first, "metadata:\n  name",
		"metadata:\n  annotations:\n    controller-gen.kubebuilder.io/version: v0.20.0\n  name", 1), "a shape.",
		"a form.", 1))
	if _, err := toolchain.Generate(t.Context(), opts); err != nil ||
		!strings.Contains(read(definition), "version: v0.20.0") || strings.Contains(read(definition), "a form.") {
		t.Errorf("%v\n%s", err, read(definition))
	}
}
