package toolchain_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain"
	"kelson.dev/toolchain/loader"
)

var update = flag.Bool("update", false, "write the expected output of the golden tests")

// goMod is the go.mod of the golden tests' projects. It requires only modules that this module
// requires too, so they are in the module cache.
const goMod = `module example.com/shapes

go 1.26.0

require (
	k8s.io/api v0.37.2
	k8s.io/apiextensions-apiserver v0.37.2
	k8s.io/apimachinery v0.37.2
)
`

// writeProject writes the files of a txtar archive to a new directory, except those below want/,
// which it returns.
func writeProject(t testing.TB, ar *txtar.Archive) (dir string, want map[string]string) {
	t.Helper()
	t.Setenv("GOWORK", "off")
	dir, want = t.TempDir(), map[string]string{}
	write(t, dir, "go.mod", goMod)
	for _, f := range ar.Files {
		if name, ok := strings.CutPrefix(f.Name, "want/"); ok {
			want[name] = string(f.Data)
			continue
		}
		write(t, dir, f.Name, string(f.Data))
	}
	return dir, want
}

func write(t testing.TB, dir, name, content string) {
	t.Helper()
	name = filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, []byte(content), 0o644))
}

// Each archive in testdata has a project and, below want/, the generated files or the errors.
// Except in beyond.txtar, the definitions and roles equal those of controller-gen v0.23.0.
func TestGolden(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal("no archives", err)
	}
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(name)
			require.NoError(t, err)
			dir, want := writeProject(t, ar)
			got := map[string]string{}
			res, err := toolchain.Generate(t.Context(), toolchain.Options{Dir: dir})
			if err != nil {
				got["errors"] = strings.ReplaceAll(err.Error(), dir+"/", "") + "\n"
			}
			for _, f := range res.Files {
				data, err := os.ReadFile(filepath.Join(dir, f.Path))
				require.NoError(t, err)
				got[f.Path] = string(data)
				if strings.Contains(f.Path, "config/crd/") {
					accepted(t, data)
				}
			}
			if *update {
				rewrite(t, name, ar, got)
				return
			}
			for name, text := range want {
				assert.Equalf(t, got[name], text, "%s", name)
			}
			for name := range got {
				if _, ok := want[name]; !ok {
					t.Errorf("unexpected %s:\n%s", name, got[name])
				}
			}
		})
	}
}

func rewrite(t *testing.T, name string, ar *txtar.Archive, got map[string]string) {
	t.Helper()
	files := ar.Files[:0]
	for _, f := range ar.Files {
		if !strings.HasPrefix(f.Name, "want/") {
			files = append(files, f)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		files = append(files, txtar.File{Name: "want/" + k, Data: []byte(got[k])})
	}
	ar.Files = files
	require.NoError(t, os.WriteFile(name, txtar.Format(ar), 0o644))
}

// accepted validates a definition as an API server does on creation.
func accepted(t *testing.T, data []byte) {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	v1 := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, yaml.UnmarshalStrict(data, v1))
	scheme.Default(v1)
	crd := &apiextensions.CustomResourceDefinition{}
	require.NoError(t, scheme.Convert(v1, crd, nil))
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			crd.Status.StoredVersions = []string{v.Name}
		}
	}
	for _, err := range validation.ValidateCustomResourceDefinition(t.Context(), crd) {
		t.Errorf("a server rejects %s: %v", v1.Name, err)
	}
}

