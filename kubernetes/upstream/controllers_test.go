package upstream_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"kelson.dev/kubernetes/controlplane"
)

const managerApp = "k8s.io/kubernetes/cmd/kube-controller-manager/app"

// constants returns the string constants of a package by name.
func constants(t *testing.T, path string) map[string]string {
	t.Helper()
	values := map[string]string{}
	for name, node := range declarationsOf(t, path) {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for i, id := range spec.Names {
			if id.Name != name || i >= len(spec.Values) {
				continue
			}
			if lit, ok := spec.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				values[name], _ = strconv.Unquote(lit.Value)
			}
		}
	}
	return values
}

// controllerNames returns the names of the controllers that NewControllerDescriptors of
// kube-controller-manager registers.
func controllerNames(t *testing.T) []string {
	t.Helper()
	named := constants(t, "k8s.io/kubernetes/cmd/kube-controller-manager/names")
	functions := declarationsOf(t, managerApp)
	var all []string
	register := functions["NewControllerDescriptors"]
	if register == nil {
		t.Fatal("NewControllerDescriptors does not exist in this version of Kubernetes")
	}
	ast.Inspect(register, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if f, ok := call.Fun.(*ast.Ident); !ok || f.Name != "register" {
			return true
		}
		constructor := call.Args[0].(*ast.CallExpr).Fun.(*ast.Ident).Name
		name := ""
		ast.Inspect(functions[constructor], func(n ast.Node) bool {
			if kv, ok := n.(*ast.KeyValueExpr); ok && ident(kv.Key) == "name" {
				name = named[ident(kv.Value)]
			}
			return true
		})
		if name == "" {
			t.Errorf("%s: no name found in the descriptor", constructor)
		}
		all = append(all, name)
		return true
	})
	return all
}

// ident returns the name of an identifier or of a selector.
func ident(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// kelson runs each controller of kube-controller-manager, or controllers.txt has the reason.
func TestControllers(t *testing.T) {
	theirs, ours := controllerNames(t), controlplane.ControllerNames()
	if len(theirs) < 40 {
		t.Errorf("only %d controllers found", len(theirs))
	}
	decided := map[string]map[string]bool{"not-run": {}, "own": {}}
	for _, row := range rows(t, "controllers.txt") {
		if len(row) < 5 || decided[row[0]] == nil {
			t.Errorf("controllers.txt: %q has not the form: not-run or own, name, reason", row)
			continue
		}
		decided[row[0]][row[1]] = true
	}
	for _, name := range theirs {
		if runs := slices.Contains(ours, name); runs == decided["not-run"][name] {
			t.Errorf("%s: in --controllers: %v; in controllers.txt as not-run: %v", name, runs, !runs)
		}
	}
	for _, name := range ours {
		if own := !slices.Contains(theirs, name); own != decided["own"][name] {
			t.Errorf("%s: in kube-controller-manager: %v; in controllers.txt as own: %v", name, !own,
				decided["own"][name])
		}
	}
	for name := range decided["not-run"] {
		if !slices.Contains(theirs, name) {
			t.Errorf("controllers.txt: %s is not a controller of this version of Kubernetes", name)
		}
	}
	for name := range decided["own"] {
		if !slices.Contains(ours, name) {
			t.Errorf("controllers.txt: %s is not in --controllers", name)
		}
	}
}
