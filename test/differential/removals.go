package main

import "net/http"

// deletes deletes objects, with all options.
func (b *builder) deletes() {
	if !b.can("delete") {
		return
	}
	remove := func(label, name string, opts string, query ...string) {
		if opts == "" {
			b.add("delete "+label, http.MethodDelete, b.named(name, query...))
			return
		}
		b.add("delete "+label, http.MethodDelete, b.named(name, query...), bytesBody("application/json", opts))
	}
	b.create("d")
	remove("missing", "missing", "")
	remove("dry run", "d", "", "dryRun=All")
	remove("dry run in body", "d", `{"dryRun":["All"]}`)
	remove("bad dry run", "d", "", "dryRun=x")
	remove("other uid", "d", `{"preconditions":{"uid":"00000000-0000-4000-8000-000000000000"}}`)
	remove("other resourceVersion", "d", `{"preconditions":{"resourceVersion":"1"}}`)
	remove("bad policy", "d", "", "propagationPolicy=Other")
	remove("both policies", "d", `{"propagationPolicy":"Orphan","orphanDependents":true}`)
	remove("both policies in query", "d", "", "propagationPolicy=Orphan&orphanDependents=true")
	remove("negative grace", "d", "", "gracePeriodSeconds=-1", "dryRun=All")
	remove("bad grace", "d", "", "gracePeriodSeconds=x")
	remove("nonsense", "d", "nonsense")
	remove("list", "d", "[]")
	remove("null", "missing", "null")
	remove("other kind", "d", `{"kind":"Pod","apiVersion":"v1"}`)
	remove("own kind", "missing", `{"kind":"DeleteOptions","apiVersion":"`+b.apiVersion()+`"}`)
	remove("meta kind", "missing", `{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1"}`)
	remove("v1 kind", "missing", `{"kind":"DeleteOptions","apiVersion":"v1"}`)
	remove("unknown version", "missing", `{"kind":"DeleteOptions","apiVersion":"v9"}`)
	remove("unknown field", "missing", `{"unknown":1}`)
	remove("ignore store read error", "d", "", "ignoreStoreReadErrorWithClusterBreakingPotential=true")
	b.add("delete content type", http.MethodDelete, b.named("d"), bytesBody("text/plain", "{}"))
	b.add("delete yaml", http.MethodDelete, b.named("missing"), bytesBody(mediaYAML, "gracePeriodSeconds: 0\n"))
	for _, a := range accepts {
		b.add("delete missing accept "+a.label, http.MethodDelete, b.named("missing"), header("Accept", a.media))
		b.add("delete dry run accept "+a.label, http.MethodDelete, b.named("d", "dryRun=All"),
			header("Accept", a.media))
	}
	remove("right preconditions", "d", `{"preconditions":{"uid":"{uid:d}","resourceVersion":"{rv:d}"},"gracePeriodSeconds":0}`)
	remove("again", "d", "")
	for _, policy := range []string{"Background", "Foreground", "Orphan"} {
		b.create("d")
		remove("policy "+policy, "d", "", "propagationPolicy="+policy, "gracePeriodSeconds=0")
		b.add("get after policy "+policy, http.MethodGet, b.named("d"), save("d"))
		remove("policy "+policy+" again", "d", "", "propagationPolicy="+policy)
		b.add("update without finalizers after policy "+policy, http.MethodPut, b.named("d"),
			change("d", func(o fieldMap) { set(o, nil, "metadata", "finalizers") }))
		b.add("get after finalizers of "+policy, http.MethodGet, b.named("d"))
		remove("policy "+policy+" at last", "d", `{"gracePeriodSeconds":0}`, "propagationPolicy=Background")
	}
	b.finalizers()
	b.create("g")
	remove("grace", "g", "", "gracePeriodSeconds=5")
	b.add("get after grace", http.MethodGet, b.named("g"))
	remove("less grace", "g", "", "gracePeriodSeconds=1")
	remove("no grace", "g", "", "gracePeriodSeconds=0")
	b.create("h")
	remove("plain", "h", "")
	b.add("get after plain", http.MethodGet, b.named("h"))
}

