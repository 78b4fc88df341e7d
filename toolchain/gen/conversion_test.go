package gen_test

import (
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain/gen/conversion"
	"kelson.dev/toolchain/internal/modtest"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

const kind = `

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

type Pizza struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec PizzaSpec
}
`

// generateConversion returns the generated file of a package, and the error without the directory.
func generateConversion(t *testing.T, path string, files map[string]string) (string, string) {
	t.Helper()
	files["go.mod"] = "module example.com/m\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/apimachinery v0.0.0\n\tkelson.dev/operator v0.0.0\n)\n\nreplace k8s.io/apimachinery => ./apimachinery\n"
	files["apimachinery/go.mod"] = "module k8s.io/apimachinery\n"
	files["apimachinery/pkg/apis/meta/v1/types.go"] = "package v1\n\ntype TypeMeta struct{}\n\ntype ObjectMeta struct{ Labels map[string]string }\n"
	dir, ws := modtest.Open(t, files)
	api, _ := model.Build(ws, marker.Standard()) // the kinds have no storage version
	for _, p := range api.Packages {
		if p.Path != path {
			continue
		}
		out, err := conversion.Generate(conversion.Config{API: api, Workspace: ws, Package: p})
		if err != nil {
			return "", strings.ReplaceAll(err.Error(), dir+"/", "")
		}
		return string(out.Source), ""
	}
	t.Fatalf("no package %s", path)
	return "", ""
}

// ConvertTo needs the Hub methods of the hub, which are generated if its package requests it.
func TestHubs(t *testing.T) {
	const (
		spoke = "// +groupName=a.b\n// +kelson:generate=conversion\n// +k8s:conversion-gen=example.com/m/v1\npackage v2" + kind + "\ntype PizzaSpec struct{}\n"
		hub   = "package v1" + kind + "\ntype PizzaSpec struct{}\n"
		asks  = "// +kelson:generate=conversion\n"
		group = "// +groupName=a.b\n"
	)
	for name, c := range map[string]struct{ hub, spoke, want string }{
		"both packages": {group + asks + hub, spoke, ""},
		"the spoke": {group + hub, spoke,
			"v2/t.go:3:4: +k8s:conversion-gen: the hub package example.com/m/v1 needs +kelson:generate=conversion too, for the Hub methods of Pizza"},
		"the spoke, with a method by hand": {group + hub + "\nfunc (*Pizza) Hub() {}\n", spoke, ""},
		"the command line":                 {group + hub, strings.Replace(spoke, asks, "", 1), ""},
		"a spoke of a spoke": {group + asks + "// +k8s:conversion-gen=example.com/m/v2\n" + hub, spoke,
			"v2/t.go:3:4: +k8s:conversion-gen: package example.com/m/v1 cannot be the hub of Pizza, because its own +k8s:conversion-gen=example.com/m/v2 makes it a spoke; name the hub example.com/m/v2"},
		"a custom API server": {group + "// +kelson:crd:generate=false\n" + hub,
			"// +kelson:crd:generate=false\n" + spoke, ""},
	} {
		t.Run(name, func(t *testing.T) {
			src, err := generateConversion(t, "example.com/m/v2", map[string]string{"v1/t.go": c.hub, "v2/t.go": c.spoke})
			if err != c.want {
				t.Errorf("error %q, want %q", err, c.want)
			}
			if err == "" && !strings.Contains(src, ") ConvertTo(hub ") {
				t.Errorf("no ConvertTo in\n%s", src)
			}
			if !strings.Contains(name, "both") {
				return
			}
			src, err = generateConversion(t, "example.com/m/v1", map[string]string{"v1/t.go": c.hub, "v2/t.go": c.spoke})
			if err != "" || !strings.Contains(src, "func (*Pizza) Hub() {}") {
				t.Errorf("no Hub: %s\n%s", err, src)
			}
		})
	}
}

// Errors name generic types by their packages' names.
func TestGenericTypesInErrors(t *testing.T) {
	const types = kind + `
type PizzaSpec struct {
	M map[string][]*Box[Leaf]
}

type Box[T any] struct{ Value T }

type Leaf struct{}
`
	_, err := generateConversion(t, "example.com/m/v2", map[string]string{
		"v1/t.go": "// +groupName=a.b\n// +kelson:generate=conversion\npackage v1" + types,
		"v2/t.go": "// +groupName=a.b\n// +kelson:generate=conversion\n// +k8s:conversion-gen=example.com/m/v1\npackage v2" + types,
	})
	const want = "v2.PizzaSpec.M: v2.Box[v2.Leaf] does not convert to v1.Box[v1.Leaf] by itself; write Convert_v2_PizzaSpec_To_v1_PizzaSpec in package v2"
	assert.Containsf(t, err, want, "the")
}

// As with conversion-gen, pointers of simple types convert to their values, functions of other
// spokes convert their types, and a package can convert types that it does not declare.
func TestFunctionsOfOtherPackages(t *testing.T) {
	const (
		group   = "// +groupName=a.b\n"
		special = `type Options struct {
	Leaf  shared.Leaf
	Other shared.Other
	On    *bool
	Many  []string
	Kind  Kind
}

type Kind string
`
		types = `type Options struct {
	Leaf  shared.Leaf
	Other shared.Other
	On    bool
	Many  []Text
	Kind  Kind
}

type Kind string

type Text string
`
		converts = `
import "k8s.io/apimachinery/pkg/conversion"

func Convert_string_To_v1_Text(in *string, out *v1.Text, s conversion.Scope) error
func Convert_v1_Text_To_string(in *v1.Text, out *string, s conversion.Scope) error
`
	)
	files := map[string]string{
		"shared/v1/t.go": "package v1\n\ntype Leaf struct{ S string }\n\ntype Other struct{ S string }\n",
		"shared/v2/t.go": "// +k8s:conversion-gen=example.com/m/shared/v1\npackage v2\n\n" + `import (
	v1 "example.com/m/shared/v1"
	"k8s.io/apimachinery/pkg/conversion"
)

type Leaf struct{ S string }

// +k8s:conversion-gen=false
type Other struct{ S string }

func Convert_v1_Other_To_v2_Other(in *v1.Other, out *Other, s conversion.Scope) error
func Convert_v2_Other_To_v1_Other(in *Other, out *v1.Other, s conversion.Scope) error
`,
		"v1/t.go":    group + "package v1\n\nimport shared \"example.com/m/shared/v1\"\n\n" + types,
		"v2/t.go":    "package v2\n\nimport shared \"example.com/m/shared/v2\"\n\n" + special,
		"home/v2.go": group + "// +k8s:conversion-gen=example.com/m/v1\n// +k8s:conversion-gen-external-types=example.com/m/v2\npackage home\n\nimport v1 \"example.com/m/v1\"\n" + converts,
	}
	src, problem := generateConversion(t, "example.com/m/home", files)
	require.Equal(t, problem, "")
	for _, want := range []string{
		"func Convert_v2_Options_To_v1_Options(in *v2.Options, out *v1.Options, s conversion.Scope) error",
		"sharedv2.Convert_v2_Leaf_To_v1_Leaf(&in.Leaf, &out.Leaf, s)",
		"sharedv2.Convert_v2_Other_To_v1_Other(&in.Other, &out.Other, s)",
		"metav1.Convert_Pointer_bool_To_bool(&in.On, &out.On, s)",
		"metav1.Convert_bool_To_Pointer_bool(&in.On, &out.On, s)",
		"Convert_string_To_v1_Text(&(*in1)[i1], &(*out1)[i1], s)", "out.Kind = v1.Kind(in.Kind)",
	} {
		if !strings.Contains(src, want) {
			t.Errorf("no %s in\n%s", want, src)
		}
	}
	if strings.Contains(src, "ConvertTo(") {
		t.Errorf("a method of another package's type in\n%s", src)
	}
}

// The query of a request converts to a type with +k8s:conversion-gen:explicit-from.
func TestQueries(t *testing.T) {
	const options = `// +groupName=a.b
package v1

// +k8s:conversion-gen:explicit-from=net/url.Values
type Options struct {
	Limit *int64 §json:"limit,omitempty"§
	Names []int32 §json:"names"§
	Inner string §json:"-"§
}
`
	src, problem := generateConversion(t, "example.com/m/v1", map[string]string{"v1/t.go": strings.ReplaceAll(options, "§", "`")})
	const want = `func Convert_url_Values_To_v1_Options(in *url.Values, out *Options, s conversion.Scope) error {
	if values := (*in)["limit"]; len(values) > 0 {
		if err := runtime.Convert_Slice_string_To_Pointer_int64(&values, &out.Limit, s); err != nil {
			return err
		}
	} else {
		out.Limit = *new(*int64)
	}
	if values := (*in)["names"]; len(values) > 0 {
		if err := metav1.Convert_Slice_string_To_Slice_int32(&values, &out.Names, s); err != nil {
			return err
		}
	} else {
		out.Names = *new([]int32)
	}
	return nil
}
`
	if problem != "" || !strings.Contains(src, want) ||
		!strings.Contains(src, "s.AddGeneratedConversionFunc((*url.Values)(nil), (*Options)(nil)") {
		t.Errorf("%s\n%s\nwant\n%s", problem, src, want)
	}
	for old, want := range map[string]string{
		"Names []int32":  "v1/t.go:7:2: Options.Names: []string does not convert to []int64 by itself; write Convert_url_Values_To_v1_Options in package v1",
		"net/url.Values": "v1/t.go:4:4: +k8s:conversion-gen:explicit-from: only net/url.Values is supported",
	} {
		replaced := strings.NewReplacer("§", "`", old,
			map[string]string{"Names []int32": "Names []int64", "net/url.Values": "example.com/m.Values"}[old]).
			Replace(options)
		_, problem := generateConversion(t, "example.com/m/v1", map[string]string{"v1/t.go": replaced})
		assert.Equal(t, problem, want)
	}
}

// Functions of a package that imports this one cannot be called, because Go forbids cycles.
func TestFunctionsOfImporters(t *testing.T) {
	_, problem := generateConversion(t, "example.com/m/v2", map[string]string{
		"v1/t.go": "// +groupName=a.b\npackage v1\n\ntype Options struct{ On string }\n",
		"v2/t.go": "// +groupName=a.b\n// +k8s:conversion-gen=example.com/m/v1\npackage v2\n\ntype Options struct{ On bool }\n",
		"user/t.go": "// +k8s:conversion-gen=example.com/m/v1\npackage user\n\nimport (\n\t_ \"example.com/m/v2\"\n\n\t\"k8s.io/apimachinery/pkg/conversion\"\n)\n\n" +
			"func Convert_bool_To_string(in *bool, out *string, s conversion.Scope) error\n",
	})
	if !strings.Contains(problem, "v2.Options.On: bool does not convert to string by itself; write Convert_v2_Options_To_v1_Options in package v2") {
		t.Errorf("got %q", problem)
	}
}
