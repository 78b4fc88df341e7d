package crd_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// When the request that creates a definition returns, its names are accepted and its resources are
// served. A second definition of the name and an invalid one are refused.
func TestServedWhenCreateReturns(t *testing.T) {
	p := newPlane(t)
	created := p.do("POST", definitionsPath, widgets()).want(201)
	for _, want := range []string{"NamesAccepted True NoConflicts", "Established True InitialNamesAccepted"} {
		if got := conditions(created); !slices.Contains(got, want) {
			t.Errorf("conditions %q, want %q among them", got, want)
		}
	}
	got := created.field("status.storedVersions")
	assert.Equalf(t, len(got.([]any)), 1, "storedVersions %v", got)
	p.do("POST", widgetsPath, widget("a", `{"color":"green"}`)).want(201)
	if got := p.do("GET", widgetsPath+"/a", "").want(200).field("spec.replicas"); got != 1.0 {
		t.Errorf("replicas %v, want the default 1", got)
	}
	// The same definition again, and an invalid one.
	p.do("POST", definitionsPath, widgets()).want(409)
	p.do("POST", definitionsPath, widgets("widgets.example.com", "gadgets.example.com")).want(422)
}

func conditions(a *answer) []string {
	var out []string
	list, _ := a.field("status.conditions").([]any)
	for _, c := range list {
		m := c.(map[string]any)
		out = append(out, m["type"].(string)+" "+m["status"].(string)+" "+m["reason"].(string))
	}
	return out
}

// Unknown and duplicate fields are refused with fieldValidation=Strict, cause warnings by default,
// and are not stored. Nulls of fields with a default take the default.
func TestUnknownFields(t *testing.T) {
	p := newPlane(t)
	p.do("POST", definitionsPath, widgets()).want(201)
	body := `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","oops":1},
		"spec":{"color":"green","color":"green","foo":1,"ports":[{"port":1,"bar":2}],"free":{"any":{"thing":1}},"note":null,"replicas":null}}`
	wants := []string{`duplicate field "spec.color"`, `unknown field "spec.foo"`, `unknown field "spec.ports[0].bar"`,
		`unknown field "metadata.oops"`}

	refused := p.do("POST", widgetsPath+"?fieldValidation=Strict", body).want(400)
	for _, want := range wants {
		if !strings.Contains(refused.message(), want) {
			t.Errorf("message %q does not contain %q", refused.message(), want)
		}
	}
	if !strings.HasPrefix(refused.message(), `Widget in version "v1" cannot be handled as a Widget: strict decoding error: `) {
		t.Errorf("message %q", refused.message())
	}
	created := p.do("POST", widgetsPath, body).want(201)
	for _, want := range wants {
		if !slices.ContainsFunc(created.warnings, func(w string) bool { return strings.Contains(w, want) }) {
			t.Errorf("warnings %q do not contain %q", created.warnings, want)
		}
	}
	for path, want := range map[string]any{
		"spec.foo": nil, "metadata.oops": nil, "spec.free.any.thing": 1.0, "spec.replicas": 1.0, "spec.note": nil,
	} {
		assert.Equalf(t, created.field(path), want, "%s", path)
	}
	ports := created.field("spec.ports").([]any)[0].(map[string]any)
	if ports["name"] != "main" || ports["bar"] != nil {
		t.Errorf("ports[0] %v", ports)
	}
	p.do("POST", widgetsPath+"?fieldValidation=Ignore", strings.Replace(body, `"a"`, `"b"`, 1)).want(201)
	if got := p.do("GET", widgetsPath+"/b", "").field("spec.foo"); got != nil {
		t.Errorf("not pruned: %v", got)
	}
}

