package goedit_test

import (
	"errors"
	"strings"
	"testing"

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

// CLI-01
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
				if src, err = e[0](src); err != nil {
					t.Fatal(err)
				}
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
					if src, err = test.edits[i][1](src); err != nil {
						t.Fatal(err)
					}
				}
			}
			if string(src) != test.src {
				t.Errorf("edits not undone:\n%s", src)
			}
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
	if _, err := goedit.AddArgument([]byte("package main\n"), parts, "x"); !errors.Is(err, goedit.ErrNoCall) {
		t.Errorf("no call: %v", err)
	}
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
