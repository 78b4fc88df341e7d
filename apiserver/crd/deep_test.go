package crd_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// deepDefinition has a schema with the given number of nested objects or lists.
func deepDefinition(levels int, begin, end string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"wells.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"wells","kind":"Well"},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":` + strings.Repeat(begin, levels) + `{"type":"string"}` + strings.Repeat(end, levels) + `}}}}]}}`
}

// A schema that is nested a thousand levels deep, and objects of that depth, take less than ten
// seconds. A body of more than 10,000 levels is refused, and the server continues.
func TestDeepSchemas(t *testing.T) {
	for name, form := range map[string]struct{ begin, end, open, shut string }{
		"objects": {`{"type":"object","properties":{"a":`, `}}`, `{"a":`, `}`},
		"lists":   {`{"type":"array","items":`, `}`, `[`, `]`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t)
			const levels, most = 1000, 10 * time.Second
			begin := time.Now()
			p.do("POST", definitionsPath, deepDefinition(levels, form.begin, form.end)).want(201)
			t.Logf("definition: %s", time.Since(begin))
			well := func(name string, levels int) string {
				return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Well","metadata":{"name":%q},"spec":%s"x"%s}`, name, strings.Repeat(form.open, levels), strings.Repeat(form.shut, levels))
			}
			const wells = "/apis/example.com/v1/namespaces/default/wells"
			p.do("POST", wells, well("deep", levels)).want(201)
			p.do("PATCH", wells+"/deep?fieldManager=a&force=true", well("deep", levels), "Content-Type",
				"application/apply-patch+yaml").want(200)
			p.do("POST", wells, well("deeper", levels+1)).want(422)
			p.do("POST", wells, well("deepest", 11_000)).want(400)
			p.do("POST", definitionsPath, deepDefinition(11_000, form.begin, form.end)).want(400)
			p.do("GET", wells+"/deep", "").want(200)
			if took := time.Since(begin); took > most {
				t.Errorf("took %s, want less than %s", took, most)
			}
		})
	}
}
