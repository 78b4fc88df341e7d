package crd_test

import (
	"fmt"
	"strings"
	"testing"

	"kelson.dev/apiserver/crd"
	"kelson.dev/internal/assert"
)

const bag = `{"apiVersion":"example.com/v1","kind":"Bag","metadata":{"name":%q},"spec":%s,"status":%s}`

// bagDefinition has patterns of a thousand optional parts, and one of a word.
func bagDefinition() string {
	optional := strings.Repeat("a?", 1000)
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"bags.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"bags","kind":"Bag"},"versions":[{"name":"v1","served":true,"storage":true,
		"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
		"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{
			"word":{"type":"string","pattern":"^[a-z]+$"},
			"list":{"type":"array","items":{"type":"string","pattern":"^(%[1]s)$"}},
			"map":{"type":"object","additionalProperties":{"type":"string","allOf":[{"pattern":"(%[1]s)b"}]}}}},
		"status":{"type":"object","properties":{"seen":{"type":"string","pattern":"^(%[1]s)$"}}}}}}}]}}`, optional)
}

// The server refuses values that would take seconds to match, such as 64 KB for a pattern of a
// thousand optional parts.
func TestCostlyPatterns(t *testing.T) {
	for _, noFastPaths := range []bool{false, true} {
		t.Run(fmt.Sprint("noFastPaths=", noFastPaths), func(t *testing.T) {
			p := newPlane(t, func(cfg *crd.Config) { cfg.NoFastPaths = noFastPaths })
			p.do("POST", definitionsPath, bagDefinition()).want(201)
			const bags = "/apis/example.com/v1/namespaces/default/bags"
			long, longest := strings.Repeat("a", 64<<10), strings.Repeat("a", 500<<10)
			n := 0
			post := func(code int, spec string) *answer {
				n++
				return p.do("POST", bags, fmt.Sprintf(bag, fmt.Sprint("b", n), spec, "{}")).want(code)
			}
			for at, spec := range map[string]string{
				"spec.list[1]": `{"list":["a","` + long + `"]}`,
				"spec.map.key": `{"map":{"key":"` + long + `"}}`,
			} {
				m := post(422, spec).message()
				assert.Containsf(t, m, at+": Too long: may not be more than ", "%s", at)
			}
			post(201, `{"word":"`+longest+`","other":"`+longest+`","list":["`+long[:1000]+`","a"]}`)

			// An unchanged status remains valid; a longer one is checked.
			p.do("POST", bags, fmt.Sprintf(bag, "b", "{}", "{}")).want(201)
			p.do("PATCH", bags+"/b/status", `{"status":{"seen":"`+long+`"}}`, "Content-Type",
				"application/merge-patch+json").want(422)
			p.do("PATCH", bags+"/b/status", `{"status":{"seen":"aa"}}`, "Content-Type",
				"application/merge-patch+json").want(200)
		})
	}
}
