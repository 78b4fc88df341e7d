package explore_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
)

const shopDefinition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Shop, plural: shops}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

// project writes a project with one sample and a configuration.
func project(t *testing.T, config string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"config/crd/bases/shops.yaml": shopDefinition,
		"config/samples/shop.yaml":    "{apiVersion: example.com/v1, kind: Shop, metadata: {name: a}}\n---\n{apiVersion: example.com/v1, kind: Shop, metadata: {name: b}}\n",
		"config/explore/other.yaml":   "{apiVersion: example.com/v1, kind: Shop, metadata: {name: a}, spec: {}}",
		explore.ConfigFile:            config,
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o644))
	}
	return dir
}

// explore.yaml sets the inputs and invariants of a project.
func TestConfig(t *testing.T) {
	s, err := explore.Project(project(t, `
inputs:
- create: config/samples
- wait: 90m
- flip: config/explore/other.yaml
- delete: config/samples/shop.yaml
invariants:
- {name: few, kind: Shop, rule: all.Shop.size() < 3}
ignore: [shops.example.com status.at]
retained: [persistentvolumeclaims]
watchList: refused
quiet: 1m
horizon: 1h
reversible: true
keep: true
`), nil)
	require.NoError(t, err)
	var inputs []string
	for _, i := range s.Inputs {
		inputs = append(inputs, i.String())
	}
	want := []string{"create Shop a", "create Shop b", "wait 1h30m0s", "flip Shop a", "delete Shop a",
		"delete Shop b"}
	assert.Slicef(t, inputs, want, "inputs")
	if len(s.Invariants) != 1 || s.Invariants[0].Name != "few" || s.Invariants[0].Kind != "Shop" ||
		s.Invariants[0].Rule == "" {
		t.Errorf("invariants %+v", s.Invariants)
	}
	if !slices.Equal(s.Retained, []string{"persistentvolumeclaims"}) || s.WatchList != explore.WatchListRefused {
		t.Errorf("retained %q, watchList %q", s.Retained, s.WatchList)
	}
	if len(s.Ignore) != 1 || s.Quiet != time.Minute || s.Horizon != time.Hour || !s.Reversible || !s.Keep {
		t.Errorf("%+v", s)
	}
	if s, err = explore.Project(project(t, "quiet: 1m\n"), nil); err != nil || len(s.Inputs) != 2 {
		t.Errorf("without inputs: %v, %v, want the samples", s.Inputs, err)
	}
}

// A wrong explore.yaml is refused, with the field.
func TestRefusedConfig(t *testing.T) {
	for config, want := range map[string]string{
		"invariant: []":                         `explore.yaml: error unmarshaling JSON: while decoding JSON: json: unknown field "invariant"`,
		"inputs: [{wait: 1h, create: x.yaml}]":  "explore.yaml: inputs[0]: set one of create, apply, delete, flip, fields, wait and history",
		"inputs: [{}]":                          "explore.yaml: inputs[0]: set one of",
		"inputs: [{wait: 1h}, {apply: x.yaml}]": "x.yaml: no such file",
		"watchList: maybe":                      `explore.yaml: watchList: "maybe" is not one of "served" and "refused"`,
		"quiet: long":                           `invalid duration "long"`,
		"env: {A=B: c}":                         `explore.yaml: env: "A=B" is not the name of a variable`,
	} {
		_, err := explore.Project(project(t, config), nil)
		assert.ErrorContainsf(t, err, want, "%s", config)
	}
}

// write writes a file of a project.
func write(t *testing.T, dir, name, content string) {
	t.Helper()
	file := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(content), 0o644))
}

func namesOf(inputs []explore.Input) (names []string) {
	for _, i := range inputs {
		names = append(names, i.String())
	}
	return names
}