// An object is refused with the status and message for what is wrong: its schema, a CEL rule, a
// list map, an embedded object, kind, version, syntax or metadata. Media types that are not
// supported get 415.
func TestValidation(t *testing.T) {
	p := newPlane(t)
	p.do("POST", definitionsPath, widgets()).want(201)
	for _, c := range []struct {
		name, body string
		code       int
		want       string
	}{
		{"enum", widget("a", `{"color":"pink"}`), 422,
			`Widget.example.com "a" is invalid: [spec.color: Unsupported value: "pink": supported values: "red", "green", "blue"`},
		{"required", widget("a", `{}`), 422, `spec.color: Required value`},
		{"maximum", widget("a", `{"color":"green","replicas":11}`), 422,
			`spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10`},
		{"type", widget("a", `{"color":"green","replicas":"x"}`), 422,
			`spec.replicas in body must be of type integer: "string"`},
		{"cel", widget("a", `{"color":"red","replicas":6}`), 422, `spec: Invalid value: too much red`},
		{"list map", widget("a", `{"color":"green","ports":[{"port":1},{"port":1}]}`), 422,
			`spec.ports[1]: Duplicate value: {"port":1}`},
		{"int or string", widget("a", `{"color":"green","size":1.5}`), 422, `spec.size`},
		{"embedded", widget("a", `{"color":"green","template":{"apiVersion":"v1"}}`), 422,
			`spec.template.kind: Required value`},
		{"kind", strings.Replace(widget("a", `{"color":"green"}`), `"Widget"`, `"Gadget"`, 1), 422,
			`kind: Invalid value: "Gadget": must be Widget`},
		{"version", strings.Replace(widget("a", `{"color":"green"}`), `example.com/v1`, `example.com/v2`, 1), 400,
			`the API version in the data (example.com/v2) does not match the expected API version (example.com/v1)`},
		{"no kind", `{"apiVersion":"example.com/v1","metadata":{"name":"a"}}`, 400, `Object 'Kind' is missing in`},
		{"no JSON", `{"apiVersion":`, 400, `the object provided is unrecognized (must be of type Widget): couldn't get version/kind; json parse error: unexpected end of JSON input ({"apiVersion":)`},
		{"metadata", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","labels":{"a":1}},"spec":{"color":"green"}}`, 400,
			`json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string`},
		{"name", widget("A B", `{"color":"green"}`), 422, `metadata.name: Invalid value: "A B"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := p.do("POST", widgetsPath, c.body).want(c.code)
			if !strings.Contains(a.message(), c.want) {
				t.Errorf("message %q\n  does not contain %q", a.message(), c.want)
			}
		})
	}
	p.do("POST", widgetsPath, widget("a", `{"color":"green"}`), "Content-Type",
		"application/vnd.kubernetes.protobuf").want(415)
	p.do("PATCH", widgetsPath+"/a", `{}`, "Content-Type", "application/strategic-merge-patch+json").want(415)
}

// Custom resources can be sent as YAML and CBOR, but are not returned as protobuf. Definitions are
// returned as protobuf.
func TestMedia(t *testing.T) {
	p := newPlane(t)
	p.do("POST", definitionsPath, widgets()).want(201)
	yaml := "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {color: green, foo: 1, replicas: 2}\n"
	a := p.do("POST", widgetsPath, yaml, "Content-Type", "application/yaml").want(201)
	if a.field("spec.replicas") != 2.0 || !slices.Contains(a.warnings, `unknown field "spec.foo"`) {
		t.Errorf("%s, warnings %q", a.body, a.warnings)
	}
	twice := strings.Replace(yaml, "foo: 1", "color: blue", 1)
	m := p.do("POST", widgetsPath+"?fieldValidation=Strict", twice, "Content-Type",
		"application/yaml").want(400).message()
	assert.Contains(t, m, `key "color" already set in map`)
	body, err := cbor.Marshal(map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "b"},
		"spec": map[string]any{"color": "blue", "replicas": 3},
	})
	require.NoError(t, err)
	p.do("POST", widgetsPath, string(body), "Content-Type", "application/cbor").want(201)
	assert.Equalf(t, p.do("GET", widgetsPath+"/b", "").want(200).field("spec.replicas"), 3.0, "replicas")
	p.do("GET", widgetsPath+"/b", "", "Accept", "application/vnd.kubernetes.protobuf").want(406)
	// kube-apiserver treats an object as a list until it reads items.
	one := p.do("GET", widgetsPath+"/b", "", "Accept",
		"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").want(500)
	assert.Containsf(t, one.message(), "content is not a list", "message")
	p.do("GET", definitionsPath+"/widgets.example.com", "", "Accept", "application/vnd.kubernetes.protobuf").want(200)
}

// A transition rule compares the new object with the old one. A stricter schema accepts an invalid
// field only as long as it does not change.
func TestTransitionRulesAndRatcheting(t *testing.T) {
	p := newPlane(t)
	p.do("POST", definitionsPath, widgets()).want(201)
	p.do("POST", widgetsPath, widget("a", `{"color":"green","replicas":9}`)).want(201)
	refused := p.do("PATCH", widgetsPath+"/a", `{"spec":{"color":"blue"}}`, "Content-Type",
		"application/merge-patch+json").want(422)
	assert.Contains(t, refused.message(), "spec: Invalid value: color is immutable")
	// A stricter schema accepts existing values that do not change.
	current := p.do("GET", definitionsPath+"/widgets.example.com", "").object()
	tighter := strings.Replace(mustJSON(t, current.Object), `"maximum":10`, `"maximum":5`, 1)
	p.do("PUT", definitionsPath+"/widgets.example.com", tighter).want(200)
	merge := []string{"Content-Type", "application/merge-patch+json"}
	p.do("PATCH", widgetsPath+"/a", `{"metadata":{"labels":{"x":"y"}}}`, merge...).want(200)
	p.do("PATCH", widgetsPath+"/a", `{"spec":{"replicas":8}}`, merge...).want(422)
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}

// A write of the status changes no other field, and a write of the object does not change the
// status. The subresource scale reads and writes the replicas, with validation.
func TestStatusAndScale(t *testing.T) {
	p := newPlane(t)
	p.do("POST", definitionsPath, widgets()).want(201)
	created := p.do("POST", widgetsPath, strings.Replace(widget("a", `{"color":"green"}`), `"spec"`,
		`"status":{"phase":"x"},"spec"`, 1)).want(201)
	if created.field("status") != nil {
		t.Error("the create has stored the status")
	}
	merge := []string{"Content-Type", "application/merge-patch+json"}
	a := p.do("PATCH", widgetsPath+"/a/status",
		`{"spec":{"color":"blue"},"metadata":{"labels":{"x":"y"}},"status":{"phase":"Up","replicas":3,"selector":"a=b"}}`, merge...).want(200)
	if a.field("status.phase") != "Up" || a.field("spec.color") != "green" || a.field("metadata.labels") != nil ||
		a.field("metadata.generation") != 1.0 {
		t.Errorf("status write: %s", a.body)
	}
	a = p.do("PATCH", widgetsPath+"/a", `{"spec":{"replicas":2},"status":{"phase":"Down"}}`, merge...).want(200)
	if a.field("status.phase") != "Up" || a.field("metadata.generation") != 2.0 {
		t.Errorf("main write: %s", a.body)
	}
	a = p.do("GET", widgetsPath+"/a/scale", "").want(200)
	if a.field("kind") != "Scale" || a.field("apiVersion") != "autoscaling/v1" || a.field("spec.replicas") != 2.0 ||
		a.field("status.replicas") != 3.0 || a.field("status.selector") != "a=b" {
		t.Errorf("scale: %s", a.body)
	}
	a = p.do("PATCH", widgetsPath+"/a/scale", `{"spec":{"replicas":4}}`, merge...).want(200)
	assert.Equalf(t, a.field("spec.replicas"), 4.0, "scale: %s", a.body)
	a = p.do("GET", widgetsPath+"/a", "").want(200)
	if a.field("spec.replicas") != 4.0 || a.field("metadata.generation") != 3.0 || a.field("spec.color") != "green" {
		t.Errorf("scaled: %s", a.body)
	}
	if managers := mustJSON(t, a.field("metadata.managedFields")); !strings.Contains(managers,
		`"subresource":"scale"`) ||
		!strings.Contains(managers, `"subresource":"status"`) {
		t.Errorf("managedFields %s", managers)
	}
	p.do("PATCH", widgetsPath+"/a/scale", `{"spec":{"replicas":11}}`, merge...).want(422)
}

// Tables have the columns of the definition, and field selectors accept only its selectable fields.
func TestColumnsAndSelectableFields(t *testing.T) {
	p := newPlane(t)
	p.do("POST", definitionsPath, widgets()).want(201)
	p.do("POST", widgetsPath, widget("a", `{"color":"green"}`)).want(201)
	p.do("POST", widgetsPath, widget("b", `{"color":"blue","replicas":3}`)).want(201)

	table := p.do("GET", widgetsPath, "", "Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").want(200)
	var rows []string
	for _, row := range table.field("rows").([]any) {
		rows = append(rows, mustJSON(t, row.(map[string]any)["cells"]))
	}
	assert.Slicef(t, rows, []string{`["a","green",1]`, `["b","blue",3]`}, "rows")
	list := p.do("GET", widgetsPath+"?fieldSelector=spec.color%3Dblue", "").want(200)
	if items := list.field("items").([]any); len(items) != 1 {
		t.Errorf("selected %d objects, want 1", len(items))
	}
	refused := p.do("GET", widgetsPath+"?fieldSelector=spec.note%3Dx", "").want(400)
	assert.Contains(t, refused.message(), "field label not supported: spec.note")
	own := p.do("GET", definitionsPath, "", "Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").want(200)
	assert.Containsf(t, mustJSON(t, own.field("columnDefinitions")), `"name":"Created At"`, "columns")
}
