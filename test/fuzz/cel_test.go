package fuzz

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"kelson.dev/internal/require"
)

// expressions are CEL expressions: valid and invalid, cheap and expensive.
var expressions = []string{
	`self.x.startsWith('a') && self.l.all(i, i > 0)`,
	`self.l.map(i, self.l.map(j, self.l.filter(k, k == i + j))).size() < 5`, `self == oldSelf`,
	`has(self.x) ? self.x.matches('^(a+)+$') : true`,
	`quantity(self.x).isGreaterThan(quantity('1Gi'))`, `object.metadata.name != 'x' && request.operation == 'CREATE'`,
	`object.data.all(k, k.size() < 9)`, `variables.v + params.x`,
	`authorizer.group('').resource('pods').namespace('default').check('get').allowed()`,
	`namespaceObject.metadata.labels['a'] == 'b'`, `1 / 0 == 0`, `'a'.format([1])`, `"%s".format([self])`,
	`Object{metadata: Object.metadata{labels: {'a': 'b'}}}`, `[JSONPatch{op: 'add', path: '/data/b', value: '2'}]`,
	`[JSONPatch{op: 'copy', from: '', path: '/data'}]`, `((((((((1))))))))`, `x ? y`, "\x00", `dyn(self)`,
	`cel.bind(a, self.l, a + a).exists_one(i, i == 1)`, `self.l.sum() + duration('1h')`,
	`url('http://a').getHost() + ip('::1')`, `[1,2,3].map(a, [1,2,3].map(b, [1,2,3].map(c, [1,2,3])))`,
	`'\x{ffffffff}'`, `b'\xff'`,
	`self.matches('[[:word:]]{1000}{1000}')`, `self.x.split('').join('')`, `sets.contains([1], [2])`,
	`optional.of(self.?x.orValue('y'))`,
}

// FuzzRule checks validation rules of custom kinds, when they are compiled and evaluated.
func FuzzRule(f *testing.F) {
	p := start(f)
	for i, rule := range expressions {
		f.Add(rule, expressions[(i+1)%len(expressions)], `{"x":"aab","l":[1,2,3]}`)
	}
	f.Fuzz(func(t *testing.T, rule, message, value string) {
		definition := map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": "rules.x.io"},
			"spec": map[string]any{"group": "x.io", "scope": "Cluster",
				"names": map[string]any{"plural": "rules", "kind": "Rule"}, "versions": []any{map[string]any{
					"name": "v1", "served": true, "storage": true,
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
						"properties": map[string]any{"spec": map[string]any{
							"type": "object", "properties": map[string]any{"x": map[string]any{"type": "string",
								"maxLength": 100},
								"l": map[string]any{"type": "array", "maxItems": 20,
									"items": map[string]any{"type": "integer"}}},
							"x-kubernetes-validations": []any{
								map[string]any{"rule": rule, "messageExpression": message}},
						}}}},
				}}},
		}
		made := p.do(t, "POST", definitions, "", encoded(t, definition), "application/json")
		if made.code != http.StatusCreated {
			refused(t, made)
			return
		}
		defer p.remove(t, definitions, made)
		p.do(t, "POST", "/apis/x.io/v1/rules", "",
			`{"apiVersion":"x.io/v1","kind":"Rule","metadata":{"name":"a"},"spec":`+value+`}`, "application/json")
		p.do(t, "DELETE", "/apis/x.io/v1/rules/a", "", "", "")
	})
}

