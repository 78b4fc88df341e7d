package bodies

import (
	"fmt"
	"strings"
)

const (
	templates  = namespace + "replicationcontrollers"
	configMaps = namespace + "configmaps"
)

// Template returns a ReplicationController without replicas whose pods have a spec.
func Template(name, spec string) string {
	return Object("v1", "ReplicationController", name,
		`"spec":{"replicas":0,"template":{"metadata":{"labels":{"a":"b"}},"spec":{`+spec+`}}}`)
}

func templatePatch(spec string) string { return `{"spec":{"template":{"spec":{` + spec + `}}}}` }

func envOf(list string) string { return `"containers":[{"name":"c","image":"i","env":` + list + `}]` }

// strategic returns strategic merge patches. Kubernetes' library compares every element of the
// patch with every element of the object.
func (s scaled) strategic() []Attack {
	n := s.n(50_000)
	env := create(templates, Template("env", envOf(List(n, `{"name":"e%d"}`))))
	many := create(templates, Template("many", `"containers":`+List(s.n(60_000), `{"name":"c%d","image":"i"}`)))
	held := create(configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"held","finalizers":`+
		List(n, `"a.b/%d"`)+`}}`)
	return []Attack{
		{Name: "strategic merge of env", Setup: []Request{env},
			Request: patch(templates+"/env", Strategic,
				templatePatch(envOf("["+Elements(n, n+n/2, `{"name":"e%d"}`)+"]")))},
		{Name: "strategic merge: deletes in env", Setup: []Request{env},
			Request: patch(templates+"/env", Strategic,
				templatePatch(envOf(List(n, `{"name":"x%d","$patch":"delete"}`))))},
		{Name: "strategic merge: one element many times", Setup: []Request{env},
			Request: patch(templates+"/env", Strategic,
				templatePatch(`"containers":`+List(s.n(25_000), `{"name":"c","env":[{"name":"y%d"}]}`)))},
		{Name: "strategic merge: $setElementOrder of containers", Setup: []Request{many},
			Request: patch(templates+"/many", Strategic,
				templatePatch(`"$setElementOrder/containers":`+List(s.n(60_000), `{"name":"c%d"}`)+
					`,"containers":`+List(s.n(30_000), `{"name":"c%d","image":"j"}`)))},
		{Name: "strategic merge: primitives", Setup: []Request{held},
			Request: patch(configMaps+"/held", Strategic, `{"metadata":{"finalizers":`+List(n, `"a.c/%d"`)+`}}`)},
		{Name: "strategic merge: $deleteFromPrimitiveList", Setup: []Request{held},
			Request: patch(configMaps+"/held", Strategic, `{"metadata":{"$deleteFromPrimitiveList/finalizers":`+
				List(n, `"a.b/%d"`)+`}}`)},
		{Name: "strategic merge: $retainKeys", Setup: []Request{env},
			Request: patch(templates+"/env", Strategic,
				templatePatch(`"volumes":[{"name":"v","$retainKeys":`+List(s.n(200_000), `"k%d"`)+`}]`))},
	}
}

// jsonPatches returns JSON and merge patches.
func (s scaled) jsonPatches() []Attack {
	text := create(configMaps, Object("v1", "ConfigMap", "text",
		`"data":{"a":"`+strings.Repeat("x", s.n(1_000_000))+`"}`))
	list := create(configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"list","finalizers":`+
		List(s.n(200_000), `"a.b/%d"`)+`}}`)
	operations := func(n int, operation string) string { return List(s.n(n), operation) }
	return []Attack{
		{Name: "JSON patch: tests of a large string", Setup: []Request{text},
			Request: patch(configMaps+"/text", JSONPatch,
				operations(10_000, `{"op":"test","path":"/data/a","value":"b"}`))},
		{Name: "JSON patch: tests that succeed", Setup: []Request{text},
			Request: patch(configMaps+"/text", JSONPatch,
				operations(10_000, `{"op":"test","path":"/data","value":{"a":1}}`))},
		{Name: "JSON patch: insertions at the front", Setup: []Request{list},
			Request: patch(configMaps+"/list", JSONPatch,
				operations(10_000, `{"op":"add","path":"/metadata/finalizers/0","value":"b.b/%d"}`))},
		{Name: "JSON patch: removals at the front", Setup: []Request{list},
			Request: patch(configMaps+"/list", JSONPatch,
				operations(10_000, `{"op":"remove","path":"/metadata/finalizers/0"}`))},
		{Name: "JSON patch: moves in a list", Setup: []Request{list},
			Request: patch(configMaps+"/list", JSONPatch,
				operations(10_000, `{"op":"move","from":"/metadata/finalizers/0","path":"/metadata/finalizers/-"}`))},
		{Name: "JSON patch: tests of a large list", Setup: []Request{list},
			Request: patch(configMaps+"/list", JSONPatch,
				operations(10_000, `{"op":"test","path":"/metadata/finalizers","value":["a"]}`))},
		{Name: "JSON patch: copies", Setup: []Request{text},
			Request: patch(configMaps+"/text", JSONPatch,
				operations(10_000, `{"op":"copy","from":"/data","path":"/data/b"}`))},
		{Name: "JSON patch: copies to other members", Setup: []Request{list},
			Request: patch(configMaps+"/list", JSONPatch, `[{"op":"add","path":"/metadata/annotations","value":{}},`+
				operations(9_999, `{"op":"copy","from":"/metadata/name","path":"/metadata/annotations/a%d"}`)[1:])},
		{Name: "JSON patch: a long path", Setup: []Request{text},
			Request: patch(configMaps+"/text", JSONPatch, `[{"op":"add","path":"`+strings.Repeat("/a", s.size()/2)+
				`","value":1}]`)},
		{Name: "JSON patch: escapes in a path", Setup: []Request{text},
			Request: patch(configMaps+"/text", JSONPatch, `[{"op":"add","path":"/`+strings.Repeat("~1", s.size()/2)+
				`","value":1}]`)},
		{Name: "merge patch: members", Setup: []Request{text},
			Request: patch(configMaps+"/text", Merge, `{"data":{`+Fill(s.size(), `"k%d":""`)+`}}`)},
		{Name: "merge patch: unknown fields", Setup: []Request{text},
			Request: patch(configMaps+"/text", Merge, `{`+Fill(s.size(), `"k%d":1`)+`}`)},
		{Name: "strategic merge: unknown fields", Setup: []Request{text},
			Request: patch(configMaps+"/text", Strategic, `{`+Fill(s.size(), `"k%d":1`)+`}`)},
		{Name: "merge patch: deep", Setup: []Request{text},
			Request: patch(configMaps+"/text", Merge, Nested(s.n(9_000), `"`+strings.Repeat("x", s.n(2<<20))+`"`))},
	}
}

