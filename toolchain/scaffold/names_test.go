package scaffold

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// The longest name of a project gives valid names of Services and Namespaces, and no longer one
// does. The kustomization prefixes names that do not contain the project's.
func TestLongestProjectName(t *testing.T) {
	for _, test := range []struct {
		server bool
		limit  int
		steps  []string
	}{
		{false, 36, []string{"project", "webhooks"}},
		{true, 56, []string{"server-project"}},
	} {
		longest := strings.Repeat("a", test.limit)
		assert.NoError(t, checkProjectName(longest, test.server))
		if err := checkProjectName(longest+"a", test.server); err == nil ||
			!strings.Contains(err.Error(), "--project-name") {
			t.Errorf("server %v: a name of %d characters is refused with %v", test.server, test.limit+1, err)
		}
		used := 0
		for _, step := range test.steps {
			p := &Project{Domain: "example.com", Repo: "example.com/z", Name: longest}
			files, err := render(currentTemplate(), step,
				p.valuesOf(&Resource{Group: "shop", Version: "v1", Kind: "Pizza", Domain: p.Domain}))
			require.NoError(t, err)
			for _, f := range files {
				if path.Ext(f.name) != ".yaml" {
					continue
				}
				for _, document := range bytes.Split(f.data, []byte("\n---\n")) {
					var obj struct {
						Kind     string
						Metadata struct{ Name string }
					}
					if yaml.Unmarshal(document, &obj) != nil || obj.Kind != "Service" && obj.Kind != "Namespace" ||
						obj.Metadata.Name == "system" {
						continue
					}
					name := obj.Metadata.Name
					if !strings.Contains(name, longest) {
						name = longest + "-" + name
					}
					used = max(used, len(name))
					if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
						t.Errorf("%s: %s %s: %s", f.name, obj.Kind, name, errs[0])
					}
				}
			}
		}
		if used != validation.DNS1123LabelMaxLength {
			t.Errorf("server %v: the longest name has %d characters: change the limit", test.server, used)
		}
	}
}

func TestGroupPackages(t *testing.T) {
	p := &Project{Domain: "example.com", Repo: "example.com/z", MultiGroup: true}
	for _, test := range []struct{ group, alias, controllers, kinds string }{
		{"shop", "shopv1", "shop", "shop"},
		{"a-b.c", "abcv1", "abc", "abc"},
		{"operator", "operatorv1", "operatorcontroller", "operator"},
		{"apiserver", "apiserverv1", "apiserver", "apiserverkinds"},
		{"main", "mainv1", "maincontroller", "mainkinds"},
		{"bool", "boolv1", "boolcontroller", "boolkinds"},
		{"meta", "metaapiv1", "meta", "meta"},
		{"metav1", "metav1v1", "metav1controller", "metav1"},
		{"3scale", "g3scalev1", "g3scale", "g3scale"},
		{"", "v1", "controller", "kinds"},
	} {
		v := p.valuesOf(&Resource{Group: test.group, Version: "v1", Kind: "Pizza", Domain: p.Domain})
		if v.Alias != test.alias || v.Controllers != test.controllers || v.Kinds != test.kinds {
			t.Errorf("group %q: types %s, controllers %s, kinds %s; want %+v", test.group, v.Alias, v.Controllers,
				v.Kinds, test)
		}
	}
}

// The names that files of the template use beside a package of a group are reserved.
func TestNamesOfTheTemplateAreReserved(t *testing.T) {
	p := &Project{Domain: "example.com", Repo: "example.com/z", MultiGroup: true}
	r := Resource{Group: "shop", Version: "v1", Kind: "Pizza", Domain: p.Domain, API: true,
		Path: "example.com/z/api/shop/v1"}
	v := p.valuesOf(&r)
	v.HubAlias, v.HubPath = "shopv1", r.Path
	for _, step := range []string{"controller", "core", "server-kind", "spoke", "webhook", "defaulting", "validation"} {
		files, err := render(currentTemplate(), step, v)
		require.NoError(t, err)
		for _, f := range files {
			if path.Ext(f.name) != ".go" {
				continue
			}
			for _, name := range namesIn(t, f) {
				if name != "shopv1" && endsWithVersion(name) && !slices.Contains(reservedForTypes, name) {
					t.Errorf("%s: reserve %s for types", f.name, name)
				}
				external := step == "controller" && path.Base(f.name) == "pizza_controller_test.go"
				if external && name != "shop" && name != "shopv1" && name != "_" &&
					!slices.Contains(reservedForControllers, name) {
					t.Errorf("%s: reserve %s for controllers", f.name, name)
				}
			}
		}
	}
}

// endsWithVersion reports whether a name has the form of the names of types' imports.
func endsWithVersion(name string) bool {
	for i := range name {
		if i > 0 && versionPattern.MatchString(name[i:]) {
			return true
		}
	}
	return false
}

// namesIn returns the names of imports and local variables of a file.
func namesIn(t *testing.T, f file) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), f.name, f.data, 0)
	require.NoError(t, err)
	var all []string
	for _, spec := range parsed.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		if name = path.Base(name); spec.Name != nil {
			name = spec.Name.Name
		}
		all = append(all, name)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if id, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE {
					all = append(all, id.Name)
				}
			}
		case *ast.FuncType:
			for _, field := range n.Params.List {
				for _, id := range field.Names {
					all = append(all, id.Name)
				}
			}
		}
		return true
	})
	return all
}

// The example in the message about a kind is a valid kind.
func TestKindInMessages(t *testing.T) {
	for kind, example := range map[string]string{"Thing-x": "ThingX", "thing": "Thing", "a-b": "AB"} {
		err := checkNames("shop", "v1", kind, "")
		if err == nil || !strings.Contains(err.Error(), strconv.Quote(example)) ||
			checkNames("shop", "v1", example, "") != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
