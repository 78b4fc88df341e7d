package toolchain_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain"
)

// finalizeTypes declares the kinds Pot and Cup in the group a.example.com.
const finalizeTypes = `-- api/v1/t.go --
// +groupName=a.example.com
// +kubebuilder:object:generate=true
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +kubebuilder:object:root=true
type Pot struct {
	metav1.TypeMeta   ` + "`json:\",inline\"`" + `
	metav1.ObjectMeta ` + "`json:\"metadata,omitempty\"`" + `
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=crockery
type Cup struct {
	metav1.TypeMeta   ` + "`json:\",inline\"`" + `
	metav1.ObjectMeta ` + "`json:\"metadata,omitempty\"`" + `
}
`

// finalizeProject writes a project that requires the operator library, with one package of
// controllers.
func finalizeProject(t *testing.T, markers, controller string) string {
	t.Helper()
	dir, _ := writeProject(t, txtar.Parse([]byte(finalizeTypes)))
	library, err := filepath.Abs("../operator")
	require.NoError(t, err)
	write(t, dir, "go.mod", goMod+"\nrequire kelson.dev/operator v0.0.0\n\nreplace kelson.dev/operator => "+library+
		"\n\nreplace kelson.dev/internal => "+filepath.Join(filepath.Dir(library), "internal")+"\n")
	write(t, dir, "internal/controller/c.go", `package controller

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/operator"
	"kelson.dev/operator/reconcile"

	v1 "example.com/shapes/api/v1"
)
`+markers+`
type reconciler struct{}

`+controller)
	return dir
}

// rules returns the rules of config/rbac/role.yaml, each as "ROLE GROUPS RESOURCES NAMES VERBS".
func rules(t *testing.T, dir string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "config/rbac/role.yaml"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	var all []string
	for doc := range strings.SplitSeq(strings.TrimPrefix(string(data), "---\n"), "\n---\n") {
		var role rbacv1.Role
		require.NoError(t, yaml.UnmarshalStrict([]byte(doc), &role))
		name := role.Name
		if role.Namespace != "" {
			name = role.Namespace + "/" + name
		}
		for _, r := range role.Rules {
			all = append(all, strings.Join([]string{name, strings.Join(r.APIGroups, ";"),
				strings.Join(r.Resources, ";"),
				strings.Join(r.ResourceNames, ";"), strings.Join(r.Verbs, ";")}, " "))
		}
	}
	return all
}

