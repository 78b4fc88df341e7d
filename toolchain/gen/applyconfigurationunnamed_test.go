package gen_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain/gen/applyconfiguration"
	"kelson.dev/toolchain/gen/client"
	"kelson.dev/toolchain/gen/deepcopy"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

const unnamedTypesApplyconfiguration = `// +groupName=a.b
// +kubebuilder:object:generate=true
package v1

import meta "k8s.io/apimachinery/pkg/apis/meta/v1"

// +kubebuilder:object:root=true
type Pizza struct {
	meta.TypeMeta   §json:",inline"§
	meta.ObjectMeta §json:"metadata,omitempty"§
	Spec            struct {
		Size  string      §json:"size,omitempty"§
		Since *meta.Time  §json:"since,omitempty"§
		Leaf  Leaf        §json:"leaf,omitzero"§
	} §json:"spec,omitempty"§
	List []struct {
		Name string §json:"name"§
	} §json:"list,omitempty"§
	Map map[string]struct {
		Name string §json:"name"§
	} §json:"map,omitempty"§
	Template Template §json:"template,omitzero"§
}

// Tray inlines a struct whose fields have the names of those of its metadata.
// +kubebuilder:object:root=true
type Tray struct {
	Marks           §json:",inline"§
	meta.TypeMeta   §json:",inline"§
	meta.ObjectMeta §json:"metadata,omitempty"§
	Generation      int32 §json:"generation,omitempty"§
}

type Marks struct {
	Kind            string                §json:"type,omitempty"§
	Name            string                §json:"name,omitempty"§
	Namespace       string                §json:"namespace,omitempty"§
	Labels          map[string]string     §json:"labels,omitempty"§
	Annotations     map[string]string     §json:"annotations,omitempty"§
	Finalizers      []string              §json:"finalizers,omitempty"§
	OwnerReferences []meta.OwnerReference §json:"ownerReferences,omitempty"§
	UID             string                §json:"uid,omitempty"§
}

type Template struct {
	meta.ObjectMeta §json:"metadata,omitempty"§
}

type Leaf struct {
	S string §json:"s,omitempty"§
}
`

// unnamedTest assigns the values of the types to the apply configurations.
const unnamedTest = `package v1_test

import (
	"encoding/json"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "PATH/api/v1"
	apply "PATH/applyconfiguration/a/v1"
)

func TestFields(t *testing.T) {
	var p api.Pizza
	p.Spec.Size = "big"
	got, err := json.Marshal(apply.Pizza("a", "b").WithSpec(p.Spec).WithList(p.List...).WithMap(p.Map))
	if name := apply.Template().GetName(); name != nil {
		t.Errorf("name %s of a template without metadata", *name)
	}
	if want := §{"kind":"Pizza","apiVersion":"a.b/v1","metadata":{"name":"a","namespace":"b"},"spec":{"size":"big"}}§; err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
	tray := apply.Tray("a", "b").WithLabels(map[string]string{"a": "b"}).WithGeneration(1).WithFinalizers("f").
		WithMarksName("n").WithMarksLabels(map[string]string{"c": "d"}).WithMarksFinalizers("g").WithTrayGeneration(2)
	got, err = json.Marshal(tray)
	if want := §{"name":"n","labels":{"c":"d"},"finalizers":["g"],"kind":"Tray","apiVersion":"a.b/v1",§ +
		§"metadata":{"name":"a","namespace":"b","generation":1,"labels":{"a":"b"},"finalizers":["f"]},"generation":2}§; err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
	from := &api.Tray{ObjectMeta: meta.ObjectMeta{Name: "a", Namespace: "b"}, Marks: api.Marks{Name: "other"}}
	extracted, err := apply.ExtractTray(from, "me")
	if err != nil || *extracted.GetName() != "a" || *extracted.GetNamespace() != "b" {
		t.Errorf("extracted %v, %v", extracted, err)
	}
}
`

// Apply configurations have the same unnamed structs as the types, with their tags and whatever
// names the imports have. Those with metadata have getters that work without it, as upstream's do.
func TestApplyconfigurationUnnamedStructs(t *testing.T) {
	require.Long(t, "compiles packages of client-go")
	dir, base := newFolder(t)
	write := func(name, content string) {
		t.Helper()
		name = filepath.Join(dir, strings.TrimPrefix(name, base))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		err := os.WriteFile(name, []byte(strings.NewReplacer("§", "`", "PATH", base).Replace(content)),
			0o644)
		require.NoError(t, err)
	}
	write("api/v1/types.go", unnamedTypesApplyconfiguration)
	ws, err := loader.Open(t.Context(), loader.Config{Dir: dir})
	require.NoError(t, err)
	api, err := model.Build(ws, marker.Standard())
	require.NoError(t, err)
	files, _, err := applyconfiguration.Generate(applyconfiguration.Config{API: api, Workspace: ws,
		Packages: api.Packages, Output: client.Output{Base: base, Apply: true}})
	require.NoError(t, err)
	for _, f := range files {
		// Its major version is that of the client libraries that the project uses.
		if strings.Contains(string(f.Content), `"sigs.k8s.io/structured-merge-diff`) {
			t.Errorf("%s imports structured-merge-diff", f.Name)
		}
		write(f.Name, string(f.Content))
	}
	// The Extract functions need the methods of runtime.Object.
	methods, err := deepcopy.Generate(api.Packages[0], "")
	require.NoError(t, err)
	write("api/v1/"+deepcopy.FileName, string(methods))
	write("applyconfiguration/a/v1/fields_test.go", unnamedTest)
	cmd := exec.Command("go", "test", "./...")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	assert.NoErrorf(t, err, "\n%.4000s", out)
}
