package scaffold_test

import (
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain/scaffold/goedit"
)

const program = `// Command demo.
package main

import (
	"fmt" // prints

	"kelson.dev/operator"
)

func main() {
	fmt.Println("it begins") // a comment
	operator.Main(
		operator.Name("demo"), // its name

		// further arguments
	)
}
`

var (
	parts  = goedit.Call{Package: "kelson.dev/operator", Name: "Main"}
	scheme = goedit.Call{Package: "kelson.dev/operator", Name: "AddToScheme"}
)

// Each edit has no effect the second time, and removing all of them restores the source byte for
// byte.
func TestRemoveRestoresBytes(t *testing.T) {
	type edit func([]byte) ([]byte, error)
	argument := func(c goedit.Call, expr string) [2]edit {
		return [2]edit{
			func(src []byte) ([]byte, error) { return goedit.AddArgument(src, c, expr) },
			func(src []byte) ([]byte, error) { return goedit.RemoveArgument(src, c, expr) },
		}
	}
	imported := func(name, path string) [2]edit {
		return [2]edit{
			func(src []byte) ([]byte, error) { return goedit.AddImport(src, name, path) },
			func(src []byte) ([]byte, error) { return goedit.RemoveImport(src, path) },
		}
	}
	marker := func(name, text string) [2]edit {
		return [2]edit{
			func(src []byte) ([]byte, error) { return goedit.AddMarker(src, name, text) },
			func(src []byte) ([]byte, error) { return goedit.RemoveMarker(src, name, text) },
		}
	}
	for name, test := range map[string]struct {
		src   string
		edits [][2]edit
		want  []string
	}{
		"arguments and their imports": {program, [][2]edit{
			imported("webappv1", "example.com/demo/api/v1"),
			imported("", "example.com/demo/internal/controller"),
			argument(parts, "operator.AddToScheme(webappv1.AddToScheme)"),
			argument(scheme, "batchv1.AddToScheme"),
			argument(parts, "controller.New()"),
		}, []string{
			"\t\"kelson.dev/operator\"\n\n\twebappv1 \"example.com/demo/api/v1\"\n\t\"example.com/demo/internal/controller\"\n)",
			"// further arguments\n\t\toperator.AddToScheme(webappv1.AddToScheme, batchv1.AddToScheme),\n\t\tcontroller.New(),\n\t)",
			`"fmt" // prints`, "// a comment", "// its name",
		}},
		"a list on one line": {"package v1\n\nfunc f() { s.AddKnownTypes(GroupVersion, &A{}) }\n", [][2]edit{
			argument(goedit.Call{Name: "AddKnownTypes"}, "&B{}"),
			argument(goedit.Call{Name: "AddKnownTypes"}, "&BList{}"),
		}, []string{"s.AddKnownTypes(GroupVersion, &A{}, &B{}, &BList{})"}},
		"a list that is too long for one line": {"package v1\n\nfunc f() {\n\tg(s.AddKnownTypes(GroupVersion, &A{}))\n}\n", [][2]edit{
			argument(goedit.Call{Name: "AddKnownTypes"}, "&"+strings.Repeat("B", 70)+"{}"),
			argument(goedit.Call{Name: "AddKnownTypes"}, "&CCCCCCCCCCCC{}"),
			argument(goedit.Call{Name: "AddKnownTypes"}, "&D{}"),
		}, []string{"B{},\n\t\t&CCCCCCCCCCCC{}, &D{}))"}},
		"markers": {"package v1\n\n// A is one.\n// +kubebuilder:object:root=true\ntype A struct{}\n", [][2]edit{
			marker("A", "+kubebuilder:storageversion"),
		}, []string{"// +kubebuilder:object:root=true\n// +kubebuilder:storageversion\ntype A"}},
	} {
		t.Run(name, func(t *testing.T) {
			src := []byte(test.src)
			var err error
			for _, e := range test.edits {
				src, err = e[0](src)
				require.NoError(t, err)
				again, err := e[0](src)
				if err != nil || string(again) != string(src) {
					t.Errorf("a second call changes the source: %v\n%s", err, again)
				}
			}
			for _, want := range test.want {
				if !strings.Contains(string(src), want) {
					t.Errorf("lacks %q:\n%s", want, src)
				}
			}
			for i := len(test.edits) - 1; i >= 0; i-- {
				for range 2 {
					src, err = test.edits[i][1](src)
					require.NoError(t, err)
				}
			}
			assert.Equalf(t, string(src), test.src, "edits not undone")
		})
	}
}

func TestUsedImportsAreKept(t *testing.T) {
	src, err := goedit.RemoveImport([]byte(program), "fmt")
	if err != nil || string(src) != program {
		t.Errorf("%v\n%s", err, src)
	}
	for _, start := range []string{"package a\n", "package a\n\nimport \"fmt\"\n\nvar _ = fmt.Sprint\n"} {
		src, err := goedit.AddImport([]byte(start), "b", "example.com/c")
		if err != nil || !strings.Contains(string(src), `b "example.com/c"`) {
			t.Errorf("%v\n%s", err, src)
		}
	}
}