// explore.yaml has inputs of other controllers, and other operators as rules.
func TestConfigOfOthers(t *testing.T) {
	dir := project(t, `
inputs:
- create: config/samples/shop.yaml
- {apply: config/explore/other.yaml, subresource: status, as: "system:serviceaccount:a:b"}
- {create: config/explore/eviction.yaml, subresource: eviction, of: v1 Pod}
- fields: config/explore/other.yaml
simulate:
- kind: Certificate
  when: has(object.spec)
  status: {ready: true}
  creates: [{apiVersion: v1, kind: Secret, metadata: {name: "${object.spec.secretName}"}}]
`)
	write(t, dir, "config/explore/eviction.yaml", "{apiVersion: policy/v1, kind: Eviction, metadata: {name: web-0}}")
	s, err := explore.Project(dir, nil)
	require.NoError(t, err)
	want := []string{"create Shop a", "create Shop b", "apply status of Shop a", "create eviction of Pod web-0",
		"change the fields of Shop a"}
	assert.Slicef(t, namesOf(s.Inputs), want, "inputs")
	if len(s.Simulated) != 1 || s.Simulated[0].Kind != "Certificate" || s.Simulated[0].When == "" ||
		len(s.Simulated[0].Creates) != 1 || s.Simulated[0].Status["ready"] != true {
		t.Errorf("%+v", s.Simulated)
	}
	for config, want := range map[string]string{
		"inputs: [{wait: 1h, as: x}]":                                       "as and subresource need one of",
		"inputs: [{delete: config/samples/shop.yaml, subresource: status}]": "subresource needs apply, or create and of",
		"inputs: [{create: config/samples/shop.yaml, of: v1 Pod}]":          "of needs subresource",
	} {
		_, err := explore.Project(project(t, config), nil)
		assert.ErrorContainsf(t, err, want, "%s", config)
	}
}

// explore.yaml may contain the objects of inputs and prepare themselves.
func TestConfigWithObjects(t *testing.T) {
	const object = "{apiVersion: v1, kind: ConfigMap, metadata: {name: tea}, data: {a: b}}"
	dir := project(t, "inputs: [create: "+object+", {delete: "+object+", as: a:b}]\nprepare: ["+
		strings.Replace(object, "tea", "pot", 1)+", config/explore/other.yaml]\nwebhooks: []\n")
	write(t, dir, "config/explore/other.yaml", strings.Replace(object, "tea", "cup", 1))
	write(t, dir, "config/webhook/manifests.yaml", "{apiVersion: v1, kind: ConfigMap}") // not read
	s, err := explore.Project(dir, nil)
	require.NoError(t, err)
	if got, want := namesOf(s.Inputs), []string{"create ConfigMap tea", "delete ConfigMap tea"}; !slices.Equal(got, want) {
		t.Errorf("inputs %q, want %q", got, want)
	}
	assert.NoErrorf(t, explore.Check(t.Context(), s), "the objects")
	s.Inputs = []explore.Input{explore.Create(configMap("pot"))}
	if err := explore.Check(t.Context(), s); err == nil || !strings.Contains(err.Error(), `"pot" already exists`) {
		t.Errorf("prepare has the object: %v, want that it exists", err)
	}
	for config, want := range map[string]string{
		"inputs: [create: {kind: ConfigMap}]": "explore.yaml: error unmarshaling JSON: while decoding JSON: want an object with",
		"inputs: [create: 3]":                 "want the path of a manifest, or an object",
		"inputs: [create: [a.yaml]]":          "want the path of a manifest, or an object",
	} {
		_, err := explore.Project(project(t, config), nil)
		assert.ErrorContainsf(t, err, want, "%s", config)
	}
}

