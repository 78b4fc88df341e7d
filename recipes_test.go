package kelson_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kelson.dev/internal/require"
)

// recipe returns the blocks of Go code of a recipe in CONTRIBUTING.md, without their indentation.
func recipe(t *testing.T, name string) []string {
	t.Helper()
	_, section, found := strings.Cut(source(t, "CONTRIBUTING.md"), "\n## Recipe: "+name+"\n")
	if !found {
		t.Fatalf("CONTRIBUTING.md has no recipe %q", name)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)\n( *)```go\n(.*?)\n *```").FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, strings.ReplaceAll("\n"+m[2], "\n"+m[1], "\n")[1:])
	}
	if len(blocks) == 0 {
		t.Fatalf("the recipe %q has no Go code", name)
	}
	return blocks
}

// source returns a file of this repository.
func source(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(data)
}

// after inserts text behind the only place of a file that has mark.
func after(t *testing.T, name, mark, text string) string {
	t.Helper()
	src := source(t, name)
	require.Equalf(t, strings.Count(src, mark), 1, "%s: %q is not there once", name, mark)
	return strings.Replace(src, mark, mark+text, 1)
}

// testWith runs go test on a package of this repository in which files, by path, are added or
// replaced.
func testWith(t *testing.T, files map[string]string, pkg, run string) {
	t.Helper()
	dir, root := t.TempDir(), mustAbs(t, ".")
	replace := map[string]string{}
	for name, text := range files {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		replace[filepath.Join(root, filepath.FromSlash(name))] = file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, overlay, 0o600))
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-overlay", file, pkg, "-run", "^"+run+"$", "-v")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+run) {
		t.Errorf("go test %s: %v\n%s", pkg, err, out)
	}
}

func mustAbs(t *testing.T, name string) string {
	t.Helper()
	abs, err := filepath.Abs(name)
	require.NoError(t, err)
	return abs
}

// TestRecipesOfExistingCode compares the rows in the recipes for a built-in kind and a subresource,
// whose examples exist, with the source.
func TestRecipesOfExistingCode(t *testing.T) {
	words := func(s string) string {
		s = strings.Join(strings.Fields(s), "")
		return strings.TrimSuffix(strings.TrimSuffix(s, ","), "}")
	}
	for name, file := range map[string]string{
		"a built-in kind": "kubernetes/builtin/requestedkinds.go",
		"a subresource":   "kubernetes/builtin/core.go",
	} {
		for _, block := range recipe(t, name) {
			if !strings.Contains(words(source(t, file)), words(block)) {
				t.Errorf("CONTRIBUTING.md: %s does not have\n%s", file, block)
			}
		}
	}
}

// TestRecipeOfAdmissionPlugin adds the plugin of the recipe and its test.
func TestRecipeOfAdmissionPlugin(t *testing.T) {
	require.Long(t, "links a program with Kubernetes' packages")
	row := recipe(t, "an admission plugin")[0]
	testWith(t, map[string]string{
		"kubernetes/plugins/table.go": after(t, "kubernetes/plugins/table.go",
			"		*generic.Find(\"AlwaysAdmit\"),\n", row+"\n"),
		"kubernetes/plugins/quiet.go": `package plugins

import (
	"context"
	"errors"

	"k8s.io/apiserver/pkg/admission"
	api "k8s.io/kubernetes/pkg/apis/core"
)

type quiet struct{ *admission.Handler }

func newQuiet() *quiet { return &quiet{admission.NewHandler(admission.Create, admission.Update)} }

func (q *quiet) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if m, ok := a.GetObject().(*api.ConfigMap); ok && m.Labels["loud"] != "" {
		return admission.NewForbidden(a, errors.New("the label loud is not allowed"))
	}
	return nil
}
`,
		"kubernetes/pluginsquiet_test.go": `package kubernetes_test

import "testing"

func TestQuiet(t *testing.T) {
	inBubble(t, func(p plane) {
		p.refused("POST", ns+"/configmaps",
			` + "`" + `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"loud":"yes"}}}` + "`" + `,
			"the label loud is not allowed")
		p.want(201, "POST", ns+"/configmaps", object("v1", "ConfigMap", "a", ""))
	}, "Quiet")
}
`,
	}, "./kubernetes", "TestQuiet")
}

// TestRecipeOfGenerator adds the generator of the recipe and runs it.
func TestRecipeOfGenerator(t *testing.T) {
	require.Long(t, "compiles the toolchain again")
	row, function, found := strings.Cut(recipe(t, "a generator")[0], "\n\n")
	if !found {
		t.Fatal("the recipe has no row and function")
	}
	generators := after(t, "toolchain/generators.go", "	return []Generator{\n", row+"\n")
	generators = strings.Replace(generators, "import (\n", "import (\n\t\"kelson.dev/toolchain/gen/names\"\n", 1)
	testWith(t, map[string]string{
		"toolchain/generators.go": generators + "\n" + function + "\n",
		"toolchain/gen/names/names.go": `package names

import "kelson.dev/toolchain/model"

const FileName = "zz_generated.names.txt"

func Generate(p *model.Package) (text []byte) {
	for _, t := range p.Types {
		if t.Markers.Get("kubebuilder:object:root") != nil {
			text = append(text, t.Name+"\n"...)
		}
	}
	return text
}
`,
		"toolchain/recipe_test.go": `package toolchain_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"

	"kelson.dev/toolchain"
)

func TestNames(t *testing.T) {
	dir, _ := writeProject(t, txtar.Parse([]byte("-- v1/types.go --\n"+
		"// +kelson:generate=names\n// +groupName=example.com\npackage v1\n\n"+
		"// +kubebuilder:object:root=true\ntype Tea struct{}\n\ntype Other struct{}\n")))
	if _, err := toolchain.Generate(t.Context(), toolchain.Options{Dir: dir, Generators: []string{"names"}}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "v1", "zz_generated.names.txt"))
	if err != nil || string(got) != "Tea\n" {
		t.Errorf("%q, %v", got, err)
	}
}
`,
	}, "./toolchain", "TestNames")
}
