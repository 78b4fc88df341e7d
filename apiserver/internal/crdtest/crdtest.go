// Package crdtest generates random custom objects for the differential tests of fast paths.
package crdtest

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Definition is a CustomResourceDefinition of Widgets, with lists and maps of every list type and
// map type.
const Definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{
 "count":{"type":"integer"},"ratio":{"type":"number"},"text":{"type":"string"},"flag":{"type":"boolean"},"either":{"x-kubernetes-int-or-string":true},
 "labels":{"type":"object","additionalProperties":{"type":"string"}},
 "whole":{"type":"object","x-kubernetes-map-type":"atomic","additionalProperties":{"type":"string"}},
 "list":{"type":"array","items":{"type":"string"}},
 "set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
 "steps":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"n":{"type":"integer"}}}},
 "ports":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{
  "name":{"type":"string"},"port":{"type":"integer"},"on":{"type":"boolean","default":true}}}},
 "parts":{"type":"object","additionalProperties":{"type":"object","properties":{"n":{"type":"integer"},"text":{"type":"string"}}}},
 "free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
 "deep":{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"string"},"c":{"type":"integer","nullable":true}}}}}}},
"status":{"type":"object","properties":{"phase":{"type":"string"},"seen":{"type":"integer"},
 "conditions":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["type"],"items":{"type":"object","required":["type"],"properties":{
  "type":{"type":"string"},"status":{"type":"string"}}}}}}}}}}]},
"status":{"acceptedNames":{"plural":"widgets","kind":"Widget"}}}`

// Generator generates random objects of [Definition] and random changes of them.
type Generator struct {
	*rand.Rand
	// Invalid is set when the generator produces a value that does not have the type in the schema.
	// The caller clears it.
	Invalid *bool
}

// NewGenerator returns a generator; equal arguments generate equal objects.
func NewGenerator(seed, stream uint64) Generator {
	return Generator{rand.New(rand.NewPCG(seed, stream)), new(bool)}
}

// One returns one of its arguments.
func (g Generator) One(choices ...string) string { return choices[g.IntN(len(choices))] }

// often sets a member in two of three calls.
func (g Generator) often(m map[string]any, name string, value any) {
	if g.IntN(3) > 0 {
		m[name] = value
	}
}

// words returns a map of strings.
func (g Generator) words() map[string]any {
	m := map[string]any{}
	for range g.IntN(3) {
		m[g.One("x", "y", `q"\<é`)] = g.One("1", "2")
	}
	return m
}

// Spec returns a spec, which is rarely invalid.
func (g Generator) Spec() map[string]any {
	m := map[string]any{}
	g.often(m, "count", int64(g.IntN(2)))
	g.often(m, "text", g.One("a", "b", ""))
	g.often(m, "labels", g.words())
	if g.IntN(2) == 0 {
		g.often(m, "flag", g.IntN(2) == 0)
		g.often(m, "whole", g.words())
		list := []any{}
		for range g.IntN(3) {
			list = append(list, g.One("a", "b"))
		}
		g.often(m, "list", list)
		if g.IntN(9) == 0 { // a value without the type in the schema
			*g.Invalid = true
			m[g.One("steps", "list")] = []any{g.One("x", "y"), map[string]any{"name": "x", "n": g.One("1", "2")}, true}
		}
		g.often(m, "steps", []any{map[string]any{"name": g.One("x", "y"), "n": int64(g.IntN(2))}})
		deep := map[string]any{}
		g.often(deep, "b", g.One("a", "b"))
		g.often(deep, "c", int64(g.IntN(2)))
		g.often(m, "deep", map[string]any{"a": deep})
	}
	switch g.IntN(10) {
	case 7:
		m["parts"] = map[string]any{g.One("x", "y"): map[string]any{"n": int64(g.IntN(2))}, "z": map[string]any{}}
	case 0:
		m["ratio"] = 0.5 * float64(g.IntN(3))
	case 1:
		m["ratio"] = int64(g.IntN(2))
	case 2:
		m["either"] = int64(1)
	case 3:
		m["either"] = "1"
	case 4:
		m["free"] = map[string]any{"x": g.words(), "y": []any{int64(g.IntN(2))}}
	case 5:
		m["set"] = []any{g.One("a", "b"), "c"}
	case 6:
		ports := []any{}
		for _, name := range []string{"a", "b", "c"}[:g.IntN(3)+1] {
			ports = append(ports, map[string]any{"name": name, "port": int64(g.IntN(2)), "on": true})
		}
		m["ports"] = ports
	}
	return m
}

// Status returns a status.
func (g Generator) Status() map[string]any {
	m := map[string]any{}
	g.often(m, "phase", g.One("New", "Done"))
	g.often(m, "seen", int64(g.IntN(3)))
	if g.IntN(3) == 0 {
		m["conditions"] = []any{map[string]any{"type": g.One("Ready", "Ill"), "status": g.One("True", "False")}}
	}
	return m
}

// Metadata returns metadata as clients send it.
func (g Generator) Metadata() map[string]any {
	m := map[string]any{"name": "w"}
	if g.IntN(3) == 0 {
		m["labels"] = g.words()
	}
	if g.IntN(6) == 0 {
		m["annotations"] = g.words()
	}
	if g.IntN(10) == 0 {
		m["finalizers"] = []any{"example.com/" + g.One("a", "b")}
	}
	if g.IntN(10) == 0 {
		m["generateName"] = "w-"
	}
	if g.IntN(10) == 0 {
		m["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "p",
			"uid": g.One("1", "2")}}
	}
	return m
}