// The samples are those that kustomize builds. Others of the folder, and those with the name of
// another, are tried when those before were deleted.
func TestSamples(t *testing.T) {
	const shop = "{apiVersion: example.com/v1, kind: Shop, metadata: {name: %s}, spec: {%s}}"
	file := func(name, spec string) string {
		return strings.NewReplacer("%s}, ", name+"}, ", "{%s}}", "{"+spec+"}}").Replace(shop)
	}
	for name, test := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"kustomization": {map[string]string{
			"kustomization.yaml": "{resources: [shop.yaml], namePrefix: my-, namespace: shops, patches: [{path: patch.yaml}]}",
			"patch.yaml":         file("a", "open: true"),
			"other.yaml":         file("a", "size: 3") + "\n---\n" + file("c", ""),
		}, []string{"create Shop shops/my-a", "create Shop shops/my-b", "delete Shop shops/my-b",
			"delete Shop shops/my-a", "create Shop a", "create Shop c"}},
		"no resources": {map[string]string{"kustomization.yaml": "resources: []\n"},
			[]string{"create Shop a", "create Shop b"}},
		"the same name": {map[string]string{"shop2.yaml": file("a", "size: 3"), "shop3.yaml": file("a", "size: 4")},
			[]string{"create Shop a", "create Shop b", "delete Shop b", "delete Shop a", "create Shop a",
				"delete Shop a", "create Shop a"}},
		"versions of one name in the kustomization": {map[string]string{
			"kustomization.yaml": "resources: [shop.yaml, v2.yaml]\n",
			"v2.yaml":            strings.Replace(file("a", ""), "/v1", "/v2", 1),
		}, []string{"create Shop a", "create Shop b", "delete Shop b", "delete Shop a", "create Shop a"}},
	} {
		dir := project(t, "")
		for file, content := range test.files {
			write(t, dir, filepath.Join("config/samples", file), content)
		}
		s, err := explore.Project(dir, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		assert.Slicef(t, namesOf(s.Inputs), test.want, "%s: inputs", name)
	}
	dir := project(t, "")
	write(t, dir, "config/samples/kustomization.yaml", "resources: [missing.yaml]")
	if _, err := explore.Project(dir, nil); err == nil ||
		!strings.Contains(err.Error(), "lists a file that does not exist: stat ") ||
		!strings.Contains(err.Error(), "missing.yaml") || strings.Contains(err.Error(), "no samples") {
		t.Errorf("a missing file: %v", err)
	}
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "config/samples")))
	_, err := explore.Project(dir, nil)
	assert.ErrorContainsf(t, err, "name manifests in inputs in explore.yaml", "no folder")
}

// A project without a ServiceAccount can be explored with all rights, and a warning unless
// explore.yaml confirms that.
func TestRights(t *testing.T) {
	const account, role = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: %, namespace: a}}\n---\n",
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: r}}"
	for name, test := range map[string]struct{ roles, config, warning, err string }{
		"no account":            {role, "", "has no ServiceAccount, so the operator has all rights", ""},
		"confirmed":             {role, "roles: []", "", ""},
		"one account":           {strings.Replace(account, "%", "one", 1) + role, "", "", ""},
		"the manager's account": {"", "", "", ""},
		"two accounts": {strings.Replace(account, "%", "one", 1) + strings.Replace(account, "%", "two", 1), "",
			"", "got 2 (system:serviceaccount:a:one, system:serviceaccount:a:two); name the files of one of them in roles in explore.yaml"},
		"no account in a file": {role, "roles: [config/rbac/role.yaml]", "",
			"got 0; roles in explore.yaml lists the files of the operator's rights, and roles: [] gives it all rights"},
		"no folder": {"", "", "", ""},
		"another role": {strings.Replace(account, "%", "one", 1) + strings.Replace(role, "metadata: {name: r}",
			"metadata: {name: b}, roleRef: {kind: ClusterRole, name: prefix-r}", 1), "",
			"names the ClusterRole prefix-r, which does not exist, so it gives no rights", ""},
		"a role of Kubernetes": {strings.Replace(account, "%", "one", 1) + strings.Replace(role, "metadata: {name: r}",
			"metadata: {name: b}, roleRef: {kind: ClusterRole, name: view}", 1), "", "", ""},
	} {
		dir := project(t, test.config)
		if test.roles != "" {
			write(t, dir, "config/rbac/role.yaml", test.roles)
		}
		if name == "the manager's account" {
			write(t, dir, "config/rbac/one.yaml", strings.Replace(account, "%", "one", 1)+role)
			write(t, dir, "config/rbac/two.yaml", strings.Replace(account, "%", "two", 1))
			write(t, dir, "config/manager/manager.yaml", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, "+
				"spec: {template: {spec: {serviceAccountName: two}}}}")
		}
		s, err := explore.Project(dir, nil)
		if test.err != "" || err != nil {
			if err == nil || !strings.Contains(err.Error(), test.err) || test.err == "" {
				t.Errorf("%s: %v, want %q", name, err, test.err)
			}
			continue
		}
		if got := strings.Join(explore.WarningsOf(s), "\n"); !strings.Contains(got, test.warning) ||
			test.warning == "" && got != "" {
			t.Errorf("%s: warnings %q, want %q", name, got, test.warning)
		}
	}
}
