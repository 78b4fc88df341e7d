package main

import (
	"context"
	"net/http"
	"slices"
)

// generatedSteps is the number of generated objects per stream.
const generatedSteps = 40

// generatedStreams send objects generated from the peer's schemas, of all kinds, with or without a
// sample.
func generatedStreams(ctx context.Context, peer *side, kinds []*kind, seed uint64) []*stream {
	docs := &documents{side: peer, schemas: map[string]fieldMap{}}
	var streams []*stream
	for _, k := range kinds {
		schemas, own := docs.schemasOf(ctx, k)
		if own == nil || !k.can("create") {
			continue
		}
		streams = append(streams, &stream{name: "generated/" + k.String(), steps: func(name string) []step {
			return generated(k, schemas, own, name, seed)
		}})
	}
	return streams
}

// generated returns the requests for one kind. Cluster-scoped objects are sent as dry runs, because
// they could affect other streams.
func generated(k *kind, schemas, schema fieldMap, own string, seed uint64) []step {
	b := &builder{kind: k, own: own, rnd: newRand(seed, "generated "+k.String())}
	v := &inventor{schemas: schemas, rnd: b.rnd}
	b.steps = append(b.steps, inNamespace(own))
	dry := func(query ...string) []string {
		if !k.namespaced {
			query = append(query, "dryRun=All")
		}
		return query
	}
	review := slices.Equal(k.verbs, []string{"create"})
	base := func(name string) fieldMap {
		if k.sample != nil {
			return b.obj(name)
		}
		k := *k
		k.sample = fieldMap{"apiVersion": k.apiVersion(), "kind": k.kind}
		return k.object(own, b.fullName(name))
	}
	b.add("generated base", http.MethodPost, b.coll(dry()...), body(base("base")), save("base"))
	for i := range generatedSteps {
		invented := v.invent(schema, base("g"))
		b.add("generated create", http.MethodPost, b.coll("dryRun=All"), body(invented))
		b.add("mutated create", http.MethodPost, b.coll("dryRun=All"), body(v.mutated(base("g"), schema)))
		if review || i%3 > 0 {
			continue
		}
		change := v.mutated(base("base"), schema)
		delete(change, "metadata")
		if k.can("update") {
			next := v.mutated(base("base"), schema)
			b.add("generated update", http.MethodPut, b.named("base", "dryRun=All"),
				body(v.invent(schema, base("base"))))
			b.add("mutated update", http.MethodPut, b.named("base", dry()...), body(next))
		}
		if k.can("patch") {
			for _, media := range []string{mergePatch, strategicPatch} {
				b.add("mutated patch", http.MethodPatch, b.named("base", dry()...), bytesBody(media, mustJSON(change)))
			}
			b.add("mutated apply", http.MethodPatch, b.named("base", dry("fieldManager=one", "force=true")...),
				bytesBody(applyYAML, mustJSON(v.mutated(base("base"), schema))))
			b.add("generated apply", http.MethodPatch, b.named("applied", dry("fieldManager=two")...),
				bytesBody(applyYAML, mustJSON(v.invent(schema, base("applied")))))
		}
		if status, _ := at(schema, "properties", "status").(fieldMap); status != nil && b.has("status") {
			patch := mustJSON(fieldMap{"status": v.value(status, "status", 1)})
			b.add("generated status", http.MethodPatch, b.sub("base", "status", dry()...), bytesBody(mergePatch, patch))
			b.add("generated status, strategic", http.MethodPatch, b.sub("base", "status", dry()...),
				bytesBody(strategicPatch, patch))
		}
		if k.can("get") {
			b.add("get", http.MethodGet, b.named("base"), save("base"))
			b.add("get table", http.MethodGet, b.named("base"), accept(asTable))
			b.add("get protobuf", http.MethodGet, b.named("base"), accept(mediaProtobuf))
		}
	}
	return b.steps
}

// invent generates an object with the identity of another.
func (v *inventor) invent(schema, like fieldMap) fieldMap {
	obj, ok := v.object(schema, "", 0).(fieldMap)
	if !ok {
		obj = fieldMap{}
	}
	if !v.chance(20) {
		delete(obj, "status")
	}
	obj["apiVersion"], obj["kind"], obj["metadata"] = like["apiVersion"], like["kind"], like["metadata"]
	delete(obj, "unknown")
	return obj
}
