package main

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// creates sends new objects, valid and invalid.
func (b *builder) creates() {
	post := func(label string, v any, opts ...option) {
		b.add("create "+label, http.MethodPost, b.coll(), append([]option{body(v)}, opts...)...)
	}
	query := func(label, query string, v any, opts ...option) {
		b.add("create "+label, http.MethodPost, b.coll(query), append([]option{body(v)}, opts...)...)
	}
	a := b.obj("n")
	query("dry run", "dryRun=All", a)
	query("bad dry run", "dryRun=None", a)
	query("twice dry run", "dryRun=All&dryRun=All", a)
	query("empty dry run", "dryRun=", a)
	post("real", a, save("n"))
	post("again", a)
	query("again dry run", "dryRun=All", a)
	query("manager", "fieldManager=me", b.obj("m"))
	query("long manager", "fieldManager="+strings.Repeat("m", 129), b.obj("x"))
	query("unprintable manager", "fieldManager=%01", b.obj("x"))
	post("user agent", b.obj("ua"), header("User-Agent", "tool/v1.2 (linux/amd64)"))
	post("no user agent", b.obj("ua2"), header("User-Agent", ""))
	post("generated name", b.generated())
	post("generated name of a bad prefix", with(with(b.obj("x"), nil, "metadata", "name"), "Bad_", "metadata",
		"generateName"))
	b.badBodies()
	b.badMetadata()
	b.fieldValidation()
	b.encodings()
	for _, accept := range accepts {
		query("accept "+accept.label, "dryRun=All", b.obj("x"), header("Accept", accept.media))
		post("again accept "+accept.label, a, header("Accept", accept.media))
	}
	if b.namespaced {
		missing := b.collection(b.own + "-missing")
		b.add("create in a missing namespace", http.MethodPost, missing, body(b.obj("x")))
		b.add("create in a missing namespace, named", http.MethodPost, missing,
			body(with(b.obj("x"), b.own+"-missing", "metadata", "namespace")))
		b.add("create in a bad namespace", http.MethodPost, b.collection("Bad_"), body(b.obj("x")))
	}
}

func (b *builder) generated() map[string]any {
	obj := b.obj("x")
	set(obj, nil, "metadata", "name")
	set(obj, b.own+"-gen-", "metadata", "generateName")
	return obj
}

// badBodies are bodies that can't be decoded, or have another type.
func (b *builder) badBodies() {
	text := mustJSON(b.obj("x"))
	for label, body := range inOrder(map[string]string{
		"empty": "", "space": "  ", "no JSON": "nonsense", "half": text[:len(text)/2], "null": "null", "list": "[]",
		"number": "1", "string": `"a"`,
		"empty object": "{}", "more after it": text + "x", "two": text + text,
		"bad UTF-8":         strings.Replace(text, `"kind":`, "\"k\xff\":1,\"kind\":", 1),
		"control character": strings.Replace(text, `"kind":`, "\"k\x01\":1,\"kind\":", 1),
		"deep":              strings.Repeat(`{"a":`, 12000) + "1" + strings.Repeat("}", 12000),
		"YAML as JSON":      "kind: " + b.kind.kind, "only kind": fmt.Sprintf(`{"kind":%q}`, b.kind.kind),
		"only apiVersion":    fmt.Sprintf(`{"apiVersion":%q}`, b.apiVersion()),
		"only type":          fmt.Sprintf(`{"kind":%q,"apiVersion":%q}`, b.kind.kind, b.apiVersion()),
		"metadata is a list": fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":[]}`, b.kind.kind, b.apiVersion()),
		"metadata is null":   fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":null}`, b.kind.kind, b.apiVersion()),
		"metadata is text":   fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":"a"}`, b.kind.kind, b.apiVersion()),
		"case of fields": strings.Replace(strings.Replace(text, `"metadata"`, `"Metadata"`, 1), `"spec"`, `"Spec"`,
			1),
		"too large": `{"a":"` + strings.Repeat("a", 3<<20) + `"}`,
	}) {
		b.add("create body "+label, http.MethodPost, b.coll(), bytesBody("application/json", body))
	}
	post := func(label string, obj map[string]any) {
		b.add("create body "+label, http.MethodPost, b.coll(), body(obj))
	}
	post("other kind", with(b.obj("x"), "Nothing", "kind"))
	post("other known kind", map[string]any{"apiVersion": "v1", "kind": "Binding",
		"metadata": map[string]any{"name": "x"}, "target": map[string]any{"name": "y"}})
	post("list kind", with(b.obj("x"), b.kind.kind+"List", "kind"))
	post("other version", with(b.obj("x"), b.group+"/v9", "apiVersion"))
	post("other group", with(b.obj("x"), "example.com/v1", "apiVersion"))
	post("bad apiVersion", with(b.obj("x"), "a/b/c", "apiVersion"))
	post("no apiVersion", with(b.obj("x"), nil, "apiVersion"))
	post("no kind", with(b.obj("x"), nil, "kind"))
	post("no type", with(with(b.obj("x"), nil, "kind"), nil, "apiVersion"))
	post("kind is a number", with(b.obj("x"), 1, "kind"))
	for _, ct := range []string{"", "-", "text/plain", "application/xml", "application/json; charset=utf-8",
		"application/JSON", "nonsense", "application/yaml",
		mediaProtobuf, mediaCBOR, "application/x-www-form-urlencoded", "application/json;", ";",
		"application/merge-patch+json"} {
		b.add("create content type "+ct, http.MethodPost, b.coll("dryRun=All"), bytesBody(ct, text))
	}
}

