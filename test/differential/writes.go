package main

import (
	"fmt"
	"net/http"
	"strings"

	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

type fieldMap = map[string]any

// updates replaces objects, with valid and invalid requests.
func (b *builder) updates() {
	if !b.can("update") {
		return
	}
	b.create("u")
	put := func(label string, edit func(fieldMap), query ...string) {
		b.add("update "+label, http.MethodPut, b.named("u", query...), change("u", edit))
	}
	putSaved := func(label string, edit func(fieldMap)) {
		b.add("update "+label, http.MethodPut, b.named("u"), change("u", edit), save("u"))
	}
	meta := func(value any, key string) func(fieldMap) {
		return func(o fieldMap) { set(o, value, "metadata", key) }
	}
	putSaved("nothing", nil)
	putSaved("label", func(o fieldMap) { set(o, "1", "metadata", "labels", "changed") })
	put("dry run", func(o fieldMap) { set(o, "2", "metadata", "labels", "changed") }, "dryRun=All")
	put("bad dry run", nil, "dryRun=x")
	put("stale", meta("1", "resourceVersion"))
	put("bad resourceVersion", meta("abc", "resourceVersion"))
	put("negative resourceVersion", meta("-1", "resourceVersion"))
	put("future resourceVersion", meta("99999999999", "resourceVersion"))
	put("without resourceVersion", func(o fieldMap) {
		set(o, nil, "metadata", "resourceVersion")
		set(o, "3", "metadata", "labels", "changed")
	})
	put("zero resourceVersion", func(o fieldMap) {
		set(o, "0", "metadata", "resourceVersion")
		set(o, "4", "metadata", "labels", "changed")
	})
	b.add("get", http.MethodGet, b.named("u"), save("u"))
	put("other name", meta("other", "name"))
	put("no name", meta(nil, "name"))
	put("no metadata", func(o fieldMap) { delete(o, "metadata") })
	put("other namespace", meta("other", "namespace"))
	put("no namespace", meta(nil, "namespace"))
	put("other uid", meta("00000000-0000-4000-8000-000000000000", "uid"))
	put("no uid", meta(nil, "uid"))
	put("creationTimestamp", meta("2020-01-01T00:00:00Z", "creationTimestamp"))
	put("no creationTimestamp", meta(nil, "creationTimestamp"))
	put("generation", meta(99, "generation"))
	put("deletionTimestamp", meta("2020-01-01T00:00:00Z", "deletionTimestamp"))
	put("generateName", meta("x-", "generateName"))
	put("no managedFields", meta(nil, "managedFields"))
	put("empty managedFields", meta([]any{}, "managedFields"))
	put("cleared managedFields", meta([]any{fieldMap{}}, "managedFields"))
	b.add("get", http.MethodGet, b.named("u"), save("u"))
	put("bad managedFields", meta([]any{fieldMap{"manager": "x"}}, "managedFields"))
	put("bad label", meta(fieldMap{"Bad Key": "x"}, "labels"))
	put("no labels", meta(nil, "labels"))
	b.add("get", http.MethodGet, b.named("u"), save("u"))
	put("bad finalizer", meta([]any{"x"}, "finalizers"))
	put("owner without uid", meta([]any{fieldMap{"apiVersion": "v1", "kind": "ConfigMap", "name": "o"}},
		"ownerReferences"))
	put("other kind", func(o fieldMap) { o["kind"] = "Nothing" })
	put("no kind", func(o fieldMap) { delete(o, "kind") })
	put("no apiVersion", func(o fieldMap) { delete(o, "apiVersion") })
	put("other apiVersion", func(o fieldMap) { o["apiVersion"] = "example.com/v1" })
	for _, directive := range []string{"", "Strict", "Warn", "Ignore"} {
		put("unknown field "+directive, func(o fieldMap) {
			o["unknown"] = 1
		}, "dryRun=All", "fieldValidation="+directive)
	}
	put("manager", func(o fieldMap) { set(o, "m", "metadata", "annotations", "manager") }, "fieldManager=me")
	put("bad manager", nil, "fieldManager=%01")
	for _, field := range b.specFields() {
		put("drop "+field, func(o fieldMap) { set(o, nil, strings.Split(field, ".")...) }, "dryRun=All")
		put("null "+field, func(o fieldMap) { setNull(o, strings.Split(field, ".")...) }, "dryRun=All")
		put("text in "+field, func(o fieldMap) { set(o, "text", strings.Split(field, ".")...) }, "dryRun=All")
		put("number in "+field, func(o fieldMap) { set(o, -7, strings.Split(field, ".")...) }, "dryRun=All")
	}
	for _, text := range []string{"", "nonsense", "null", "{}"} {
		b.add("update body "+text, http.MethodPut, b.named("u"), bytesBody("application/json", text))
	}
	b.add("update content type", http.MethodPut, b.named("u"), bytesBody("text/plain", "{}"))
	b.add("update missing", http.MethodPut, b.named("missing"), body(b.obj("missing")))
	b.add("update missing with uid", http.MethodPut, b.named("missing2"),
		body(with(b.obj("missing2"), "u", "metadata", "uid")))
	b.add("update missing with resourceVersion", http.MethodPut, b.named("missing3"),
		body(with(b.obj("missing3"), "5", "metadata", "resourceVersion")))
	b.add("update missing dry run", http.MethodPut, b.named("missing4", "dryRun=All"), body(b.obj("missing4")))
	for _, a := range accepts {
		b.add("update accept "+a.label, http.MethodPut, b.named("u", "dryRun=All"), change("u", nil),
			header("Accept", a.media))
	}
}

func setNull(obj fieldMap, path ...string) {
	set(obj, "", path...)
	for _, key := range path[:len(path)-1] {
		obj = obj[key].(fieldMap)
	}
	obj[path[len(path)-1]] = nil
}

// specFields are the fields of the sample other than type and metadata, two levels deep.
func (b *builder) specFields() (fields []string) {
	for name, value := range inOrder(b.sample) {
		if name == "apiVersion" || name == "kind" || name == "metadata" {
			continue
		}
		fields = append(fields, name)
		if deep, ok := value.(fieldMap); ok {
			for inner := range inOrder(deep) {
				if !strings.Contains(inner, ".") {
					fields = append(fields, name+"."+inner)
				}
			}
		}
	}
	return fields
}

// invalid sends new objects with one invalid field.
func (b *builder) invalid() {
	for _, field := range b.specFields() {
		path := strings.Split(field, ".")
		for label, value := range inOrder(fieldMap{"dropped": nil, "text": "text", "number": -1,
			"large number": int64(1) << 40, "fraction": 1.5, "list": []any{},
			"list of numbers": []any{1}, "object": fieldMap{}, "true": true, "long text": strings.Repeat("x", 300),
			"empty text": ""}) {
			b.add("invalid "+field+" "+label, http.MethodPost, b.coll("dryRun=All"),
				body(with(b.obj("x"), value, path...)))
		}
		null := b.obj("x")
		setNull(null, path...)
		b.add("invalid "+field+" null", http.MethodPost, b.coll("dryRun=All"), body(null))
	}
}

// patches patches objects with all four patch types, valid and invalid.
func (b *builder) patches() {
	if !b.can("patch") {
		return
	}
	b.create("p")
	patch := func(label, media, text string, query ...string) {
		b.add("patch "+label, http.MethodPatch, b.named("p", query...), bytesBody(media, text))
	}
	for label, text := range inOrder(map[string]string{
		"add":             `[{"op":"add","path":"/metadata/annotations","value":{"a":"b"}}]`,
		"replace":         `[{"op":"replace","path":"/metadata/labels/name","value":"new"}]`,
		"remove":          `[{"op":"remove","path":"/metadata/labels/name"}]`,
		"remove missing":  `[{"op":"remove","path":"/metadata/labels/nothing"}]`,
		"replace missing": `[{"op":"replace","path":"/metadata/nothing/deep","value":1}]`,
		"test":            `[{"op":"test","path":"/kind","value":"` + b.kind.kind + `"}]`,
		"test fails":      `[{"op":"test","path":"/kind","value":"x"}]`,
		"test missing":    `[{"op":"test","path":"/nothing","value":"x"}]`,
		"copy":            `[{"op":"copy","from":"/metadata/labels","path":"/metadata/annotations"}]`,
		"move":            `[{"op":"move","from":"/metadata/labels/stream","path":"/metadata/labels/moved"}]`,
		"unknown op":      `[{"op":"frob","path":"/a"}]`, "no op": `[{"path":"/a"}]`,
		"no path":  `[{"op":"add","value":1}]`,
		"no value": `[{"op":"add","path":"/metadata/labels/z"}]`,
		"object":   `{"op":"add"}`, "nonsense": `nonsense`, "null": `null`, "empty": ``, "none": `[]`,
		"bad pointer":   `[{"op":"add","path":"a","value":1}]`,
		"append":        `[{"op":"add","path":"/metadata/finalizers","value":[]},{"op":"add","path":"/metadata/finalizers/-","value":"example.com/x"},{"op":"remove","path":"/metadata/finalizers"}]`,
		"kind":          `[{"op":"replace","path":"/kind","value":"Nothing"}]`,
		"apiVersion":    `[{"op":"replace","path":"/apiVersion","value":"v9"}]`,
		"unknown field": `[{"op":"add","path":"/unknown","value":1}]`,
		"whole":         `[{"op":"replace","path":"","value":{}}]`,
		"name":          `[{"op":"replace","path":"/metadata/name","value":"other"}]`,
		"labels number": `[{"op":"add","path":"/metadata/labels/x","value":1}]`,
		"twice":         `[{"op":"add","path":"/metadata/labels/x","value":"1","value":"2"}]`,
		"extra":         `[{"op":"add","path":"/metadata/labels/x","value":"1","extra":true}]`,
		"many": "[" + strings.TrimSuffix(strings.Repeat(`{"op":"test","path":"/kind","value":"x"},`, 10001),
			",") + "]",
	}) {
		patch("json "+label, jsonPatch, text)
	}
	for _, media := range []string{mergePatch, strategicPatch} {
		short := "merge "
		if media == strategicPatch {
			short = "strategic "
		}
		for label, text := range inOrder(map[string]string{
			"label": `{"metadata":{"labels":{"m":"1"}}}`, "nothing": `{}`,
			"remove": `{"metadata":{"labels":{"m":null}}}`, "null": `null`, "list": `[]`, "nonsense": `nonsense`,
			"empty": ``,
			"text":  `"a"`, "number": `1`, "stale": `{"metadata":{"resourceVersion":"1","labels":{"x":"y"}}}`,
			"current":             `{"metadata":{"resourceVersion":"{rv:a}","labels":{"x":"y"}}}`,
			"bad resourceVersion": `{"metadata":{"resourceVersion":"abc"}}`,
			"uid":                 `{"metadata":{"uid":"00000000-0000-4000-8000-000000000000"}}`,
			"name":                `{"metadata":{"name":"other"}}`,
			"no name":             `{"metadata":{"name":null}}`, "namespace": `{"metadata":{"namespace":"other"}}`,
			"kind": `{"kind":"Nothing"}`, "apiVersion": `{"apiVersion":"v9"}`, "no kind": `{"kind":null}`,
			"no metadata": `{"metadata":null}`, "label number": `{"metadata":{"labels":{"x":1}}}`,
			"bad label": `{"metadata":{"labels":{"x":"-"}}}`, "labels text": `{"metadata":{"labels":"x"}}`,
			"owner":             `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"u"}]}}`,
			"no owner":          `{"metadata":{"ownerReferences":null}}`,
			"deletionTimestamp": `{"metadata":{"deletionTimestamp":"2020-01-01T00:00:00Z"}}`,
			"generation":        `{"metadata":{"generation":77}}`,
			"more after it":     `{"metadata":{"labels":{"m":"1"}}}x`,
			"managedFields":     `{"metadata":{"managedFields":[{}]}}`,
			"directive":         `{"metadata":{"labels":{"$patch":"replace","only":"1"}}}`,
			"bad directive":     `{"metadata":{"labels":{"$patch":"frob"}}}`,
			"delete by key":     `{"metadata":{"ownerReferences":[{"uid":"u","$patch":"delete"}]}}`,
			"list without key":  `{"metadata":{"ownerReferences":[{"name":"u"}]}}`,
			"double":            `{"metadata":{"labels":{"d":"1","d":"2"}}}`,
			"delete from list":  `{"metadata":{"$deleteFromPrimitiveList/finalizers":["x"]}}`,
			"order":             `{"metadata":{"$setElementOrder/finalizers":["x"],"finalizers":["y"]}}`,
			"retain":            `{"metadata":{"$retainKeys":["name"],"name":"p"}}`,
		}) {
			patch(short+label, media, text)
			if label == "managedFields" {
				b.add("get", http.MethodGet, b.named("p"))
			}
		}
		for _, directive := range []string{"", "Strict", "Warn", "Ignore", "Other"} {
			patch(short+"unknown field "+directive, media, `{"unknown":{"a":1},"metadata":{"unknown":2}}`,
				"fieldValidation="+directive)
			patch(short+"double field "+directive, media, `{"metadata":{"labels":{"d":"1"},"labels":{"d":"2"}}}`,
				"fieldValidation="+directive)
		}
		patch(short+"dry run", media, `{"metadata":{"labels":{"dry":"1"}}}`, "dryRun=All")
		patch(short+"bad dry run", media, `{}`, "dryRun=x")
		patch(short+"force", media, `{}`, "force=true")
		patch(short+"manager", media, `{"metadata":{"annotations":{"by":"me"}}}`, "fieldManager=me")
		b.add("patch "+short+"missing", http.MethodPatch, b.named("missing"),
			bytesBody(media, `{"metadata":{"labels":{"a":"b"}}}`))
		b.add("patch "+short+"missing, nonsense", http.MethodPatch, b.named("missing"), bytesBody(media, `nonsense`))
		for _, field := range b.specFields() {
			inner := func(value string) string {
				parts := strings.Split(field, ".")
				for i := len(parts) - 1; i >= 0; i-- {
					value = fmt.Sprintf(`{%q:%s}`, parts[i], value)
				}
				return value
			}
			for _, value := range []string{"null", `"text"`, "-1", "[]", "{}", "true", `[{"name":"new"}]`} {
				patch(short+field+" "+value, media, inner(value), "dryRun=All")
			}
		}
	}
	b.add("patch json missing", http.MethodPatch, b.named("missing"),
		bytesBody(jsonPatch, `[{"op":"add","path":"/metadata/labels","value":{}}]`))
	for _, media := range []string{"", "-", "application/json", "application/xml", mediaYAML,
		"application/merge-patch+json; charset=utf-8", "APPLICATION/MERGE-PATCH+JSON", "application/merge-patch+cbor"} {
		patch("content type "+media, media, `{}`)
	}
	for _, a := range accepts {
		b.add("patch accept "+a.label, http.MethodPatch, b.named("p"),
			bytesBody(mergePatch, `{"metadata":{"labels":{"accept":"`+notName.ReplaceAllString(a.label, "")+`"}}}`),
			header("Accept", a.media))
	}
}

// applies sends server-side apply requests.
func (b *builder) applies() {
	if !b.can("patch") {
		return
	}
	apply := func(label string, v any, name string, query ...string) {
		b.add("apply "+label, http.MethodPatch, b.named(name, query...), bytesBody(applyYAML, mustJSON(v)), save(name))
	}
	s := b.obj("s")
	apply("creates, dry run", s, "s", "fieldManager=one", "dryRun=All")
	apply("creates", s, "s", "fieldManager=one")
	apply("again", s, "s", "fieldManager=one")
	apply("no manager", s, "s")
	apply("bad manager", s, "s", "fieldManager=%01")
	apply("change", with(s, "1", "metadata", "labels", "changed"), "s", "fieldManager=one")
	apply("conflict", with(s, "2", "metadata", "labels", "changed"), "s", "fieldManager=two")
	apply("force", with(s, "2", "metadata", "labels", "changed"), "s", "fieldManager=two", "force=true")
	apply("bad force", s, "s", "fieldManager=two", "force=maybe")
	apply("removes", s, "s", "fieldManager=one")
	apply("only metadata", fieldMap{"apiVersion": b.apiVersion(), "kind": b.kind.kind,
		"metadata": fieldMap{"name": b.fullName("s")}}, "s", "fieldManager=two")
	apply("managedFields", with(s, []any{fieldMap{"manager": "x"}}, "metadata", "managedFields"), "s",
		"fieldManager=one")
	apply("null managedFields", func() fieldMap {
		o := clone(s)
		setNull(o, "metadata", "managedFields")
		return o
	}(), "s", "fieldManager=one")
	apply("resourceVersion", with(s, "1", "metadata", "resourceVersion"), "s", "fieldManager=one")
	apply("uid", with(s, "u", "metadata", "uid"), "s", "fieldManager=one")
	apply("other name", with(s, "other", "metadata", "name"), "s", "fieldManager=one")
	apply("no name", with(s, nil, "metadata", "name"), "s", "fieldManager=one")
	apply("generateName", with(with(s, nil, "metadata", "name"), "x-", "metadata", "generateName"), "s",
		"fieldManager=one")
	apply("other namespace", with(s, "other", "metadata", "namespace"), "s", "fieldManager=one")
	apply("other kind", with(s, "Nothing", "kind"), "s", "fieldManager=one")
	apply("no kind", with(s, nil, "kind"), "s", "fieldManager=one")
	apply("no apiVersion", with(s, nil, "apiVersion"), "s", "fieldManager=one")
	apply("other apiVersion", with(s, "example.com/v1", "apiVersion"), "s", "fieldManager=one")
	apply("creates with uid", with(b.obj("s2"), "00000000-0000-4000-8000-000000000000", "metadata", "uid"), "s2",
		"fieldManager=one")
	apply("creates with resourceVersion", with(b.obj("s3"), "1", "metadata", "resourceVersion"), "s3",
		"fieldManager=one")
	for _, directive := range []string{"", "Strict", "Warn", "Ignore", "Other"} {
		apply("unknown field "+directive, with(s, 1, "unknown"), "s", "fieldManager=one", "fieldValidation="+directive)
		b.add("apply double field "+directive, http.MethodPatch,
			b.named("s", "fieldManager=one", "fieldValidation="+directive),
			bytesBody(applyYAML, strings.Replace(mustJSON(s), `"metadata":{`, `"metadata":{"labels":{"d":"e"},`, 1)))
	}
	for _, text := range []string{"", "nonsense", "null", "[]", "a: b: c", "{}", "kind: " + b.kind.kind} {
		b.add("apply body "+strings.ReplaceAll(text, b.kind.kind, "KIND"), http.MethodPatch,
			b.named("s", "fieldManager=one"), bytesBody(applyYAML, text))
	}
	for _, field := range b.specFields() {
		for label, value := range inOrder(fieldMap{"dropped": nil, "text": "text", "number": -1, "list": []any{},
			"object": fieldMap{}}) {
			apply(field+" "+label, with(s, value, strings.Split(field, ".")...), "s", "fieldManager=one", "dryRun=All")
			apply(field+" "+label+" of another", with(s, value, strings.Split(field, ".")...), "s",
				"fieldManager=three", "dryRun=All")
		}
	}
	if data, err := cbor.Marshal(toGo(with(s, "c", "metadata", "labels", "cbor"))); err == nil {
		b.add("apply cbor", http.MethodPatch, b.named("s", "fieldManager=cbor", "force=true"), func(st *step) {
			st.body = func(*memory) []byte { return data }
			headerOf(st, "Content-Type", applyCBOR)
		})
	}
	b.add("update after apply", http.MethodPut, b.named("s"), change("s", func(o fieldMap) {
		set(o, nil, "metadata", "resourceVersion")
		set(o, "u", "metadata", "labels", "changed")
	}), header("User-Agent", "kubectl/v1"))
	apply("after update", with(s, "3", "metadata", "labels", "changed"), "s", "fieldManager=one")
	b.create("client", func(o fieldMap) {
		set(o, mustJSON(fieldMap{"apiVersion": b.apiVersion(), "kind": b.kind.kind,
			"metadata": fieldMap{"name": b.fullName("client"), "labels": fieldMap{"last": "1"}}}),
			"metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	})
	apply("after kubectl's", with(b.obj("client"), "2", "metadata", "labels", "last"), "client", "fieldManager=kubectl")
}