// finalizers delays deletions with finalizers, and removes them.
func (b *builder) finalizers() {
	b.create("f", func(o fieldMap) { set(o, []any{"example.com/one", "example.com/two"}, "metadata", "finalizers") })
	b.add("delete with finalizers, dry run", http.MethodDelete, b.named("f", "dryRun=All"))
	b.add("delete with finalizers", http.MethodDelete, b.named("f", "gracePeriodSeconds=0"))
	b.add("get deleted", http.MethodGet, b.named("f"), save("f"))
	b.add("delete deleted", http.MethodDelete, b.named("f"))
	b.add("create deleted again", http.MethodPost, b.coll(), body(b.obj("f")))
	b.add("update deleted, new finalizer", http.MethodPut, b.named("f"), change("f", func(o fieldMap) {
		set(o, []any{"example.com/one", "example.com/three"}, "metadata", "finalizers")
	}))
	b.add("update deleted, label", http.MethodPut, b.named("f"), change("f", func(o fieldMap) {
		set(o, "1", "metadata", "labels", "late")
	}), save("f"))
	b.add("update deleted, deletionTimestamp", http.MethodPut, b.named("f"), change("f", func(o fieldMap) {
		set(o, nil, "metadata", "deletionTimestamp")
	}), save("f"))
	b.add("patch deleted, one finalizer", http.MethodPatch, b.named("f"),
		bytesBody(mergePatch, `{"metadata":{"finalizers":["example.com/two"]}}`))
	b.add("patch deleted, no finalizer, dry run", http.MethodPatch, b.named("f", "dryRun=All"),
		bytesBody(mergePatch, `{"metadata":{"finalizers":null}}`))
	b.add("patch deleted, no finalizer", http.MethodPatch, b.named("f"),
		bytesBody(mergePatch, `{"metadata":{"finalizers":null}}`))
	b.add("get released", http.MethodGet, b.named("f"))
	b.add("patch released", http.MethodPatch, b.named("f"), bytesBody(mergePatch, `{}`))
}

// deleteCollections deletes many objects at once.
func (b *builder) deleteCollections() {
	if !b.can("deletecollection") {
		b.add("deletecollection not allowed", http.MethodDelete, b.coll("labelSelector=stream%3Dnothing"))
		return
	}
	remove := func(label string, query ...string) {
		b.add("deletecollection "+label, http.MethodDelete, b.listing(query...))
	}
	for _, name := range []string{"c1", "c2", "c3"} {
		b.create(name, func(o fieldMap) { set(o, "c", "metadata", "labels", "set") })
	}
	b.create("c4", func(o fieldMap) {
		set(o, []any{"example.com/one"}, "metadata", "finalizers")
		set(o, "c", "metadata", "labels", "set")
	})
	sel := func(text string) string {
		if b.namespaced {
			return b.coll("labelSelector=" + text)
		}
		return b.coll("labelSelector=stream%3D" + b.own + "," + text)
	}
	at := func(label, selector string, opts ...option) {
		b.add("deletecollection "+label, http.MethodDelete, sel(selector), opts...)
	}
	at("nothing", "set%3Dnothing")
	at("bad selector", "set%3D-")
	remove("bad field selector", "fieldSelector=spec.nothing%3Da")
	remove("dry run", "dryRun=All")
	remove("bad dry run", "dryRun=x")
	remove("bad policy", "propagationPolicy=Other")
	remove("by name", "fieldSelector=metadata.name%3D"+b.fullName("c1"))
	remove("limit", "limit=1&dryRun=All")
	remove("bad limit", "limit=x")
	at("bad body", "set%3Dc", bytesBody("application/json", "nonsense"))
	at("other uid", "set%3Dc", bytesBody("application/json",
		`{"preconditions":{"uid":"00000000-0000-4000-8000-000000000000"}}`))
	at("as table", "set%3Dnothing", accept(asTable))
	at("as partial list", "set%3Dnothing", accept(asPartialList))
	at("some", "set%3Dc", bytesBody("application/json", `{"gracePeriodSeconds":0}`))
	b.add("list after deletecollection", http.MethodGet, b.listing("labelSelector=set"))
	b.add("get after deletecollection", http.MethodGet, b.named("c4"))
	b.add("patch after deletecollection", http.MethodPatch, b.named("c4"),
		bytesBody(mergePatch, `{"metadata":{"finalizers":null}}`))
	if b.namespaced {
		b.create("c5", func(o fieldMap) { set(o, []any{"example.com/one"}, "metadata", "finalizers") })
		remove("all in protobuf", "gracePeriodSeconds=0")
		b.add("list after all", http.MethodGet, b.listing())
		b.add("patch after all", http.MethodPatch, b.named("c5"),
			bytesBody(mergePatch, `{"metadata":{"finalizers":null}}`))
	}
}
