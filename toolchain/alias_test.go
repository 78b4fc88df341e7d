package toolchain_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain"
)

// aliased returns a project whose kind has fields in its own package, with aliases in another one.
func aliased(t *testing.T, fields string) string {
	t.Helper()
	t.Setenv("GOWORK", "off")
	dir := t.TempDir()
	write(t, dir, "go.mod", goMod)
	write(t, dir, "shared/shared.go", `package shared

import corev1 "k8s.io/api/core/v1"

// Name is a name.
// +kubebuilder:validation:Pattern=`+"`^[a-z]+$`"+`
type Name string

// Short is a short name.
// +kubebuilder:validation:MaxLength=5
type Short = Name

// Shorter is shorter.
// +kubebuilder:validation:MinLength=2
type Shorter = Name

// Reference has a name.
// +structType=atomic
type Reference = corev1.LocalObjectReference
`)
	write(t, dir, "api/shape.go", `// +groupName=shapes.example.com
package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/shapes/shared"
)

// Local is an alias here.
// +kubebuilder:validation:MaxLength=7
type Local = shared.Name

type Embedded struct {
	Count int `+"`json:\"count\"`"+`
}

// +kubebuilder:object:root=true
type Shape struct {
	metav1.TypeMeta   `+"`json:\",inline\"`"+`
	metav1.ObjectMeta `+"`json:\"metadata,omitempty\"`"+`

`+fields+`
}

var _ shared.Name
`)
	return dir
}

const shapesFile = "config/crd/shapes.example.com_shapes.yaml"

// Other packages use an alias of a named type with the alias's markers and description.
func TestAliasOfNamedType(t *testing.T) {
	dir := aliased(t, "\tShort *shared.Short `json:\"short\"`\n\tShorter []shared.Shorter `json:\"shorter\"`\n\tRef shared.Reference `json:\"ref\"`")
	_, err := toolchain.Generate(t.Context(), toolchain.Options{Dir: dir, Generators: []string{"crd"}})
	require.NoError(t, err)
	doc, err := os.ReadFile(filepath.Join(dir, shapesFile))
	require.NoError(t, err)
	for _, want := range []string{
		"            description: Short is a short name.\n            maxLength: 5\n            pattern: ^[a-z]+$\n            type: string\n",
		"              description: Shorter is shorter.\n              minLength: 2\n              pattern: ^[a-z]+$\n              type: string\n",
		"            description: Reference has a name.\n",
		"            x-kubernetes-map-type: atomic\n",
	} {
		if !strings.Contains(string(doc), want) {
			t.Errorf("no\n%sin\n%s", want, doc)
		}
	}
}

// controller-gen ignores the markers of an alias in its own package. They are reported.
func TestAliasInItsPackage(t *testing.T) {
	dir := aliased(t, "\tLocal Local `json:\"local\"`")
	opts := toolchain.Options{Dir: dir, Generators: []string{"crd"}}
	const want = "shape.go:11:4: +kubebuilder:validation:MaxLength has no effect in the package of the alias Local"
	_, err := toolchain.Generate(t.Context(), opts)
	assert.ErrorContains(t, err, want)
	opts.Lenient = true
	res, err := toolchain.Generate(t.Context(), opts)
	if err != nil || len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0].Error(), want) {
		t.Errorf("lenient: %v, warnings %v", err, res.Warnings)
	}
}

// Messages name the field, its line, and what to change.
func TestMessagesNameTheField(t *testing.T) {
	for fields, want := range map[string]string{
		"\t// +kubebuilder:validation:Type=string\n\tE Embedded `json:\"e\"`":                                             "shape.go:24:2: Shape.E has type object and type string: ",
		"\tEmbedded `json:\",inline\"`\n\tCount string `json:\"count\"`":                                                  "shape.go:24:2: Shape.Count has type string and type integer: ",
		"\tM map[string][]struct {\n\t\tEmbedded `json:\",inline\"`\n\t\tCount string `json:\"count\"`\n\t} `json:\"m\"`": "shape.go:25:3: .Count has type string and type integer: ",
		"\t// +kubebuilder:validation:items:MinLength=1\n\tN Names `json:\"n\"`\n}\n\ntype Names []string\n\ntype X struct {": "" +
			"shape.go:23:5: +kubebuilder:validation:items:MinLength has no effect here, because the type example.com/shapes/api.Names declares the elements",
	} {
		dir := aliased(t, fields)
		_, err := toolchain.Generate(t.Context(), toolchain.Options{Dir: dir, Generators: []string{"crd"}})
		assert.ErrorContainsf(t, err, want, "%s\nerror", fields)
	}
}

// A kind whose clients would have the name of another file is to be renamed; another plural does
// not help.
func TestKindNamedLikeAFile(t *testing.T) {
	dir := aliased(t, "")
	write(t, dir, "api/interface.go", `package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +genclient
type Interface struct {
	metav1.TypeMeta   `+"`json:\",inline\"`"+`
	metav1.ObjectMeta `+"`json:\"metadata,omitempty\"`"+`
}

type InterfaceList struct {
	metav1.TypeMeta `+"`json:\",inline\"`"+`
	metav1.ListMeta `+"`json:\"metadata,omitempty\"`"+`
	Items []Interface `+"`json:\"items\"`"+`
}
`)
	_, err := toolchain.Generate(t.Context(), toolchain.Options{Dir: dir, Generators: []string{"informer"}})
	assert.ErrorContains(t, err, "interface.go would be generated twice; rename a kind")
}
