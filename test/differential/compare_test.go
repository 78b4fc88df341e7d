package main

import (
	"testing"

	"kelson.dev/internal/require"
)

// The comparison ignores random orders, but compares the contents of the lists.
func TestOrders(t *testing.T) {
	for _, test := range []struct {
		name, peer, kelson string
		differ             bool
	}{
		{"rules in another order", `{"resourceRules":[{"verbs":["get"]},{"verbs":["list"]}]}`,
			`{"resourceRules":[{"verbs":["list"]},{"verbs":["get"]}]}`, false},
		{"another rule", `{"resourceRules":[{"verbs":["get"]}]}`, `{"resourceRules":[{"verbs":["list"]}]}`, true},
		{"verbs in another order", `{"verbs":["get","list"]}`, `{"verbs":["list","get"]}`, true},
		{"errors of claim templates",
			`{"causes":[{"message":"Required value","field":"spec.volumes[0].claimName"},{"message":"Invalid value","field":"spec.volumes[1].name"}]}`,
			`{"causes":[{"message":"Invalid value","field":"spec.volumes[0].name"},{"message":"Required value","field":"spec.volumes[1].claimName"}]}`, false},
		{"another error of claim templates",
			`{"causes":[{"message":"Required value","field":"spec.volumes[0].claimName"}]}`,
			`{"causes":[{"message":"Required value","field":"spec.volumes[0].name"}]}`, true},
		{"generated names",
			`{"items":[{"metadata":{"name":"a-gen-bbbbb","resourceVersion":"7"},"x":2},{"metadata":{"name":"a-gen-ccccc","resourceVersion":"5"},"x":1}]}`,
			`{"items":[{"metadata":{"name":"a-gen-fffff","resourceVersion":"3"},"x":1},{"metadata":{"name":"a-gen-ggggg","resourceVersion":"4"},"x":2}]}`, false},
		{"another object with a generated name",
			`{"items":[{"metadata":{"name":"a-gen-bbbbb","resourceVersion":"7"},"x":2}]}`,
			`{"items":[{"metadata":{"name":"a-gen-fffff","resourceVersion":"3"},"x":1}]}`, true},
		{"deletion of random names",
			`[{"type":"DELETED","object":{"metadata":{"name":"4f978538-a40a-4e7e-a482-64f2e3fca06d"}}},{"type":"DELETED","object":{"metadata":{"name":"a"}}}]`,
			`[{"type":"DELETED","object":{"metadata":{"name":"a"}}},{"type":"DELETED","object":{"metadata":{"name":"b92df800-6127-4956-8285-d328da381148"}}}]`, false},
		{"another event of a random name",
			`[{"type":"ADDED","object":{"metadata":{"name":"4f978538-a40a-4e7e-a482-64f2e3fca06d"}}},{"type":"DELETED","object":{"metadata":{"name":"a"}}}]`,
			`[{"type":"DELETED","object":{"metadata":{"name":"a"}}},{"type":"DELETED","object":{"metadata":{"name":"b92df800-6127-4956-8285-d328da381148"}}}]`, true},
		{"events in another order", `[{"type":"ADDED","object":{"metadata":{"name":"a"}}},{"type":"ADDED","object":{"metadata":{"name":"b"}}}]`,
			`[{"type":"ADDED","object":{"metadata":{"name":"b"}}},{"type":"ADDED","object":{"metadata":{"name":"a"}}}]`,
			true},
		{"names in another order", `{"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`,
			`{"items":[{"metadata":{"name":"b"}},{"metadata":{"name":"a"}}]}`, true},
	} {
		var sides [2]any
		for i, text := range []string{test.peer, test.kelson} {
			v, err := decodeJSON([]byte(text))
			require.NoError(t, err)
			sides[i] = v
		}
		c := newComparer("")
		c.value("body", "", sides[0], sides[1])
		if got := len(c.found) > 0; got != test.differ {
			t.Errorf("%s: differ %v, want %v: %v", test.name, got, test.differ, c.found)
		}
	}
}

// The comparison reports an entry that is missing in one catalogue, and still finds other
// differences.
func TestCatalogue(t *testing.T) {
	side := func(text string) any {
		v, err := decodeJSON([]byte(text))
		require.NoError(t, err)
		return v
	}
	c := newComparer("")
	c.value("body", "", side(`{"resources":[{"name":"a","verbs":["get"]},{"name":"b"},{"name":"c"}]}`),
		side(`{"resources":[{"name":"a","verbs":["list"]},{"name":"c"}]}`))
	if len(c.found) != 2 || c.found[0].where != "body.resources[b]" || c.found[1].where != "body.resources[].verbs[]" {
		t.Errorf("%v", c.found)
	}
}

// plain removes only values that always differ.
func TestPlain(t *testing.T) {
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{"X is invalid: [a: Required value, b: Invalid value]", "X is invalid: [b: Invalid value, a: Required value]",
			true},
		{"X is invalid: [a: Required value, b: Invalid value]", "X is invalid: [a: Required value]", false},
		{"in the precondition (1) does not match the ResourceVersion in record (521). The",
			"in the precondition (1) does not match the ResourceVersion in record (7). The", true},
		{"80:31228/TCP,53:32732/UDP", "80:30001/TCP,53:30002/UDP", true},
		{"80:31228/TCP", "81:31228/TCP", false},
		{`Invalid value: "{\"managedFields\":[{\"manager\":\"a\",\"f\":[1,2]},{\"manager\":\"b\"}]}"`,
			`Invalid value: "{\"managedFields\":[{\"manager\":\"b\"},{\"manager\":\"a\",\"f\":[1,2]}]}"`, true},
		{`Invalid value: "{\"managedFields\":[{\"manager\":\"a\",\"f\":[1,2]},{\"manager\":\"b\"}]}"`,
			`Invalid value: "{\"managedFields\":[{\"manager\":\"b\"},{\"manager\":\"a\",\"f\":[2,1]}]}"`, false},
		{`{\"managedFields\":[{\"manager\":\"a\"}],\"x\":[1,2]}`,
			`{\"managedFields\":[{\"manager\":\"a\"}],\"x\":[2,1]}`, false},
		{"fd00::1a", "fd00::2", true}, {"10.0.0.7", "10.0.0.8", true}, {"10.0.1.7", "10.0.1.8", false},
	} {
		if same := plain(test.a) == plain(test.b); same != test.same {
			t.Errorf("%q, %q: same %v: %q, %q", test.a, test.b, same, plain(test.a), plain(test.b))
		}
	}
}

// The same seed generates the same requests, and another seed other ones.
func TestGeneratedBySeed(t *testing.T) {
	schema := fieldMap{"type": "object", "properties": fieldMap{
		"spec": fieldMap{"type": "object", "required": []any{"ports"}, "properties": fieldMap{
			"ports": fieldMap{"type": "array", "items": fieldMap{"type": "object",
				"properties": fieldMap{"port": fieldMap{"type": "integer"}, "name": fieldMap{"type": "string"}}}},
			"kind": fieldMap{"type": "string", "enum": []any{"A", "B"}},
		}},
	}}
	k := &kind{version: "v1", resource: "things", kind: "Thing", namespaced: true,
		verbs: []string{"create", "update", "patch", "get"}}
	text := func(seed uint64) (all string) {
		for _, s := range generated(k, fieldMap{}, schema, "own", seed) {
			all += s.String(newMemory()) + "\n"
		}
		return all
	}
	if first, again := text(1), text(1); first != again {
		t.Error("two runs of a seed differ")
	}
	if text(1) == text(2) {
		t.Error("two seeds generate the same requests")
	}
}
