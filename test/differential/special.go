package main

import (
	"fmt"
	"net/http"
	"strings"
)

// specialStreams test single behaviors that no stream of a kind reaches.
func specialStreams(seed uint64) []*stream {
	streams := []*stream{
		{name: "special/conditional", steps: conditional},
		{name: "special/order", steps: func(own string) []step {
			b := &builder{kind: &kind{version: "v1", resource: "configmaps", kind: "ConfigMap", namespaced: true,
				sample: fieldMap{"apiVersion": "v1", "kind": "ConfigMap", "data": fieldMap{"a": "b"}}}, own: own}
			b.ordered(own)
			return b.steps
		}},
	}
	for _, d := range readDefinitions() {
		if d.Name != "versions" {
			continue
		}
		streams = append(streams,
			&stream{name: "custom/versions/order", steps: func(own string) []step {
				b := d.builder(own, seed)
				b.ordered(own)
				b.revisions()
				return b.steps
			}},
			&stream{name: "custom/versions/failing", steps: func(own string) []step { return d.failing(own, seed) }},
		)
	}
	return streams
}

// conditional sends conditional requests for documents. Each side has its own entity tags.
func conditional(string) []step {
	var steps []step
	get := func(label, path string, headers ...string) {
		s := step{label: label + " " + path, method: http.MethodGet, path: path, save: "document"}
		if len(headers) > 1 {
			s.save = ""
		}
		for i := 0; i+1 < len(headers); i += 2 {
			headerOf(&s, headers[i], headers[i+1])
		}
		steps = append(steps, s)
	}
	const past, future = "Mon, 01 Jan 2024 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"
	for _, path := range []string{"/openapi/v3", "/openapi/v3/apis/apps/v1", "/openapi/v2", "/apis", "/apis/apps/v1"} {
		get("document", path)
		media := ""
		if path == "/apis" {
			media = asDiscovery
			get("document", path, "Accept", media)
			steps[len(steps)-1].save = "document"
		}
		for _, c := range []struct{ label, key, value string }{
			{"same", "If-None-Match", "{etag:document}"}, {"same, weak", "If-None-Match", "W/{etag:document}"},
			{"same of several", "If-None-Match", `"x", {etag:document}`},
			{"other", "If-None-Match", `"x"`}, {"any", "If-None-Match", "*"}, {"bad", "If-None-Match", "x"},
			{"match", "If-Match", "{etag:document}"}, {"match other", "If-Match", `"x"`},
			{"modified", "If-Modified-Since", past}, {"not modified", "If-Modified-Since", future},
			{"bad time", "If-Modified-Since", "yesterday"},
			{"unmodified", "If-Unmodified-Since", future},
		} {
			if media != "" {
				get("conditional: "+c.label, path, c.key, c.value, "Accept", media)
			} else {
				get("conditional: "+c.label, path, c.key, c.value)
			}
		}
	}
	return steps
}

// ordered lists objects of several namespaces, whose names order differently by text and by key.
func (b *builder) ordered(own string) {
	spaces := []string{own, own + "-b", own + "0", own + "a"}
	for i, space := range spaces {
		if i > 0 || b.group == "" {
			b.steps = append(b.steps, inNamespace(space))
		}
		for _, name := range []string{"a", "a-b", "a.b"} {
			o := b.object(space, name)
			set(o, own, "metadata", "labels", "order")
			b.add("create", http.MethodPost, b.collection(space), body(o))
		}
	}
	all := b.root() + "/" + b.resource + "?labelSelector=order%3D" + own
	for _, query := range []string{"", "&resourceVersion=0"} {
		b.add("list all "+query, http.MethodGet, all+query)
		b.add("list all in a table "+query, http.MethodGet, all+query, accept(asTable))
	}
	for i := range 4 {
		query := "&limit=4"
		if i > 0 {
			query += fmt.Sprintf("&continue={continue:order-%d}", i-1)
		}
		b.add("page of all", http.MethodGet, all+query, save(fmt.Sprintf("order-%d", i)))
	}
	b.add("watch all", http.MethodGet, all+"&watch=1&timeoutSeconds=1", events)
	b.add("initial events of all", http.MethodGet,
		all+"&watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", events)
	for _, space := range spaces[1:] {
		b.add("delete the namespace", http.MethodDelete, "/api/v1/namespaces/"+space)
	}
}

