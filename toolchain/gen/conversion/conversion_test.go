package conversion_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/toolchain/gen/conversion"
	"kelson.dev/toolchain/loader"
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

// generate returns the generated file of a package, and the error without the directory.
func generate(t *testing.T, path string, files map[string]string) (string, string) {
	t.Helper()
	t.Setenv("GOWORK", "off")
	dir := t.TempDir()
	files["go.mod"] = "module example.com/m\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/apimachinery v0.0.0\n\tkelson.dev/operator v0.0.0\n)\n\nreplace k8s.io/apimachinery => ./apimachinery\n"
	files["apimachinery/go.mod"] = "module k8s.io/apimachinery\n"
	files["apimachinery/pkg/apis/meta/v1/types.go"] = "package v1\n\ntype TypeMeta struct{}\n\ntype ObjectMeta struct{ Labels map[string]string }\n"
	for name, content := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ws, err := loader.Open(t.Context(), loader.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
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

// GEN-04: ConvertTo needs the Hub methods of the hub, which are generated if its package requests
// it.
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
		"a custom API server": {group + "// +kelson:crd:generate=false\n" + hub, "// +kelson:crd:generate=false\n" + spoke, ""},
	} {
		t.Run(name, func(t *testing.T) {
			src, err := generate(t, "example.com/m/v2", map[string]string{"v1/t.go": c.hub, "v2/t.go": c.spoke})
			if err != c.want {
				t.Errorf("error %q, want %q", err, c.want)
			}
			if err == "" && !strings.Contains(src, ") ConvertTo(hub ") {
				t.Errorf("no ConvertTo in\n%s", src)
			}
			if !strings.Contains(name, "both") {
				return
			}
			src, err = generate(t, "example.com/m/v1", map[string]string{"v1/t.go": c.hub, "v2/t.go": c.spoke})
			if err != "" || !strings.Contains(src, "func (*Pizza) Hub() {}") {
				t.Errorf("no Hub: %s\n%s", err, src)
			}
		})
	}
}

// GEN-04: errors name generic types by their packages' names.
func TestGenericTypesInErrors(t *testing.T) {
	const types = kind + `
type PizzaSpec struct {
	M map[string][]*Box[Leaf]
}

type Box[T any] struct{ Value T }

type Leaf struct{}
`
	_, err := generate(t, "example.com/m/v2", map[string]string{
		"v1/t.go": "// +groupName=a.b\n// +kelson:generate=conversion\npackage v1" + types,
		"v2/t.go": "// +groupName=a.b\n// +kelson:generate=conversion\n// +k8s:conversion-gen=example.com/m/v1\npackage v2" + types,
	})
	const want = "v2.PizzaSpec.M: v2.Box[v2.Leaf] does not convert to v1.Box[v1.Leaf] by itself; write Convert_v2_PizzaSpec_To_v1_PizzaSpec in package v2"
	if !strings.Contains(err, want) {
		t.Errorf("the error is\n%s\nwant\n%s", err, want)
	}
}
