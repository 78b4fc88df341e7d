package main

import (
	"fmt"
	"net/http"
	"strings"
)

// largeStreams write objects near and beyond the sizes that servers accept, with every verb.
func largeStreams(seed uint64) []*stream {
	revision := &kind{group: "apps", version: "v1", resource: "controllerrevisions", kind: "ControllerRevision",
		namespaced: true,
		sample: fieldMap{"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
			"data": fieldMap{"a": "b"}}}
	streams := []*stream{{name: "large/controllerrevisions", steps: func(own string) []step {
		b := &builder{kind: revision, own: own, rnd: newRand(seed, "large")}
		b.steps = append(b.steps, inNamespace(own))
		b.large("data", true)
		return b.steps
	}}}
	for _, d := range readDefinitions() {
		if d.Name != "plain" {
			continue
		}
		streams = append(streams, &stream{name: "custom/plain/large", steps: func(own string) []step {
			b := d.builder(own, seed)
			b.large("spec", false)
			return b.steps
		}})
	}
	return streams
}

// large writes objects with texts of many sizes. field is an object of the kind that takes any
// member.
func (b *builder) large(field string, typed bool) {
	const (
		kept     = 1 << 20       // is stored
		unstored = 1700 << 10    // exceeds the limit of storage, but not that of bodies
		unread   = 3<<20 + 1<<10 // exceeds the limit of bodies
	)
	with := func(size int) func(fieldMap) {
		return func(o fieldMap) { set(o, strings.Repeat("x", size), field, "any", "text") }
	}
	b.create("first")
	for _, size := range []int{kept, unstored, unread} {
		label := fmt.Sprintf("large of %d KiB ", size>>10)
		o := b.obj(fmt.Sprintf("n%d", size))
		with(size)(o)
		b.add(label+"create, dry run", http.MethodPost, b.coll("dryRun=All"), body(o), accept(asPartial))
		b.add(label+"create", http.MethodPost, b.coll(), body(o), accept(asPartial))
		b.add(label+"update, dry run", http.MethodPut, b.named("first", "dryRun=All"), change("first", with(size)),
			accept(asPartial))
		b.add(label+"update", http.MethodPut, b.named("first"), change("first", with(size)), accept(asPartial))
		text := mustJSON(fieldMap{field: fieldMap{"any": fieldMap{"text": strings.Repeat("y", size)}}})
		b.add(label+"merge patch, dry run", http.MethodPatch, b.named("first", "dryRun=All"),
			bytesBody(mergePatch, text), accept(asPartial))
		b.add(label+"merge patch", http.MethodPatch, b.named("first"), bytesBody(mergePatch, text), accept(asPartial))
		if typed {
			b.add(label+"strategic patch", http.MethodPatch, b.named("first"), bytesBody(strategicPatch, text),
				accept(asPartial))
		}
		b.add(label+"JSON patch", http.MethodPatch, b.named("first"), bytesBody(jsonPatch, mustJSON([]any{
			fieldMap{"op": "add", "path": "/" + field + "/any", "value": fieldMap{"text": strings.Repeat("z", size)}},
		})), accept(asPartial))
		applied := b.obj("first")
		with(size)(applied)
		b.add(label+"apply", http.MethodPatch, b.named("first", "fieldManager=a", "force=true"),
			bytesBody(applyYAML, mustJSON(applied)), accept(asPartial))
		applied = b.obj(fmt.Sprintf("applied%d", size))
		with(size)(applied)
		b.add(label+"apply creates", http.MethodPatch, b.named(fmt.Sprintf("applied%d", size), "fieldManager=a"),
			bytesBody(applyYAML, mustJSON(applied)), accept(asPartial))
		b.add("get", http.MethodGet, b.named("first"), accept(asPartial))
	}
	// Small patches of a large object.
	b.add("reset", http.MethodPatch, b.named("first"), bytesBody(jsonPatch, mustJSON([]any{
		fieldMap{"op": "add", "path": "/" + field + "/any", "value": fieldMap{"text": strings.Repeat("z", kept)}},
	})), accept(asPartial))
	b.add("copies", http.MethodPatch, b.named("first"), bytesBody(jsonPatch, mustJSON([]any{
		fieldMap{"op": "copy", "from": "/" + field + "/any/text", "path": "/" + field + "/any/more"},
	})), accept(asPartial))
	b.add("merge of more", http.MethodPatch, b.named("first"), bytesBody(mergePatch,
		mustJSON(fieldMap{field: fieldMap{"any": fieldMap{"more": strings.Repeat("y", kept)}}})), accept(asPartial))
	b.add("apply of more", http.MethodPatch, b.named("first", "fieldManager=b", "force=true"), bytesBody(applyYAML,
		mustJSON(merged(b.obj("first"), fieldMap{
			field: fieldMap{"any": fieldMap{"more": strings.Repeat("y", kept)}}}))), accept(asPartial))
	b.add("get", http.MethodGet, b.named("first"), accept(asPartial))
	b.add("delete", http.MethodDelete, b.named("first"), accept(asPartial))
}