// revisions watches a custom kind from revisions before the kind existed, and with odd timeouts.
func (b *builder) revisions() {
	for _, query := range []string{"resourceVersion=1", "resourceVersion=1&allowWatchBookmarks=true",
		"resourceVersion=2"} {
		b.add("watch "+query, http.MethodGet, b.coll("watch=1&timeoutSeconds=1", query), events)
	}
	for _, query := range []string{"watch=1&timeoutSeconds=-1", "watch=1&timeoutSeconds=-1&resourceVersion=0",
		"timeoutSeconds=-1", "timeoutSeconds=-1&limit=1"} {
		b.add("timeout "+query, http.MethodGet, b.coll(query), events)
	}
	b.add("delete collection with a negative timeout", http.MethodDelete,
		b.coll("timeoutSeconds=-1", "labelSelector=none%3Dx"))
}

// failing uses a definition whose conversion webhook does not answer.
func (d *sampleDefinition) failing(own string, seed uint64) []step {
	b := d.builder(own, seed)
	for i := range b.steps {
		if b.steps[i].label != "define" {
			continue
		}
		object := d.object(own)
		set(object, fieldMap{"strategy": "Webhook", "webhook": fieldMap{"conversionReviewVersions": []any{"v1"},
			"clientConfig": fieldMap{"url": "https://127.0.0.1:1/convert"}}}, "spec", "conversion")
		b.steps[i].body = jsonBody(object)
	}
	versions := d.Definition["versions"].([]any)
	stored := ""
	for _, v := range versions {
		if at(v, "storage") == true {
			stored = at(v, "name").(string)
		}
	}
	b.kind = d.kind(own, stored)
	b.create("first")
	b.create("second")
	for _, v := range versions {
		version := at(v, "name").(string)
		if version == stored || at(v, "served") != true {
			continue
		}
		b.kind = d.kind(own, version)
		b.unconvertible()
	}
	b.kind = d.kind(own, stored)
	b.add("list in the stored version", http.MethodGet, b.listing())
	b.add("delete the rest", http.MethodDelete, b.coll())
	return b.steps
}

// unconvertible sends every verb to objects that cannot be converted to the version.
func (b *builder) unconvertible() {
	for _, form := range []string{"", asTable, asPartial, mediaYAML} {
		b.add("get as "+form, http.MethodGet, b.named("first"), accept(form))
		b.add("list as "+form, http.MethodGet, b.listing(),
			accept(strings.Replace(form, "PartialObjectMetadata;", "PartialObjectMetadataList;", 1)))
	}
	b.add("list with a limit", http.MethodGet, b.listing("limit=1"))
	b.add("create", http.MethodPost, b.coll(), body(b.obj("third")))
	b.add("create, dry run", http.MethodPost, b.coll("dryRun=All"), body(b.obj("third")))
	b.add("update", http.MethodPut, b.named("first"), body(b.obj("first")))
	b.add("update of a missing object", http.MethodPut, b.named("missing"), body(b.obj("missing")))
	b.add("merge patch", http.MethodPatch, b.named("first"), bytesBody(mergePatch, `{"metadata":{"labels":{"a":"b"}}}`))
	b.add("JSON patch", http.MethodPatch, b.named("first"),
		bytesBody(jsonPatch, `[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`))
	b.add("apply", http.MethodPatch, b.named("first", "fieldManager=a", "force=true"),
		bytesBody(applyYAML, mustJSON(b.obj("first"))))
	b.add("apply creates", http.MethodPatch, b.named("applied", "fieldManager=a"),
		bytesBody(applyYAML, mustJSON(b.obj("applied"))))
	for _, sub := range []string{"status", "scale"} {
		if b.has(sub) {
			b.add("get "+sub, http.MethodGet, b.sub("first", sub))
			b.add("patch "+sub, http.MethodPatch, b.sub("first", sub),
				bytesBody(mergePatch, `{"metadata":{"labels":{"a":"b"}}}`))
		}
	}
	b.add("watch", http.MethodGet, b.listing("watch=1&timeoutSeconds=1", "resourceVersion={rv:first}"), events)
	b.add("initial events", http.MethodGet, b.listing("watch=1&timeoutSeconds=1",
		"sendInitialEvents=true&resourceVersionMatch=NotOlderThan"), events)
	b.add("delete, dry run", http.MethodDelete, b.named("first", "dryRun=All"))
	b.add("delete", http.MethodDelete, b.named("first"))
	b.add("delete collection", http.MethodDelete,
		b.coll("labelSelector="+strings.ReplaceAll("stream="+b.own, "=", "%3D")))
}
