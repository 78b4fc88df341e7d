package main

import (
	"net/http"
	"slices"
	"strings"
)

// subviews reads and writes the subresources with the object's own type, and scale.
func (b *builder) subviews() {
	b.create("v")
	for _, sub := range b.subresources {
		switch {
		case sub == "scale":
			b.scales()
		case sub == "status" || sub == "approval" || sub == "finalize" || sub == "ephemeralcontainers" ||
			sub == "resize":
			b.view(sub)
		}
	}
	if !b.has("status") {
		b.add("get absent status", http.MethodGet, b.sub("v", "status"))
		b.add("update absent status", http.MethodPut, b.sub("v", "status"), change("v", nil))
	}
	if !b.has("scale") {
		b.add("get absent scale", http.MethodGet, b.sub("v", "scale"))
	}
}

func (b *builder) view(sub string) {
	path := b.sub("v", sub)
	for _, method := range []string{http.MethodPost, http.MethodDelete, "FROB"} {
		b.add(sub+" method "+method, method, path, body(b.obj("v")))
	}
	for _, a := range accepts {
		b.add(sub+" get "+a.label, http.MethodGet, path, header("Accept", a.media))
	}
	b.add(sub+" get missing", http.MethodGet, b.sub("missing", sub))
	b.add("get", http.MethodGet, b.named("v"), save("v"))
	put := func(label string, edit func(fieldMap), query ...string) {
		b.add(sub+" update "+label, http.MethodPut, withQuery(path, query), change("v", edit), save("v"))
	}
	put("nothing", nil)
	put("label", func(o fieldMap) { set(o, "1", "metadata", "labels", sub) })
	put("annotation dry run", func(o fieldMap) { set(o, "1", "metadata", "annotations", sub) }, "dryRun=All")
	put("stale", func(o fieldMap) { set(o, "1", "metadata", "resourceVersion") })
	put("without resourceVersion", func(o fieldMap) { set(o, nil, "metadata", "resourceVersion") })
	put("other name", func(o fieldMap) { set(o, "other", "metadata", "name") })
	put("unknown field", func(o fieldMap) { set(o, 1, "status", "unknown") }, "fieldValidation=Strict")
	put("text", func(o fieldMap) { set(o, "text", "status") })
	put("conditions", func(o fieldMap) {
		set(o, []any{fieldMap{"type": "Seen", "status": "True", "reason": "Test", "message": "m",
			"lastTransitionTime": "2024-01-02T03:04:05Z"}}, "status", "conditions")
	})
	put("bad conditions", func(o fieldMap) {
		set(o, []any{fieldMap{"type": "Seen", "status": "Perhaps"}, fieldMap{"type": "Seen", "status": "Perhaps"}},
			"status", "conditions")
	})
	put("number", func(o fieldMap) { set(o, -3, "status", "replicas"); set(o, 5, "status", "observedGeneration") })
	put("finalizer", func(o fieldMap) { set(o, []any{"example.com/x"}, "metadata", "finalizers") })
	put("no status", func(o fieldMap) { delete(o, "status") })
	for _, field := range b.specFields() {
		put("drop "+field, func(o fieldMap) { set(o, nil, strings.Split(field, ".")...) })
	}
	b.add("get", http.MethodGet, b.named("v"), save("v"))
	for _, media := range []string{mergePatch, strategicPatch} {
		for _, text := range []string{`{}`, `{"metadata":{"labels":{"p":"1"}}}`,
			`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"R","message":"m","lastTransitionTime":"2024-01-02T03:04:05Z"}]}}`,
			`{"status":null}`, `{"status":{"replicas":3}}`, `{"spec":null}`, `{"status":"x"}`, `nonsense`,
			`{"metadata":{"finalizers":["example.com/y"]}}`} {
			b.add(sub+" patch "+media+" "+text, http.MethodPatch, path, bytesBody(media, text))
		}
	}
	status := fieldMap{"apiVersion": b.apiVersion(), "kind": b.kind.kind, "metadata": fieldMap{"name": b.fullName("v")},
		"status": fieldMap{"observedGeneration": 4}}
	b.add(sub+" apply", http.MethodPatch, withQuery(path, []string{"fieldManager=s"}),
		bytesBody(applyYAML, mustJSON(status)))
	b.add(sub+" apply again", http.MethodPatch, withQuery(path, []string{"fieldManager=s", "force=true"}),
		bytesBody(applyYAML, mustJSON(status)))
	b.add(sub+" apply missing", http.MethodPatch, withQuery(b.sub("missing", sub), []string{"fieldManager=s"}),
		bytesBody(applyYAML, mustJSON(with(status, b.fullName("missing"), "metadata", "name"))))
	b.add(sub+" update missing", http.MethodPut, b.sub("missing", sub), body(b.obj("missing")))
	b.add(sub+" patch missing", http.MethodPatch, b.sub("missing", sub), bytesBody(mergePatch, `{}`))
	b.add("get", http.MethodGet, b.named("v"), save("v"))
}