// badMetadata are objects with unusual or invalid metadata.
func (b *builder) badMetadata() {
	long := strings.Repeat("a", 254)
	for label, name := range inOrder(map[string]string{"upper": "UPPER", "underscore": "a_b", "slash": "a/b",
		"dot": ".", "dots": "..", "long": long, "dash": "-a", "space": "a b",
		"percent": "a%b", "64": strings.Repeat("a", 64), "dotted": "a.b", "colon": "a:b", "empty": "", "digits": "123",
		"umlaut": "ä"}) {
		b.add("create name "+label, http.MethodPost, b.coll("dryRun=All"),
			body(with(b.obj("x"), name, "metadata", "name")))
	}
	type m = map[string]any
	owner := m{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}
	meta := []struct {
		label string
		value any
		path  string
	}{
		{"no name", nil, "name"}, {"name is a number", 1, "name"}, {"namespace", b.own, "namespace"},
		{"other namespace", "other", "namespace"},
		{"generation", 7, "generation"}, {"uid", "my-uid", "uid"}, {"resourceVersion", "5", "resourceVersion"},
		{"resourceVersion 0", "0", "resourceVersion"},
		{"bad resourceVersion", "abc", "resourceVersion"},
		{"creationTimestamp", "2020-01-01T00:00:00Z", "creationTimestamp"},
		{"bad creationTimestamp", "yesterday", "creationTimestamp"},
		{"deletionTimestamp", "2020-01-01T00:00:00Z", "deletionTimestamp"},
		{"deletionGracePeriodSeconds", 5, "deletionGracePeriodSeconds"}, {"selfLink", "/x", "selfLink"},
		{"label", m{"Bad Key": "v"}, "labels"}, {"label value", m{"a": "-"}, "labels"},
		{"long label value", m{"a": strings.Repeat("a", 64)}, "labels"},
		{"label number", m{"a": 1}, "labels"}, {"label null", m{"a": nil}, "labels"},
		{"labels list", []any{}, "labels"}, {"labels empty", m{}, "labels"},
		{"annotation", m{"a b": "v"}, "annotations"},
		{"annotation fine", m{"example.com/a": "any\nthing"}, "annotations"},
		{"annotations too long", m{"a": strings.Repeat("a", 256<<10+1)}, "annotations"},
		{"annotation prefix", m{"Bad_/a": "v"}, "annotations"},
		{"finalizer", []any{"example.com/f"}, "finalizers"}, {"bad finalizer", []any{"f"}, "finalizers"},
		{"worse finalizer", []any{"a b/c"}, "finalizers"},
		{"two finalizers", []any{"example.com/f", "example.com/f"}, "finalizers"},
		{"orphan and foreground", []any{"orphan", "foregroundDeletion"}, "finalizers"},
		{"owner", []any{owner}, "ownerReferences"},
		{"owner without uid", []any{with(owner, nil, "uid")}, "ownerReferences"},
		{"owner without kind", []any{with(owner, nil, "kind")}, "ownerReferences"},
		{"owner without name", []any{with(owner, nil, "name")}, "ownerReferences"},
		{"owner without apiVersion", []any{with(owner, nil, "apiVersion")}, "ownerReferences"},
		{"owner bad apiVersion", []any{with(owner, "a/b/c", "apiVersion")}, "ownerReferences"},
		{"owner Event", []any{with(owner, "Event", "kind")}, "ownerReferences"},
		{"owner twice", []any{owner, owner}, "ownerReferences"},
		{"two controllers", []any{with(owner, true, "controller"), with(with(owner, true, "controller"), "u2", "uid")},
			"ownerReferences"},
		{"managedFields", []any{m{"manager": "me", "operation": "Update", "apiVersion": b.apiVersion(),
			"fieldsType": "FieldsV1", "fieldsV1": m{"f:metadata": m{"f:labels": m{"f:name": m{}}}}}}, "managedFields"},
		{"managedFields bad operation", []any{m{"manager": "me", "operation": "Guess", "apiVersion": b.apiVersion(),
			"fieldsType": "FieldsV1", "fieldsV1": m{}}}, "managedFields"},
		{"managedFields bad type", []any{m{"manager": "me", "operation": "Update", "apiVersion": b.apiVersion(),
			"fieldsType": "FieldsV9", "fieldsV1": m{}}}, "managedFields"},
		{"managedFields bad fields", []any{m{"manager": "me", "operation": "Update", "apiVersion": b.apiVersion(),
			"fieldsType": "FieldsV1", "fieldsV1": m{"x": m{}}}}, "managedFields"},
		{"managedFields empty", []any{m{}}, "managedFields"},
		{"unknown", 1, "unknown"}, {"generateName too", "g-", "generateName"},
		{"bad generateName", "G_", "generateName"}, {"bad namespace", "Bad_", "namespace"},
	}
	for _, c := range meta {
		b.add("create metadata "+c.label, http.MethodPost, b.coll("dryRun=All"),
			body(with(b.obj("x"), c.value, "metadata", c.path)))
	}
}

