package adapter_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var ourPackages = map[string]string{
	"operator": ".", "strategic": "client/strategic", "client": "client", "controller": "controller",
	"reconcile": "reconcile", "manager": "manager", "informer": "informer",
	"webhook": "webhook", "leader": "leader", "events": "events", "trace": "trace", "operatortest": "operatortest",
	"adapter": "adapter",
}

var theirPackages = map[string]string{
	"ctrl": ".", "manager": "pkg/manager", "cache": "pkg/cache", "cluster": "pkg/cluster", "healthz": "pkg/healthz",
	"metrics": "pkg/metrics",
	"log":     "pkg/log", "reconcile": "pkg/reconcile", "builder": "pkg/builder", "controller": "pkg/controller",
	"event":     "pkg/event",
	"predicate": "pkg/predicate", "handler": "pkg/handler", "source": "pkg/source", "client": "pkg/client",
	"controllerutil": "pkg/controller/controllerutil", "recorder": "pkg/recorder", "admission": "pkg/webhook/admission",
	"conversion": "pkg/conversion", "webhook": "pkg/webhook", "envtest": "pkg/envtest",
}

// names returns the names that a package declares: Name, and Name.Member of types.
func names(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	must(t, err)
	found := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		must(t, err)
		for _, d := range f.Decls {
			declared(d, found)
		}
	}
	return found
}

func declared(d ast.Decl, found map[string]bool) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			found[d.Name.Name] = true
			return
		}
		for _, typeName := range idents(d.Recv.List[0].Type) {
			found[typeName+"."+d.Name.Name] = true
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					found[name.Name] = true
				}
			case *ast.TypeSpec:
				found[spec.Name.Name] = true
				ast.Inspect(spec.Type, func(n ast.Node) bool {
					if field, ok := n.(*ast.Field); ok {
						for _, name := range field.Names {
							found[spec.Name.Name+"."+name.Name] = true
						}
					}
					return true
				})
				// An alias, or an instance of a generic type, has the members of its target.
				for _, other := range idents(spec.Type) {
					found[spec.Name.Name+"="+other] = true
				}
			}
		}
	}
}

func idents(e ast.Expr) []string {
	var all []string
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			all = append(all, id.Name)
		}
		return true
	})
	return all
}

// has reports whether a name is declared, by the package or by the target of its type.
func has(found map[string]bool, name string) bool {
	if found[name] {
		return true
	}
	typeName, member, ok := strings.Cut(name, ".")
	if !ok {
		return false
	}
	for each := range found {
		if other, is := strings.CutPrefix(each, typeName+"="); is && other != typeName && found[other+"."+member] {
			return true
		}
	}
	return false
}

// All names in docs/guides/coming-from-controller-runtime.md exist, those of controller-runtime and
// ours.
func TestNamesOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/guides/coming-from-controller-runtime.md")
	must(t, err)
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/controller-runtime").Output()
	must(t, err)
	sides := []struct {
		root     string
		packages map[string]string
		known    map[string]map[string]bool
	}{
		{strings.TrimSpace(string(dir)), theirPackages, map[string]map[string]bool{}},
		{"..", ourPackages, map[string]map[string]bool{}},
	}
	quoted := regexp.MustCompile("`([a-z0-9]+)\\.([A-Z][A-Za-z.]*)`")
	checked := 0
	for _, line := range strings.Split(string(page), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for i, s := range sides {
			for _, match := range quoted.FindAllStringSubmatch(cells[i+1], -1) {
				pkg, name := match[1], match[2]
				folder, ok := s.packages[pkg]
				if !ok {
					if pkg != "metav1" && pkg != "retry" {
						t.Errorf("%s: unknown package %s", match[0], pkg)
					}
					continue
				}
				if s.known[pkg] == nil {
					s.known[pkg] = names(t, filepath.Join(s.root, folder))
				}
				if checked++; !has(s.known[pkg], name) {
					t.Errorf("%s does not exist in %s", match[0], filepath.Join(s.root, folder))
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d names were found", checked)
	}
}

// All names in the rules of kelson vet --migrate, and in their advice, exist.
func TestNamesOfTheRules(t *testing.T) {
	source, err := os.ReadFile("../../toolchain/vet/migrate/rules.go")
	must(t, err)
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/controller-runtime").Output()
	must(t, err)
	folders := maps.Clone(theirPackages)
	folders["cacheapi"], folders["priorityqueue"] = "pkg/cache/cacheapi", "pkg/controller/priorityqueue"
	known := map[string]map[string]bool{}
	rules := 0
	for _, match := range regexp.MustCompile(`(?m)^\t"([a-z]+)\.([A-Z][A-Za-z.]*)":`).
		FindAllStringSubmatch(string(source), -1) {
		pkg, name := match[1], match[2]
		if known[pkg] == nil {
			known[pkg] = names(t, filepath.Join(strings.TrimSpace(string(dir)), folders[pkg]))
		}
		if rules++; !has(known[pkg], name) {
			t.Errorf("%s.%s does not exist in controller-runtime", pkg, name)
		}
	}
	if rules < 60 {
		t.Errorf("only %d rules were found", rules)
	}
}