// Nested returns a value nested n levels deep in members of one name.
func Nested(n int, value string) string {
	return strings.Repeat(`{"a":`, n) + value + strings.Repeat("}", n)
}

// Managed returns a ConfigMap with managedFields.
func Managed(name, entries string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"managedFields":[%s]},"data":{"a":"b"}}`, name, entries)
}

// manager returns an entry of managedFields; fields is its FieldsV1.
func manager(name, operation, version, fields string) string {
	return fmt.Sprintf(`{"manager":%q,"operation":%q,"apiVersion":%q,"fieldsType":"FieldsV1","fieldsV1":%s}`, name,
		operation, version, fields)
}

// owners returns objects with large managedFields, and objects that cause them.
func (s scaled) owners() []Attack {
	n := s.n(24_000)
	applied := manager("m%d", "Apply", "v1", `{"f:data":{"f:a":{}}}`)
	plain := create(configMaps, Object("v1", "ConfigMap", "owned", `"data":{"a":"b"}`))
	members := `"data":{` + Fill(s.size(), `"k%d":""`) + `}`
	return []Attack{
		{Name: "managedFields: appliers", Request: create(configMaps, Managed("appliers", Elements(0, n, applied)))},
		{Name: "managedFields: updaters", Request: create(configMaps, Managed("updaters",
			Elements(0, n, manager("m%d", "Update", "v1", `{"f:data":{"f:a":{}}}`))))},
		{Name: "managedFields: versions", Request: create(configMaps, Managed("versions",
			Elements(0, n, manager("m", "Apply", "v%d", `{"f:data":{"f:a":{}}}`))))},
		{Name: "managedFields in a patch", Setup: []Request{plain}, Request: patch(configMaps+"/owned", Merge,
			`{"metadata":{"managedFields":[`+Elements(0, n, applied)+`]}}`)},
		{Name: "managedFields: applied over many",
			Setup: []Request{create(configMaps, Managed("over", Elements(0, min(n, 1_000), applied)))},
			Request: patch(configMaps+"/over?fieldManager=me&force=true", Apply,
				Object("v1", "ConfigMap", "over", `"data":{"a":"c"}`))},
		{Name: "managedFields: deep", Request: create(configMaps, Managed("deep",
			manager("m", "Apply", "v1", strings.Repeat(`{"f:a":`, s.n(4_000))+"{}"+strings.Repeat("}", s.n(4_000)))))},
		{Name: "managedFields: wide", Request: create(configMaps, Managed("wide",
			manager("m", "Apply", "v1", `{"f:data":{`+Fill(s.size(), `"f:k%d":{}`)+`}}`)))},
		{Name: "members: POST", Request: create(configMaps, Object("v1", "ConfigMap", "post", members))},
		{Name: "members: PUT", Setup: []Request{create(configMaps, Object("v1", "ConfigMap", "put", ""))},
			Request: Request{"PUT", configMaps + "/put", JSON, Object("v1", "ConfigMap", "put", members)}},
		{Name: "members: PATCH", Setup: []Request{create(configMaps, Object("v1", "ConfigMap", "patch", members))},
			Request: patch(configMaps+"/patch", Merge, `{"data":{"a":"b"}}`)},
		{Name: "members: apply", Setup: []Request{plain},
			Request: patch(configMaps+"/owned?fieldManager=me", Apply, Object("v1", "ConfigMap", "owned", members))},
		{Name: "members: apply over another",
			Setup: []Request{create(configMaps, Object("v1", "ConfigMap", "both", members))},
			Request: patch(configMaps+"/both?fieldManager=me&force=true", Apply,
				Object("v1", "ConfigMap", "both", strings.ReplaceAll(members, `:""`, `:"1"`)))},
		{Name: "members: conflicts", Setup: []Request{create(configMaps,
			Object("v1", "ConfigMap", "conflicts", members))},
			Request: patch(configMaps+"/conflicts?fieldManager=me", Apply,
				Object("v1", "ConfigMap", "conflicts", strings.ReplaceAll(members, `:""`, `:"1"`)))},
	}
}