// fieldValidation sends unknown and duplicate fields with all directives.
func (b *builder) fieldValidation() {
	text := mustJSON(b.obj("x"))
	object := strings.Replace(text, `{`, `{"unknown":1,`, 1)
	deep := strings.Replace(text, `"metadata":{`, `"metadata":{"unknown":{"a":[1]},`, 1)
	double := strings.Replace(text, `"metadata":{`, `"metadata":{"labels":{"x":"y"},`, 1)
	kindTwice := strings.Replace(text, `{`, fmt.Sprintf(`{"kind":%q,`, b.kind.kind), 1)
	var many strings.Builder
	many.WriteString(text[:len(text)-1])
	for i := range 12 {
		fmt.Fprintf(&many, `,"unknown%d":%d`, i, i)
	}
	many.WriteString("}")
	inSpec := strings.Replace(text, `"spec":{`, `"spec":{"unknown":true,"x":{"y":1},`, 1)
	for label, body := range inOrder(map[string]string{"unknown": object, "deep": deep, "double": double,
		"kind twice": kindTwice, "many": many.String(), "in spec": inSpec}) {
		for _, directive := range []string{"", "Strict", "Warn", "Ignore", "Other"} {
			b.add("create "+label+" field "+directive, http.MethodPost,
				b.coll("dryRun=All", "fieldValidation="+directive), bytesBody("application/json", body))
		}
		y, err := yaml.JSONToYAML([]byte(body))
		if err == nil && label != "double" && label != "kind twice" {
			b.add("create yaml "+label+" field", http.MethodPost, b.coll("dryRun=All"), bytesBody(mediaYAML, string(y)))
			b.add("create yaml "+label+" field Strict", http.MethodPost, b.coll("dryRun=All", "fieldValidation=Strict"),
				bytesBody(mediaYAML, string(y)))
		}
	}
	y, _ := yaml.JSONToYAML([]byte(text))
	doubled := string(y) + "kind: " + b.kind.kind + "\n"
	for _, directive := range []string{"", "Strict", "Warn", "Ignore"} {
		b.add("create yaml double field "+directive, http.MethodPost,
			b.coll("dryRun=All", "fieldValidation="+directive), bytesBody(mediaYAML, doubled))
	}
}