// Only files whose content changes are written, and a check writes none.
func TestWritesOnlyChanges(t *testing.T) {
	ar, err := txtar.ParseFile("testdata/resource.txtar")
	require.NoError(t, err)
	dir, _ := writeProject(t, ar)
	ctx := t.Context()
	cache := &loader.Cache{}

	_, err = toolchain.Generate(ctx, toolchain.Options{Dir: dir, Check: true})
	if !errors.Is(err, toolchain.ErrStale) {
		t.Fatalf("check before anything was generated: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "config")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("a check wrote files")
	}
	generate := func(want ...string) {
		t.Helper()
		res, err := toolchain.Generate(ctx, toolchain.Options{Dir: dir, Cache: cache})
		require.NoError(t, err)
		if got := strings.Join(res.Changed(), " "); got != strings.Join(want, " ") {
			t.Fatalf("changed: %s; want %s", got, want)
		}
	}
	generate("api/v1/zz_generated.deepcopy.go", "api/v1alpha1/zz_generated.deepcopy.go",
		"config/crd/shop.example.com_pizzas.yaml", "config/crd/shop.example.com_policies.yaml")
	generate()
	_, err = toolchain.Generate(ctx, toolchain.Options{Dir: dir, Check: true})
	require.NoErrorf(t, err, "check of an up-to-date project")

	types := filepath.Join(dir, "api/v1/types.go")
	src, err := os.ReadFile(types)
	require.NoError(t, err)
	write(t, dir, "api/v1/types.go", strings.Replace(string(src), "// PizzaSpec is an order.", "// PizzaSpec is the order.", 1))
	generate("config/crd/shop.example.com_pizzas.yaml")

	write(t, dir, "api/v1/types.go", strings.Replace(string(src), "+optional", "+optionl", 1))
	_, err = toolchain.Generate(ctx, toolchain.Options{Dir: dir, Cache: cache})
	if at := new(loader.Error); !errors.As(err, &at) || at.Pos.Line == 0 || !strings.Contains(err.Error(), "did you mean +optional?") {
		t.Fatalf("the error is %v", err)
	}
	_, err = os.Stat(filepath.Join(dir, "config/crd/shop.example.com_pizzas.yaml"))
	require.NoError(t, err)
}

// Git on Windows checks files out with CRLF.
func TestKeepsLineEnds(t *testing.T) {
	ar, err := txtar.ParseFile("testdata/resource.txtar")
	require.NoError(t, err)
	dir, _ := writeProject(t, ar)
	generate := func(check bool) (toolchain.Result, error) {
		return toolchain.Generate(t.Context(), toolchain.Options{Dir: dir, Check: check})
	}
	res, err := generate(false)
	require.NoError(t, err)
	for _, f := range res.Files {
		write(t, dir, f.Path, strings.ReplaceAll(string(f.Content), "\n", "\r\n"))
	}
	_, err = generate(true)
	assert.NoErrorf(t, err, "check after a checkout with CRLF")
	const changed = "config/crd/shop.example.com_pizzas.yaml"
	write(t, dir, changed, "changed\r\n")
	if res, err = generate(false); err != nil || !slices.Equal(res.Changed(), []string{changed}) {
		t.Fatalf("%v, %v", res.Changed(), err)
	}
	if data, _ := os.ReadFile(filepath.Join(dir, changed)); bytes.Count(data, []byte("\n")) != bytes.Count(data, []byte("\r\n")) {
		t.Errorf("%s has mixed line ends", changed)
	}
}

func TestKubebuilderLayout(t *testing.T) {
	ar := txtar.Parse([]byte("-- api/v1/t.go --\n// +groupName=a.b\n// +kubebuilder:object:generate=true\npackage v1\n\n" +
		"import metav1 \"k8s.io/apimachinery/pkg/apis/meta/v1\"\n\ntype T struct {\n\tmetav1.TypeMeta `json:\",inline\"`\n\tmetav1.ObjectMeta `json:\"metadata\"`\n}\n" +
		"-- hack/boilerplate.go.txt --\n/* ours */\n-- config/crd/bases/.keep --\n"))
	dir, _ := writeProject(t, ar)
	_, err := toolchain.Generate(t.Context(), toolchain.Options{Dir: dir})
	require.NoError(t, err)
	_, err = os.Stat(filepath.Join(dir, "config/crd/bases/a.b_ts.yaml"))
	assert.NoError(t, err)
	src, _ := os.ReadFile(filepath.Join(dir, "api/v1/zz_generated.deepcopy.go"))
	assert.Containsf(t, string(src), "/* ours */", "no boilerplate in")
}

func TestNoModule(t *testing.T) {
	t.Setenv("GOWORK", "off")
	if _, err := toolchain.Generate(t.Context(), toolchain.Options{Dir: t.TempDir()}); !errors.Is(err, loader.ErrNoModule) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir, _ := writeProject(t, &txtar.Archive{})
	if _, err := toolchain.Generate(ctx, toolchain.Options{Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// Apply configurations contain those of metav1, which are in client-go.
func TestApplyConfigurationsNeedClientGo(t *testing.T) {
	t.Setenv("GOWORK", "off")
	t.Setenv("GOPROXY", "off")
	dir := t.TempDir()
	write(t, dir, "go.mod", goMod)
	write(t, dir, "api/v1/types.go", `// +groupName=shapes.example.com
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +kubebuilder:object:root=true
type Shape struct {
	metav1.TypeMeta   `+"`json:\",inline\"`"+`
	metav1.ObjectMeta `+"`json:\"metadata,omitempty\"`"+`
}
`)
	_, err := toolchain.Generate(t.Context(), toolchain.Options{Dir: dir, Generators: []string{"applyconfiguration"}})
	if err == nil || strings.Count(err.Error(), "apply configurations need k8s.io/client-go in go.mod: find package") != 1 {
		t.Errorf("got %v", err)
	}
}

// Without the package of the metadata, no type can be recognized as a kind. This is an error, not a
// project without kinds.
func TestUnknownMetadataIsAnError(t *testing.T) {
	ar, err := txtar.ParseFile("testdata/derived.txtar")
	require.NoError(t, err)
	dir, _ := writeProject(t, ar)
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("GOPROXY", "off")
	for _, generator := range []string{"crd", "register", "client"} {
		_, err = toolchain.Generate(t.Context(), toolchain.Options{Dir: dir, Generators: []string{generator}, Lenient: true, Check: true})
		if err == nil || !strings.Contains(err.Error(), "api/v1/types.go:13:2: unknown type metav1.TypeMeta: find package k8s.io/apimachinery/pkg/apis/meta/v1") {
			t.Errorf("%s: got %v", generator, err)
		}
	}
}

// Clients import the apply configurations that are generated, even if two groups have names that
// begin with the same part.
func TestGroupsWithTheSamePackage(t *testing.T) {
	t.Setenv("GOWORK", "off")
	dir := t.TempDir()
	write(t, dir, "go.mod", strings.Replace(goMod, "\tk8s.io/apimachinery", "\tk8s.io/client-go v0.37.2\n\tk8s.io/apimachinery", 1))
	for folder, group := range map[string]string{"a": "shop.example.com", "b": "shop.example.org\n// +groupGoName=Other"} {
		write(t, dir, folder+"/v1/types.go", "// +groupName="+group+`
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +genclient
// +kubebuilder:object:root=true
type Pizza struct {
	metav1.TypeMeta   `+"`json:\",inline\"`"+`
	metav1.ObjectMeta `+"`json:\"metadata,omitempty\"`"+`
}
`)
	}
	res, err := toolchain.Generate(t.Context(), toolchain.Options{Dir: dir, Generators: []string{"client", "applyconfiguration"}})
	require.NoError(t, err)
	generated, imported := map[string]bool{}, map[string]bool{}
	for _, f := range res.Files {
		generated[path.Dir(f.Path)] = true
		for _, m := range regexp.MustCompile(`"example.com/shapes/(pkg/.*)"`).FindAllSubmatch(f.Content, -1) {
			imported[string(m[1])] = true
		}
	}
	for p := range imported {
		if !generated[p] {
			t.Errorf("%s is imported, but not generated", p)
		}
	}
}

// As with controller-gen, the rules without roleName join those of the role that the setting names,
// and the roles are sorted by their final names.
func TestDefaultRole(t *testing.T) {
	t.Setenv("GOWORK", "off")
	dir := t.TempDir()
	write(t, dir, "go.mod", goMod)
	write(t, dir, "c.go", `package c

// +kubebuilder:rbac:groups=a,resources=as,verbs=get
// +kubebuilder:rbac:groups=b,resources=bs,verbs=get,roleName=zebra
// +kubebuilder:rbac:groups=c,resources=cs,verbs=get,roleName=manager-role
`)
	res, err := toolchain.Generate(t.Context(), toolchain.Options{Dir: dir, Generators: []string{"rbac"},
		Settings: map[string]toolchain.Settings{"rbac": {RoleName: "zebra"}}})
	if err != nil || len(res.Files) != 1 {
		t.Fatal(res.Files, err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^  name: (.*)$|^  - (as|bs|cs)$`).FindAllStringSubmatch(string(res.Files[0].Content), -1) {
		names = append(names, m[1]+m[2])
	}
	assert.Slicef(t, names, []string{"manager-role", "cs", "zebra", "as", "bs"}, "roles and resources")
}

// Conversions are registered in a scheme that register-gen has generated.
func TestConversionsInGeneratedScheme(t *testing.T) {
	ar, err := txtar.ParseFile("testdata/derived.txtar")
	require.NoError(t, err)
	for i, f := range ar.Files {
		ar.Files[i].Data = bytes.Replace(f.Data, []byte("// +kelson:generate=register;defaults;conversion\n"), nil, 1)
	}
	dir, _ := writeProject(t, ar)
	write(t, dir, "api/v1beta1/zz_generated.register.go", `//go:build !ignore_autogenerated

// Code generated by register-gen. DO NOT EDIT.

package v1beta1

import "k8s.io/apimachinery/pkg/runtime"

var (
	SchemeBuilder      runtime.SchemeBuilder
	localSchemeBuilder = &SchemeBuilder
)
`)
	res, err := toolchain.Generate(t.Context(), toolchain.Options{Dir: dir, Generators: []string{"conversion"}, Paths: []string{"./api/..."}})
	require.NoError(t, err)
	for _, f := range res.Files {
		if path.Base(f.Path) == "zz_generated.conversion.go" && strings.Contains(string(f.Content), "localSchemeBuilder.Register(RegisterConversions)") {
			return
		}
	}
	t.Error("no registration of the conversions")
}

// A file that is a symbolic link stays one.
func TestSymbolicLinks(t *testing.T) {
	ar, err := txtar.ParseFile("testdata/resource.txtar")
	require.NoError(t, err)
	dir, want := writeProject(t, ar)
	const name = "config/crd/shop.example.com_pizzas.yaml"
	write(t, dir, "chart/pizzas.yaml", "old")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
	if err := os.Symlink("../../chart/pizzas.yaml", filepath.Join(dir, name)); err != nil {
		t.Skip(err)
	}
	_, err = toolchain.Generate(t.Context(), toolchain.Options{Dir: dir})
	require.NoError(t, err)
	if got, err := os.ReadFile(filepath.Join(dir, "chart/pizzas.yaml")); err != nil || string(got) != want[name] {
		t.Errorf("%v; the target of the link is\n%s", err, got)
	}
}

// The definition of a kind that no longer exists is removed. A definition that was written by hand,
// or is of another group, is kept.
func TestStaleDefinitionsAreRemoved(t *testing.T) {
	kind := func(name string) string {
		return "// +kubebuilder:object:root=true\ntype " + name + " struct {\n\tmetav1.TypeMeta `json:\",inline\"`\n\tmetav1.ObjectMeta `json:\"metadata,omitempty\"`\n}\n\n"
	}
	const head = "// +groupName=a.example.com\n// +kubebuilder:object:generate=true\npackage v1\n\nimport metav1 \"k8s.io/apimachinery/pkg/apis/meta/v1\"\n\n"
	dir, _ := writeProject(t, txtar.Parse([]byte("-- api/v1/t.go --\n"+head+kind("Thing")+kind("Other")+kind("Hand"))))
	generate := func(check bool) (toolchain.Result, error) {
		return toolchain.Generate(t.Context(), toolchain.Options{Dir: dir, Generators: []string{"crd"}, Check: check})
	}
	_, err := generate(false)
	require.NoError(t, err)
	const other, hand, foreign = "config/crd/a.example.com_others.yaml", "config/crd/a.example.com_hands.yaml", "config/crd/b.example.com_others.yaml"
	data, err := os.ReadFile(filepath.Join(dir, other))
	require.NoError(t, err)
	write(t, dir, foreign, strings.ReplaceAll(string(data), "a.example.com", "b.example.com"))
	written, err := os.ReadFile(filepath.Join(dir, hand))
	require.NoError(t, err)
	write(t, dir, hand, "# mine\n"+string(written))
	write(t, dir, "config/crd/kustomization.yaml", "resources:\n- a.example.com_others.yaml\n")
	write(t, dir, "api/v1/t.go", head+kind("Thing"))

	if _, err := generate(true); !errors.Is(err, toolchain.ErrStale) || !strings.Contains(err.Error(), "["+other+"]") {
		t.Fatalf("check: %v", err)
	}
	res, err := generate(false)
	if err != nil || !slices.Equal(res.Changed(), []string{other}) || len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0].Error(), "remove a.example.com_others.yaml from config/crd/kustomization.yaml") {
		t.Fatalf("%v, %v, %v", res.Changed(), res.Warnings, err)
	}
	for name, exists := range map[string]bool{other: false, hand: true, foreign: true, "config/crd/a.example.com_things.yaml": true} {
		if _, err := os.Stat(filepath.Join(dir, name)); exists != (err == nil) {
			t.Errorf("%s: want it to exist: %t; stat: %v", name, exists, err)
		}
	}
	if res, err := generate(true); err != nil || len(res.Changed()) > 0 {
		t.Errorf("afterwards: %v, %v", res.Changed(), err)
	}
}