func TestUneditableSourceIsAnError(t *testing.T) {
	_, err := goedit.AddArgument([]byte("package main\n"), parts, "x")
	assert.ErrorIsf(t, err, goedit.ErrNoCall, "no call")
	const slice = "package main\n\nimport \"kelson.dev/operator\"\n\nfunc main() { operator.Main(all()...) }\n"
	if _, err := goedit.AddArgument([]byte(slice), parts, "x"); err == nil {
		t.Error("a slice was extended")
	}
	if _, err := goedit.AddArgument([]byte("package ("), parts, "x"); err == nil {
		t.Error("invalid Go source was edited")
	}
	if _, err := goedit.AddMarker([]byte("package v1\n"), "A", "+x"); err == nil {
		t.Error("a missing type was marked")
	}
}

func TestImportChoosesAFreeName(t *testing.T) {
	const src = `package main

import (
	yaml "example.com/other"
	_ "example.com/z/effects"
	"example.com/module/v2"
	abv1 "example.com/z/api/a-b/v1"
)

func main() {
	controller := 1
	use(controller, abv1.X)
}

func shopv1() {}
`
	for _, test := range []struct{ name, path, want, line string }{
		{"abv1", "example.com/z/api/a-b/v1", "abv1", ""},
		{"other", "example.com/z/api/a-b/v1", "abv1", ""}, // the import exists
		{"abv1", "example.com/z/api/ab/v1", "ab2v1", `ab2v1 "example.com/z/api/ab/v1"`},
		{"abcontroller", "example.com/z/internal/controller/ab", "abcontroller",
			`abcontroller "example.com/z/internal/controller/ab"`},
		{"", "example.com/z/internal/kinds", "kinds", `	"example.com/z/internal/kinds"`},
		{"", "example.com/z/yaml", "yaml2", `yaml2 "example.com/z/yaml"`},
		// a variable
		{"", "example.com/z/internal/controller", "controller2", `controller2 "example.com/z/internal/controller"`},
		// a function
		{"shopv1", "example.com/z/api/v1", "shop2v1", `shop2v1 "example.com/z/api/v1"`},
		// a major version
		{"module", "example.com/z/module", "module2", `module2 "example.com/z/module"`},
		{"v2", "example.com/z/api/v2", "api2v2", `api2v2 "example.com/z/api/v2"`},
		{"effects", "example.com/z/effects", "effects", `effects "example.com/z/effects"`},
		{"X", "example.com/z/x", "X", `X "example.com/z/x"`}, // a name in another package
	} {
		changed, used, err := goedit.Import([]byte(src), test.name, test.path)
		if err != nil || used != test.want || !strings.Contains(string(changed), test.line) {
			t.Errorf("import %s %q: got %q, %v, want %q\n%s", test.name, test.path, used, err, test.want, changed)
		}
		assert.Equalf(t, goedit.ImportName(changed, test.path), test.want, "ImportName of %q", test.path)
		again, used, err := goedit.Import(changed, test.name, test.path)
		if err != nil || used != test.want || string(again) != string(changed) {
			t.Errorf("a second import of %q changes the source: %q, %v\n%s", test.path, used, err, again)
		}
	}
	// Numbers that are taken too.
	text, names := []byte("package main\n"), []string{}
	for _, group := range []string{"a-b", "ab", "a.b"} {
		var name string
		var err error
		text, name, err = goedit.Import(text, "abv1beta1", "example.com/z/api/"+group+"/v1beta1")
		require.NoError(t, err)
		names = append(names, name)
	}
	assert.Equalf(t, strings.Join(names, " "), "abv1beta1 ab2v1beta1 ab3v1beta1", "names of three imports")
	_, err := goedit.AddImport([]byte(src), "abv1", "example.com/z/api/ab/v1")
	assert.ErrorIsf(t, err, goedit.ErrNameTaken, "AddImport with a name that is taken")
	if goedit.ImportName([]byte(src), "example.com/none") != "" {
		t.Error("a package that is not imported has a name")
	}
}

func TestUses(t *testing.T) {
	const src = "package a\n\nimport b \"example.com/b\"\n\nvar _ b.X\n"
	for _, test := range []struct {
		path  string
		names []string
		want  bool
	}{
		{"example.com/b", nil, true},
		{"example.com/b", []string{"X", "Y"}, true},
		{"example.com/b", []string{"Y"}, false},
		{"example.com/c", nil, false},
	} {
		got := goedit.Uses([]byte(src), test.path, test.names...)
		assert.Equalf(t, got, test.want, "Uses %s %v", test.path, test.names)
	}
	assert.Equalf(t, goedit.PackageName([]byte(src)), "a", "package")
}