// FuzzPolicy checks the expressions of policies: validations, messages and mutations.
func FuzzPolicy(f *testing.F) {
	const group = "/apis/admissionregistration.k8s.io/v1/"
	p := start(f, [2]string{group + "validatingadmissionpolicybindings",
		`{metadata: {name: v}, spec: {policyName: v, validationActions: [Deny]}}`},
		[2]string{group + "mutatingadmissionpolicybindings", `{metadata: {name: m}, spec: {policyName: m}}`})
	for i, e := range expressions {
		for n := range uint8(4) {
			f.Add(n, e, expressions[(i+1)%len(expressions)])
		}
	}
	match := map[string]any{"resourceRules": []any{map[string]any{"apiGroups": []string{"*"},
		"apiVersions": []string{"*"}, "operations": []string{"CREATE"},
		"resources": []string{"configmaps", "widgets"}}}}
	f.Fuzz(func(t *testing.T, place uint8, expression, other string) {
		spec := map[string]any{"matchConstraints": match}
		collection, name := group+"validatingadmissionpolicies", "v"
		switch place % 4 {
		case 0:
			spec["validations"] = []any{map[string]any{"expression": expression, "messageExpression": other}}
		case 1:
			spec["variables"] = []any{map[string]any{"name": "v", "expression": other}}
			spec["matchConditions"] = []any{map[string]any{"name": "c", "expression": expression}}
			spec["auditAnnotations"] = []any{map[string]any{"key": "k", "valueExpression": other}}
			spec["validations"] = []any{map[string]any{"expression": "variables.v == 1"}}
		case 2:
			collection, name = group+"mutatingadmissionpolicies", "m"
			spec["reinvocationPolicy"], spec["mutations"] = "Never",
				[]any{map[string]any{"patchType": "ApplyConfiguration",
					"applyConfiguration": map[string]any{"expression": expression}}}
		default:
			collection, name = group+"mutatingadmissionpolicies", "m"
			spec["reinvocationPolicy"], spec["mutations"] = "IfNeeded",
				[]any{map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]any{"expression": expression}}}
		}
		made := p.do(t, "POST", collection, "",
			encoded(t, map[string]any{"metadata": map[string]any{"name": name}, "spec": spec}), "application/json")
		if made.code != http.StatusCreated {
			refused(t, made)
			return
		}
		defer p.remove(t, collection, made)
		for _, kind := range [][2]string{kinds[0], kinds[9]} {
			p.do(t, "POST", kind[0], "dryRun=All", kind[1], yaml)
		}
	})
}

// FuzzSchema checks schemas of custom kinds, and their objects.
func FuzzSchema(f *testing.F) {
	p := start(f)
	for _, s := range []string{
		`{"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"string","pattern":"(","default":1}}}}}`, `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`,
		`{"type":"object","properties":{"spec":{"type":"array","items":{"type":"object","properties":{"k":{"type":"string"}}},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"]}}}`,
		`{"type":"object","properties":{"spec":{"type":"object","additionalProperties":{"type":"integer","multipleOf":0,"minimum":1e400}}}}`, `{"$ref":"#/x"}`, `{"type":"object","allOf":[{"not":{"anyOf":[{}]}}]}`,
		`{"type":"object","properties":{"metadata":{"type":"object","properties":{"name":{"type":"string","maxLength":3}}}}}`, `{"type":"string"}`, `null`,
		`{"type":"object","properties":{"spec":{"type":"object","nullable":true,"default":null,"x-kubernetes-map-type":"atomic","format":"duration","enum":[{}]}}}`,
	} {
		f.Add([]byte(s), []byte(`{"a":[1,{"k":"v"}],"b":null}`))
	}
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		made := p.do(t, "POST", definitions, "", fmt.Sprintf(`{"metadata":{"name":"rules.x.io"},"spec":{"group":"x.io","scope":"Cluster","names":{"plural":"rules","kind":"Rule"},
			"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":%s}}]}}`, schema), "application/json")
		if made.code != http.StatusCreated {
			refused(t, made)
			return
		}
		defer p.remove(t, definitions, made)
		p.do(t, "POST", "/apis/x.io/v1/rules", "",
			fmt.Sprintf(`{"apiVersion":"x.io/v1","kind":"Rule","metadata":{"name":"a"},"spec":%s}`, value),
			"application/json")
		p.do(t, "PATCH", "/apis/x.io/v1/rules/a", "fieldManager=f&force=true",
			fmt.Sprintf(`{"apiVersion":"x.io/v1","kind":"Rule","spec":%s}`, value), "application/apply-patch+yaml")
		for _, path := range []string{"/openapi/v3/apis/x.io/v1", "/openapi/v2"} {
			if got := p.do(t, "GET", path, "", "", ""); got.code != http.StatusOK {
				t.Errorf("%s with the schema %s: %d %s", path, schema, got.code, got.body)
			}
		}
		if got := p.do(t, "GET", "/apis/x.io/v1/rules/a", "", "", ""); got.code != http.StatusOK &&
			got.code != http.StatusNotFound {
			t.Errorf("read: %d %s", got.code, got.body)
		}
		p.do(t, "DELETE", "/apis/x.io/v1/rules/a", "", "", "")
	})
}

// refused reports whether a response is a well-formed refusal.
func refused(t *testing.T, a answer) {
	t.Helper()
	if a.code != http.StatusBadRequest && a.code != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", a.code, a.body)
	}
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}