// encodings sends the same object in every encoding, and invalid encodings.
func (b *builder) encodings() {
	y, _ := yaml.JSONToYAML([]byte(mustJSON(b.obj("yaml"))))
	b.add("create yaml", http.MethodPost, b.coll(), bytesBody(mediaYAML, string(y)))
	b.add("create bad yaml", http.MethodPost, b.coll(), bytesBody(mediaYAML, "a: b: c\n- d"))
	b.add("create two yaml", http.MethodPost, b.coll("dryRun=All"), bytesBody(mediaYAML, string(y)+"---\n"+string(y)))
	b.add("create bad protobuf", http.MethodPost, b.coll(), bytesBody(mediaProtobuf, "k8s\x00\xff\xff"))
	b.add("create empty protobuf", http.MethodPost, b.coll(), bytesBody(mediaProtobuf, ""))
	b.add("create no protobuf", http.MethodPost, b.coll(), bytesBody(mediaProtobuf, "hello"))
	b.add("create bad cbor", http.MethodPost, b.coll(), bytesBody(mediaCBOR, "\xff"))
	b.add("create empty cbor", http.MethodPost, b.coll(), bytesBody(mediaCBOR, ""))
	if data, err := cbor.Marshal(toGo(b.obj("cbor"))); err == nil {
		b.add("create cbor", http.MethodPost, b.coll(), func(s *step) {
			s.body = func(*memory) []byte { return data }
			headerOf(s, "Content-Type", mediaCBOR)
		})
		unknown, _ := cbor.Marshal(toGo(with(b.obj("x"), 1, "unknown")))
		b.add("create cbor unknown field Strict", http.MethodPost, b.coll("dryRun=All", "fieldValidation=Strict"),
			func(s *step) {
				s.body = func(*memory) []byte { return unknown }
				headerOf(s, "Content-Type", mediaCBOR)
			})
	}
	if data, err := b.protobuf(b.obj("proto")); err == nil {
		b.add("create protobuf", http.MethodPost, b.coll(), func(s *step) {
			s.body = func(*memory) []byte { return data }
			headerOf(s, "Content-Type", mediaProtobuf)
			headerOf(s, "Accept", mediaProtobuf)
		})
	}
}

// inOrder iterates over a map in the order of its keys, so that streams are deterministic.
func inOrder[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

// toGo converts JSON numbers to numbers that CBOR can encode.
func toGo(v any) any {
	var out any
	data := []byte(mustJSON(v))
	if err := json.Unmarshal(data, &out); err != nil {
		return nil
	}
	return whole(out)
}

func whole(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = whole(value)
		}
	case []any:
		for i, value := range v {
			v[i] = whole(value)
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return v
}

// protobuf encodes an object with the Go type of its kind.
func (b *builder) protobuf(obj map[string]any) ([]byte, error) {
	kind := schema.GroupVersionKind{Group: b.group, Version: b.version, Kind: b.kind.kind}
	typed, err := scheme.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(mustJSON(obj)), typed); err != nil {
		return nil, err
	}
	message, ok := typed.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return nil, fmt.Errorf("%T is not a protobuf message", typed)
	}
	data, err := message.Marshal()
	if err != nil {
		return nil, err
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: b.apiVersion(), Kind: b.kind.kind}, Raw: data}
	data, err = unknown.Marshal()
	return append([]byte("k8s\x00"), data...), err
}