// A reconciler with a method Finalize gets its finalizer by a patch of the object, so the role of
// the operator gets the verb patch for the object's resource.
func TestFinalizeGrantsPatch(t *testing.T) {
	const finalize = "func (*reconciler) Finalize(ctx context.Context, obj *v1.Pot) (operator.Result, error) { return operator.Result{}, nil }\n"
	const watch = "// +kubebuilder:rbac:groups=a.example.com,resources=pots,verbs=get;list;watch"
	for _, test := range []struct {
		name, markers, controller string
		want                      []string
	}{
		{"next to the rule for reading", watch + "\n", finalize,
			[]string{"manager-role a.example.com pots  get;list;patch;watch"}},
		{"in a package without markers", "", finalize,
			[]string{"manager-role a.example.com pots  patch"}},
		{"the result type of another import", watch + "\n", strings.ReplaceAll(finalize, "operator.", "reconcile."),
			[]string{"manager-role a.example.com pots  get;list;patch;watch"}},
		{"the plural that the kind names", "", strings.ReplaceAll(finalize, "Pot", "Cup"),
			[]string{"manager-role a.example.com crockery  patch"}},
		{"a kind of Kubernetes", "", strings.ReplaceAll(finalize, "v1.Pot", "appsv1.Deployment"),
			[]string{"manager-role apps deployments  patch"}},
		{"a kind of the core group", "", strings.ReplaceAll(finalize, "v1.Pot", "corev1.Endpoints"),
			[]string{"manager-role  endpoints  patch"}},
		{"already granted", "// +kubebuilder:rbac:groups=\"*\",resources=\"*\",verbs=\"*\"\n", finalize,
			[]string{"manager-role * *  *"}},
		{"in the Roles of namespaces", watch + ",namespace=one\n" + watch + ",namespace=two\n", finalize,
			[]string{"one/manager-role a.example.com pots  get;list;patch;watch",
				"two/manager-role a.example.com pots  get;list;patch;watch"}},
		{"not in a role for readers", watch + "\n" + watch + ",roleName=reader\n", finalize,
			[]string{"manager-role a.example.com pots  get;list;patch;watch",
				"reader a.example.com pots  get;list;watch"}},
		{"in the only role", watch + ",roleName=brewer\n", finalize,
			[]string{"brewer a.example.com pots  get;list;patch;watch"}},
		{"for the same object names", watch + ",resourceNames=green\n", finalize,
			[]string{"manager-role a.example.com pots green get;list;patch;watch"}},
		{"no Finalize", watch + "\n", "", []string{"manager-role a.example.com pots  get;list;watch"}},
		{"another signature", watch + "\n", "func (*reconciler) Finalize(obj *v1.Pot) error { return nil }\n",
			[]string{"manager-role a.example.com pots  get;list;watch"}},
		{"another result", watch + "\n", "type result struct{}\nfunc (*reconciler) Finalize(ctx context.Context, obj *v1.Pot) (result, error) { return result{}, nil }\n",
			[]string{"manager-role a.example.com pots  get;list;watch"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := finalizeProject(t, test.markers, test.controller)
			res, err := toolchain.Generate(t.Context(), toolchain.Options{Dir: dir, Generators: []string{"rbac"}})
			if err != nil || len(res.Warnings) > 0 {
				t.Fatal(res.Warnings, err)
			}
			assert.Slicef(t, rules(t, dir), test.want, "rules")
		})
	}
}

// After a method Finalize is added, a check fails until the role is generated again.
func TestFinalizeMakesRoleStale(t *testing.T) {
	const watch = "// +kubebuilder:rbac:groups=a.example.com,resources=pots,verbs=get;list;watch\n"
	dir := finalizeProject(t, watch, "")
	generate := func(check bool) (toolchain.Result, error) {
		return toolchain.Generate(t.Context(), toolchain.Options{Dir: dir, Check: check})
	}
	_, err := generate(false)
	require.NoError(t, err)
	_, err = generate(true)
	require.NoError(t, err)
	src, err := os.ReadFile(filepath.Join(dir, "internal/controller/c.go"))
	require.NoError(t, err)
	write(t, dir, "internal/controller/c.go", string(src)+
		"func (*reconciler) Finalize(ctx context.Context, obj *v1.Pot) (operator.Result, error) { return operator.Result{}, nil }\n")
	_, err = generate(true)
	assert.ErrorIsf(t, err, toolchain.ErrStale, "check after Finalize was added")
}

// The generator cannot determine the resource of an unstructured object, so it requests a marker.
func TestFinalizeOfUnstructured(t *testing.T) {
	const finalize = "func (*reconciler) Finalize(ctx context.Context, obj *unstructured.Unstructured) (operator.Result, error) { return operator.Result{}, nil }\n"
	for verbs, want := range map[string]string{"get;list;watch": "verbs=patch", "get;list;watch;patch": ""} {
		dir := finalizeProject(t, "// +kubebuilder:rbac:groups=a.example.com,resources=pots,verbs="+verbs+"\n",
			finalize)
		res, err := toolchain.Generate(t.Context(), toolchain.Options{Dir: dir, Generators: []string{"rbac"}})
		require.NoError(t, err)
		if want == "" && len(res.Warnings) > 0 {
			t.Errorf("with verbs=%s, the warnings are %v, want none", verbs, res.Warnings)
		}
		if want != "" && (len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0].Error(), want)) {
			t.Errorf("with verbs=%s, the warnings are %v, want one with %q", verbs, res.Warnings, want)
		}
	}
}
