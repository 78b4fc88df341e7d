package kubernetes_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// mapolicy returns a mutating policy for some resources, and its binding.
func mapolicy(name, resources, spec string) string {
	return `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: ` + name + `}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [` + resources + `]}]
` + spec + `
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: ` + name + `}
spec: {policyName: ` + name + `}`
}

func applies(reinvocation, expression string) string {
	return `  reinvocationPolicy: ` + reinvocation + `
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "` + expression + `"}}]`
}

func patches(reinvocation, expression string) string {
	return `  reinvocationPolicy: ` + reinvocation + `
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: "` + expression + `"}}]`
}

const plainPod = `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}`

// Policies change built-in and custom objects, by apply configurations and JSON patches, under
// their conditions and with variables. With IfNeeded, a policy runs again after changes by others.
func TestMutatingPolicies(t *testing.T) {
	widget := func(version string) string {
		return `{apiVersion: shop.example/` + version +
			`, kind: Widget, metadata: {name: w}, spec: {size: 1, tags: [a], parts: [{name: x, count: 1}]}}`
	}
	for _, test := range []struct{ name, policy, object, path, want string }{
		{"apply", mapolicy("m", "configmaps",
			applies("Never", `Object{metadata: Object.metadata{labels: {'by': 'policy'}}}`)),
			configMapPolicy("cm", "{a: '1'}"), "metadata.labels", "map[by:policy]"},
		{"JSON patch", mapolicy("m", "configmaps",
			patches("Never", `[JSONPatch{op: 'add', path: '/data/b', value: '2'}]`)), configMapPolicy("cm", "{a: '1'}"),
			"data", "map[a:1 b:2]"},
		{"JSON patch with a test that fails", mapolicy("m", "configmaps",
			patches("Never", `[JSONPatch{op: 'test', path: '/data/a', value: 'x'}, JSONPatch{op: 'add', path: '/data/b', value: '2'}]`)),
			configMapPolicy("cm", "{a: '1'}"), "data", "map[a:1]"},
		{"list of maps", mapolicy("m", "pods",
			applies("Never", `Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: 'side', image: 'x'}]}}`)),
			plainPod, "spec.initContainers", "side"},
		{"condition", mapolicy("m", "configmaps", `  matchConditions: [{name: c, expression: "object.metadata.name == 'other'"}]
`+applies("Never", `Object{metadata: Object.metadata{labels: {'by': 'policy'}}}`)), configMapPolicy("cm", "{}"), "metadata.labels", "<nil>"},
		{"variables", mapolicy("m", "configmaps", `  variables: [{name: who, expression: "request.userInfo.username"}]
`+applies("Never", `Object{metadata: Object.metadata{labels: {'by': variables.who}}}`)), configMapPolicy("cm", "{}"), "metadata.labels", "map[by:kelson-admin]"},
		{"custom", mapolicy("m", "widgets", applies("Never",
			`Object{spec: Object.spec{tags: ['b'], parts: [Object.spec.parts{name: 'y', count: 2}]}}`)), widget("v1"),
			"spec",
			"map[parts:[map[count:1 name:x] map[count:2 name:y]] size:1 tags:[a b]]"},
		{"custom, in a version other than the stored one",
			mapolicy("m", "widgets", applies("Never", `Object{spec: Object.spec{size: 9}}`)), widget("v2"), "spec.size",
			"9"},
		{"reinvoked", mapolicy("a", "configmaps", `  matchConditions: [{name: c, expression: "!('a' in object.data) || object.data.a != 'aa'"}]
`+patches("IfNeeded", `[JSONPatch{op: 'add', path: '/data/a', value: has(object.data.b) ? 'aa' : 'a'}]`)) + "\n---\n" +
			mapolicy("b", "configmaps", patches("Never", `[JSONPatch{op: 'add', path: '/data/b', value: 'b'}]`)),
			configMapPolicy("cm", "{own: '1'}"), "data", "map[a:aa b:b own:1]"},
		{"not reinvoked", mapolicy("a", "configmaps",
			patches("Never", `[JSONPatch{op: 'add', path: '/data/a', value: has(object.data.b) ? 'aa' : 'a'}]`)) +
			"\n---\n" +
			mapolicy("b", "configmaps", patches("Never", `[JSONPatch{op: 'add', path: '/data/b', value: 'b'}]`)),
			configMapPolicy("cm", "{own: '1'}"), "data", "map[a:a b:b own:1]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := startPolicy(t, widgetsPolicy, test.policy)
			made := p.must(t, test.object)
			got := fmt.Sprint(field(made, test.path))
			if test.name == "list of maps" {
				if list, _ := field(made, test.path).([]any); len(list) != 1 ||
					list[0].(map[string]any)["name"] != "side" ||
					list[0].(map[string]any)["imagePullPolicy"] != "Always" {
					t.Errorf("%s = %v", test.path, list) // the new container also gets defaults
				}
				return
			}
			assert.Equalf(t, got, test.want, "%s", test.path)
		})
	}
}

// Parameters, updates, and mutations that are not allowed.
func TestMutatingPolicyWithParameters(t *testing.T) {
	policy := mapolicy("m", "secrets", `  paramKind: {apiVersion: v1, kind: ConfigMap}
`+applies("Never", `Object{metadata: Object.metadata{labels: {'by': params.data.who}}}`))
	p := startPolicy(t, configMapPolicy("params", "{who: me}"), policy[:len(policy)-1]+
		`, paramRef: {name: params, parameterNotFoundAction: Deny}}`)
	made := p.must(t, `{apiVersion: v1, kind: Secret, metadata: {name: s}}`)
	assert.Equalf(t, fmt.Sprint(field(made, "metadata.labels")), "map[by:me]", "labels")
	after, err := p.objects(t, made).Patch(t.Context(), "s", types.MergePatchType,
		[]byte(`{"metadata":{"labels":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	assert.Equalf(t, fmt.Sprint(field(after, "metadata.labels")), "map[by:me]", "labels after an update")
}

// An apply configuration can't set an atomic list; the failure policy applies.
func TestMutatingPolicyThatFails(t *testing.T) {
	spec := applies("Never", `Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', command: ['x']}]}}`)
	p := startPolicy(t, mapolicy("m", "pods", spec))
	p.refuses(t, plainPod, "policy 'm' with binding 'm' denied request: error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.containers[0].command")
	p = startPolicy(t, mapolicy("m", "pods", "  failurePolicy: Ignore\n"+spec))
	p.must(t, plainPod)
}