// AnyMetadata returns metadata as clients, managers and servers write it, sometimes invalid.
func (g Generator) AnyMetadata() map[string]any {
	m := g.Metadata()
	m["namespace"], m["uid"], m["creationTimestamp"], m["generation"] = "default", "u", "2026-01-02T03:04:05Z", int64(3)
	m["resourceVersion"] = "7"
	if g.IntN(2) == 0 {
		entry := map[string]any{"manager": g.One("ann", strings.Repeat("x", 129), "b\x01"),
			"operation":  g.One("Update", "Apply", "Update", "Upsert"),
			"apiVersion": "example.com/v1", "fieldsType": g.One("FieldsV1", "FieldsV1", "FieldsV1", "FieldsV2"),
			"time":     "2026-01-02T03:04:05Z",
			"fieldsV1": map[string]any{"f:spec": map[string]any{}}}
		if g.IntN(3) == 0 {
			entry["subresource"] = g.One("status", strings.Repeat("s", 300))
		}
		m["managedFields"] = []any{entry}
	}
	switch g.IntN(24) {
	case 0:
		m["name"] = g.One("Not_A_Name", "a/b", "..")
	case 1:
		m["namespace"] = g.One("other", "Default")
	case 2:
		m["uid"] = "v"
	case 3:
		m["labels"] = map[string]any{g.One("-", "ok/ok", "a/b/c"): g.One("!", "x")}
	case 4:
		m["annotations"] = map[string]any{"A_b/-": "x", "long": strings.Repeat("x", 300_000*g.IntN(2))}
	case 5:
		m["finalizers"] = []any{g.One("plain", "example.com/a", "not a name"), "example.com/b"}
	case 6:
		delete(m, g.One("uid", "creationTimestamp", "namespace", "generation", "name"))
	case 7:
		m["deletionTimestamp"] = "2026-01-02T03:04:05Z"
	case 8:
		m["deletionGracePeriodSeconds"] = int64(0)
	case 9:
		m["generateName"] = g.One("w-", "W_")
	case 10:
		m["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": g.One("Pod", "Event"), "name": "p",
			"uid": "1"}}
	case 11:
		m["creationTimestamp"] = "2025-01-02T03:04:05Z"
	case 12:
		m["selfLink"] = "/x"
	case 13:
		m["generation"] = int64(9)
	}
	return m
}

// Widget returns an object of Definition with metadata and the other parts (spec, status).
func Widget(metadata map[string]any, parts map[string]any) *unstructured.Unstructured {
	content := map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}
	for name, value := range parts {
		content[name] = value
	}
	return &unstructured.Unstructured{Object: content}
}

// Edited returns a copy of an object with some changes, like those of a PUT or a patch.
func (g Generator) Edited(u *unstructured.Unstructured) *unstructured.Unstructured {
	next := u.DeepCopy()
	metadata, ok := next.Object["metadata"].(map[string]any)
	if !ok {
		return Widget(g.Metadata(), map[string]any{"spec": g.Spec()})
	}
	if g.IntN(3) == 0 {
		delete(metadata, "managedFields")
	}
	if g.IntN(6) == 0 {
		delete(metadata, "resourceVersion")
		delete(metadata, "uid")
	}
	spec, _ := next.Object["spec"].(map[string]any)
	switch g.IntN(6) {
	case 0:
		next.Object["spec"] = g.Spec()
	case 1:
		next.Object["status"] = g.Status()
	case 2:
		for name, value := range g.Metadata() {
			metadata[name] = value
		}
	case 3:
	case 4:
		for name, value := range g.Spec() {
			if spec != nil && g.IntN(3) == 0 {
				spec[name] = value
			}
		}
	case 5:
		if spec != nil {
			if _, ok := spec["count"].(int64); ok {
				spec["count"] = int64(g.IntN(9))
			}
			if _, ok := spec["labels"].(map[string]any); ok && g.IntN(2) == 0 {
				delete(spec, "labels")
			}
		}
	}
	return next
}

// Mistype replaces a part of an object by a value that its schema does not allow. Such values
// remain in stored objects after a change of the schema.
func (g Generator) Mistype(object map[string]any) {
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		object["spec"] = "text"
		return
	}
	name := g.One("count", "text", "labels", "whole", "list", "set", "steps", "ports", "parts", "free", "deep")
	spec[name] = []any{
		"text", int64(1), true, []any{"x", int64(1)}, map[string]any{"x": []any{}}, []any{map[string]any{"n": "x"}},
		[]any{nil}, map[string]any{"x": nil}, nil,
	}[g.IntN(9)]
}

// Touch changes some of the values in an object.
func (g Generator) Touch(value any) {
	object, _ := value.(map[string]any)
	for name, value := range object {
		if g.IntN(3) > 0 {
			continue
		}
		switch v := value.(type) {
		case map[string]any:
			g.Touch(v)
		case []any:
			object[name] = append(slices.Clone(v), v...)
		case string:
			object[name] = g.One("a", "b", "c")
		case int64:
			object[name] = int64(g.IntN(3))
		case float64:
			object[name] = v + 0.5
		case bool:
			object[name] = !v
		}
	}
}

// Text returns an object as JSON; "" for nil.
func Text(u *unstructured.Unstructured) string {
	if u == nil {
		return ""
	}
	data, err := json.Marshal(u.Object)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