func (b *builder) scales() {
	path := b.sub("v", "scale")
	for _, a := range accepts {
		b.add("scale get "+a.label, http.MethodGet, path, header("Accept", a.media))
	}
	b.add("scale get", http.MethodGet, path, save("scale"))
	b.add("scale get missing", http.MethodGet, b.sub("missing", "scale"))
	put := func(label string, edit func(fieldMap), query ...string) {
		b.add("scale update "+label, http.MethodPut, withQuery(path, query), change("scale", edit))
	}
	put("nothing", nil)
	put("dry run", func(o fieldMap) { set(o, 9, "spec", "replicas") }, "dryRun=All")
	put("up", func(o fieldMap) { set(o, 4, "spec", "replicas") })
	put("stale", func(o fieldMap) { set(o, 5, "spec", "replicas") })
	put("without resourceVersion", func(o fieldMap) {
		set(o, nil, "metadata", "resourceVersion")
		set(o, 6, "spec", "replicas")
	})
	put("negative", func(o fieldMap) { set(o, nil, "metadata", "resourceVersion"); set(o, -1, "spec", "replicas") })
	put("text", func(o fieldMap) { set(o, "x", "spec", "replicas") })
	put("no spec", func(o fieldMap) { set(o, nil, "metadata", "resourceVersion"); delete(o, "spec") })
	put("other name", func(o fieldMap) { set(o, "other", "metadata", "name") })
	put("no name", func(o fieldMap) { set(o, nil, "metadata", "name") })
	put("other uid", func(o fieldMap) {
		set(o, nil, "metadata", "resourceVersion")
		set(o, "00000000-0000-4000-8000-000000000000", "metadata", "uid")
	})
	put("other kind", func(o fieldMap) { o["kind"] = "Nothing" })
	put("other version", func(o fieldMap) { o["apiVersion"] = "autoscaling/v9" })
	put("unknown field", func(o fieldMap) { o["unknown"] = 1 }, "fieldValidation=Strict")
	b.add("scale object itself", http.MethodPut, path, change("v", nil))
	for _, media := range []string{mergePatch, strategicPatch} {
		for _, text := range []string{`{"spec":{"replicas":2}}`, `{}`, `{"spec":{"replicas":-2}}`,
			`{"spec":{"replicas":"x"}}`, `{"spec":null}`, `{"metadata":{"labels":{"a":"b"}}}`,
			`{"status":{"replicas":9}}`,
			`{"metadata":{"resourceVersion":"1"},"spec":{"replicas":7}}`, `{"unknown":1}`} {
			b.add("scale patch "+media+" "+text, http.MethodPatch, path, bytesBody(media, text))
		}
	}
	b.add("scale patch json", http.MethodPatch, path,
		bytesBody(jsonPatch, `[{"op":"replace","path":"/spec/replicas","value":3}]`))
	apply := fieldMap{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": fieldMap{"name": b.fullName("v")},
		"spec": fieldMap{"replicas": 8}}
	dry := "dryRun="
	if strings.HasSuffix(b.group, ".example.com") { // a dry run, because the sides differ
		dry += "All"
	}
	b.add("scale apply", http.MethodPatch, withQuery(path, []string{"fieldManager=sc", dry}),
		bytesBody(applyYAML, mustJSON(apply)))
	b.add("scale apply force", http.MethodPatch, withQuery(path, []string{"fieldManager=sc", "force=true", dry}),
		bytesBody(applyYAML, mustJSON(apply)))
	b.add("scale update missing", http.MethodPut, b.sub("missing", "scale"),
		body(with(apply, b.fullName("missing"), "metadata", "name")))
	b.add("scale delete", http.MethodDelete, path)
	b.add("get after scale", http.MethodGet, b.named("v"))
}

// watches reads the stream's events, in several representations. Each watch lasts a second.
func (b *builder) watches() {
	if !b.can("watch") {
		return
	}
	watch := func(label, query string, opts ...option) {
		b.add("watch "+label, http.MethodGet, b.listing("watch=1&timeoutSeconds=1", query), append(opts, events)...)
	}
	forms := []string{"json", "protobuf", "table", "partial", "cbor-seq"}
	form := forms[b.rnd.IntN(len(forms))]
	media := map[string]string{"json": "", "protobuf": mediaProtobuf + ";stream=watch", "table": asTable,
		"partial": asPartial, "cbor-seq": "application/cbor-seq"}[form]
	watch("from "+form, "resourceVersion={rv:first}", accept(media))
	watch("initial", "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&resourceVersion=")
	for _, query := range []string{"resourceVersion=abc", "sendInitialEvents=true",
		"sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1",
		"resourceVersionMatch=NotOlderThan&resourceVersion=1", "fieldSelector=spec.nothing%3D1", "labelSelector=a+b",
		"limit=1&resourceVersion=x", "resourceVersion=-1",
		"sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=x",
		"continue=abc&resourceVersion=x"} {
		watch("bad "+query, query)
	}
	watch("bad accept", "", accept(mediaYAML))
	watch("bad table accept", "", accept("application/yaml;as=Table;v=v1;g=meta.k8s.io"))
	b.add("watch bad timeout", http.MethodGet, b.listing("watch=1&timeoutSeconds=x"))
	b.add("watch negative timeout", http.MethodGet, b.listing("watch=1&timeoutSeconds=-1"), events)
}

// allVerbs sends requests of every verb: first with objects that the later ones need.
func (b *builder) allVerbs() {
	b.create("first")
	b.create("a")
	b.create("b")
	b.reads()
	b.creates()
	b.invalid()
	b.updates()
	b.patches()
	b.applies()
	b.subviews()
	b.deletes()
	b.deleteCollections()
	b.watches()
}

// kindStream has the requests for one kind. Groups of steps can be selected; the default is all.
func kindStream(k *kind, seed uint64) *stream {
	return &stream{name: k.String(), steps: func(own string) []step {
		b := &builder{kind: k, own: own, rnd: newRand(seed, k.String())}
		b.steps = append(b.steps, inNamespace(own))
		if slices.Equal(k.verbs, []string{"create"}) {
			b.creates()
			b.invalid()
			b.wrongMethods()
			return b.steps
		}
		b.allVerbs()
		return b.steps
	}}
}
