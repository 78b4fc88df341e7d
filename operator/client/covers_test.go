package client

import (
	"testing"

	"kelson.dev/internal/assert"
)

// Covers decides whether a document has all fields that a create had, from the format of
// managedFields.
func TestCovers(t *testing.T) {
	const ports = `{"f:spec":{"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:name":{}}}}}`
	const finalizers = `{"f:metadata":{"f:finalizers":{".":{},"v:\"a.io/b\"":{}}}}`
	for _, c := range []struct {
		name, fields, document string
		want                   bool
	}{
		{"the same", `{"f:data":{".":{},"f:a":{}}}`, `{"data":{"a":"1"}}`, true},
		{"more", `{"f:data":{"f:a":{}}}`, `{"data":{"a":"1","b":"1"},"kind":"X"}`, true},
		{"less", `{"f:data":{".":{},"f:a":{},"f:b":{}}}`, `{"data":{"a":"1"}}`, false},
		{"none", `{"f:data":{".":{},"f:a":{}}}`, `{}`, false},
		{"empty object", `{"f:spec":{"f:emptyDir":{}}}`, `{"spec":{"emptyDir":{}}}`, true},
		{"scalar for object", `{"f:spec":{"f:a":{"f:b":{}}}}`, `{"spec":{"a":"b"}}`, false},
		{"item", ports, `{"spec":{"ports":[{"port":443,"protocol":"TCP"},{"port":80,"protocol":"TCP","name":"web"}]}}`,
			true},
		{"item has less", ports, `{"spec":{"ports":[{"port":80,"protocol":"TCP"}]}}`, false},
		{"item with a defaulted key", ports, `{"spec":{"ports":[{"port":80,"name":"web"}]}}`, false},
		{"item of a set", finalizers, `{"metadata":{"finalizers":["c.io/d","a.io/b"]}}`, true},
		{"no item of a set", finalizers, `{"metadata":{"finalizers":["c.io/d"]}}`, false},
		{"by index", `{"f:list":{"i:0":{}}}`, `{"list":["a"]}`, false},
		{"no fields at all", `null`, `{}`, false},
		{"no JSON", `{"f:a":{}}`, `a: 1`, false},
	} {
		assert.Equalf(t, hasAll([]byte(c.fields), []byte(c.document)), c.want, "%s", c.name)
	}
}
