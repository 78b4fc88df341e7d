package main

import "testing"

// Orders that no server keeps don't differ; what stands in the lists does.
func TestOrders(t *testing.T) {
	for _, test := range []struct {
		name, peer, kelson string
		differ             bool
	}{
		{"rules in another order", `{"resourceRules":[{"verbs":["get"]},{"verbs":["list"]}]}`, `{"resourceRules":[{"verbs":["list"]},{"verbs":["get"]}]}`, false},
		{"another rule", `{"resourceRules":[{"verbs":["get"]}]}`, `{"resourceRules":[{"verbs":["list"]}]}`, true},
		{"verbs in another order", `{"verbs":["get","list"]}`, `{"verbs":["list","get"]}`, true},
		{"generated names",
			`{"items":[{"metadata":{"name":"a-gen-bbbbb","resourceVersion":"7"},"x":2},{"metadata":{"name":"a-gen-ccccc","resourceVersion":"5"},"x":1}]}`,
			`{"items":[{"metadata":{"name":"a-gen-fffff","resourceVersion":"3"},"x":1},{"metadata":{"name":"a-gen-ggggg","resourceVersion":"4"},"x":2}]}`, false},
		{"another object of a generated name",
			`{"items":[{"metadata":{"name":"a-gen-bbbbb","resourceVersion":"7"},"x":2}]}`,
			`{"items":[{"metadata":{"name":"a-gen-fffff","resourceVersion":"3"},"x":1}]}`, true},
		{"names in another order", `{"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`, `{"items":[{"metadata":{"name":"b"}},{"metadata":{"name":"a"}}]}`, true},
	} {
		var sides [2]any
		for i, text := range []string{test.peer, test.kelson} {
			v, err := decodeJSON([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			sides[i] = v
		}
		c := newComparer("")
		c.value("body", "", sides[0], sides[1])
		if got := len(c.found) > 0; got != test.differ {
			t.Errorf("%s: differ %v, want %v: %v", test.name, got, test.differ, c.found)
		}
	}
}
