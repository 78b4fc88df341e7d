package main

import (
	"fmt"
	"net/http"
)

// podStreams bind and evict pods, which no other stream does: the subresources binding and
// eviction, and the collection bindings.
func podStreams(k *kind, seed uint64) []*stream {
	return []*stream{
		{name: "pods/bindings", steps: func(own string) []step {
			b := &podBuilder{builder{kind: k, own: own, rnd: newRand(seed, "bindings")}}
			b.steps = append(b.steps, inNamespace(own))
			b.bindings()
			return b.steps
		}},
		{name: "pods/evictions", steps: func(own string) []step {
			b := &podBuilder{builder{kind: k, own: own, rnd: newRand(seed, "evictions")}}
			b.steps = append(b.steps, inNamespace(own))
			b.evictions()
			b.budgets()
			return b.steps
		}},
	}
}

type podBuilder struct{ builder }

// labelled is a change of a body, with the label of its step.
type labelled struct {
	label string
	edit  func(fieldMap)
}

// absent is a uid that no object has.
const absent = "00000000-0000-4000-8000-000000000000"

// deleting creates a pod and deletes it. A finalizer keeps it.
func (b *podBuilder) deleting(name string) {
	b.create(name, func(o fieldMap) { set(o, []any{"example.com/keep"}, "metadata", "finalizers") })
	b.add("delete", http.MethodDelete, b.named(name, "gracePeriodSeconds=0"))
}

// methods sends a body with the methods that a subresource does not have.
func (b *podBuilder) methods(name, sub string, body option) {
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodPatch} {
		b.add(sub+" method "+method, method, b.sub(name, sub), body)
	}
}

func (b *podBuilder) binding(name string, edit func(fieldMap)) fieldMap {
	o := fieldMap{"apiVersion": "v1", "kind": "Binding", "metadata": fieldMap{"name": name},
		"target": fieldMap{"kind": "Node", "name": "node-1"}}
	if edit != nil {
		edit(o)
	}
	return o
}

// bindings binds pods through both resources. Each binding is tried as a dry run first.
func (b *podBuilder) bindings() {
	post := func(label, pod string, edit func(fieldMap), query ...string) {
		o := b.binding(pod, edit)
		b.add("bind "+label, http.MethodPost, b.sub(pod, "binding", query...), body(o))
		b.add("bind by collection "+label, http.MethodPost, withQuery("/api/v1/namespaces/"+b.own+"/bindings", query),
			body(o))
	}
	b.create("a")
	b.create("gated", func(o fieldMap) {
		set(o, []any{fieldMap{"name": "example.com/gate"}}, "spec", "schedulingGates")
	})
	b.deleting("deleted")
	for _, c := range []labelled{
		{"no target", func(o fieldMap) { delete(o, "target") }},
		{"empty target", func(o fieldMap) { set(o, fieldMap{}, "target") }},
		{"no node", func(o fieldMap) { set(o, "", "target", "name") }},
		{"other target", func(o fieldMap) { set(o, "Machine", "target", "kind") }},
		{"no target kind", func(o fieldMap) { set(o, nil, "target", "kind") }},
		{"minion", func(o fieldMap) { set(o, "Minion", "target", "kind") }},
		{"other name", func(o fieldMap) { set(o, "other", "metadata", "name") }},
		{"no name", func(o fieldMap) { set(o, nil, "metadata", "name") }},
		{"other namespace", func(o fieldMap) { set(o, "default", "metadata", "namespace") }},
		{"other uid", func(o fieldMap) { set(o, absent, "metadata", "uid") }},
		{"own uid", func(o fieldMap) { set(o, "{uid:a}", "metadata", "uid") }},
		{"other version", func(o fieldMap) { set(o, "1", "metadata", "resourceVersion") }},
		{"own version", func(o fieldMap) { set(o, "{rv:a}", "metadata", "resourceVersion") }},
		{"bad label", func(o fieldMap) { set(o, fieldMap{"a": "b c"}, "metadata", "labels") }},
		{"label and old value", func(o fieldMap) { set(o, fieldMap{"app": "bound"}, "metadata", "labels") }},
		{"annotation", func(o fieldMap) { set(o, fieldMap{"example.com/by": "me"}, "metadata", "annotations") }},
		{"finalizer", func(o fieldMap) { set(o, []any{"example.com/x"}, "metadata", "finalizers") }},
		{"other kind", func(o fieldMap) { set(o, "Pod", "kind") }},
		{"unknown field", func(o fieldMap) { set(o, 1, "unknown") }},
		{"text", func(o fieldMap) { set(o, "text", "target") }},
	} {
		post(c.label, "a", c.edit, "dryRun=All")
	}
	post("strict", "a", func(o fieldMap) { set(o, 1, "unknown") }, "dryRun=All", "fieldValidation=Strict")
	post("bad dry run", "a", nil, "dryRun=Some")
	for _, pod := range []string{"missing", "gated", "deleted"} {
		post(pod, pod, nil)
	}
	b.methods("a", "binding", body(b.binding("a", nil)))
	b.add("list bindings", http.MethodGet, "/api/v1/namespaces/"+b.own+"/bindings")
	b.add("bind as YAML", http.MethodPost, b.sub("a", "binding", "dryRun=All"),
		bytesBody(mediaYAML, "apiVersion: v1\nkind: Binding\nmetadata: {name: a}\ntarget: {name: n}\n"))
	b.add("bind as table", http.MethodPost, b.sub("a", "binding", "dryRun=All"), body(b.binding("a", nil)),
		accept(asTable))
	b.add("bind as partial", http.MethodPost, b.sub("a", "binding", "dryRun=All"), body(b.binding("a", nil)),
		accept(asPartial))
	b.add("bind by collection as table", http.MethodPost, "/api/v1/namespaces/"+b.own+"/bindings?dryRun=All",
		body(b.binding("a", nil)), accept(asTable))
	b.add("bind without body", http.MethodPost, b.sub("a", "binding", "dryRun=All"))
	b.add("bind as protobuf", http.MethodPost, b.sub("a", "binding", "dryRun=All"), body(b.binding("a", nil)),
		accept(mediaProtobuf))
	b.add("bind", http.MethodPost, b.sub("a", "binding", "fieldManager=binder"), body(b.binding("a", func(o fieldMap) {
		set(o, fieldMap{"example.com/by": "me", "pod.beta.kubernetes.io/init-containers": "[]"}, "metadata",
			"annotations")
		set(o, fieldMap{"app": "bound", "more": "1"}, "metadata", "labels")
	})))
	b.add("get bound", http.MethodGet, b.named("a"), save("a"))
	post("again", "a", nil)
	post("again dry", "a", nil, "dryRun=All")
	b.create("b")
	b.add("bind by collection", http.MethodPost, "/api/v1/namespaces/"+b.own+"/bindings", body(b.binding("b", nil)))
	b.add("get bound", http.MethodGet, b.named("b"))
}

func (b *podBuilder) eviction(name string, edit func(fieldMap)) fieldMap {
	o := fieldMap{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": fieldMap{"name": name}}
	if edit != nil {
		edit(o)
	}
	return o
}

func (b *podBuilder) evict(label, pod string, edit func(fieldMap), query ...string) {
	b.add("evict "+label, http.MethodPost, b.sub(pod, "eviction", query...), body(b.eviction(pod, edit)))
}

// evictions evicts pods that no budget selects.
func (b *podBuilder) evictions() {
	b.create("a")
	b.deleting("deleted")
	for _, c := range []labelled{
		{"options", func(o fieldMap) { set(o, fieldMap{"gracePeriodSeconds": 3}, "deleteOptions") }},
		{"negative grace", func(o fieldMap) { set(o, fieldMap{"gracePeriodSeconds": -3}, "deleteOptions") }},
		{"other uid", func(o fieldMap) { set(o, absent, "deleteOptions", "preconditions", "uid") }},
		{"own uid", func(o fieldMap) { set(o, "{uid:a}", "deleteOptions", "preconditions", "uid") }},
		{"other version", func(o fieldMap) { set(o, "1", "deleteOptions", "preconditions", "resourceVersion") }},
		{"own version", func(o fieldMap) { set(o, "{rv:a}", "deleteOptions", "preconditions", "resourceVersion") }},
		{"orphan", func(o fieldMap) { set(o, "Orphan", "deleteOptions", "propagationPolicy") }},
		{"bad propagation", func(o fieldMap) { set(o, "Some", "deleteOptions", "propagationPolicy") }},
		{"dry run inside", func(o fieldMap) { set(o, []any{"All"}, "deleteOptions", "dryRun") }},
		{"bad dry inside", func(o fieldMap) { set(o, []any{"Some"}, "deleteOptions", "dryRun") }},
		{"other name", func(o fieldMap) { set(o, "other", "metadata", "name") }},
		{"no name", func(o fieldMap) { set(o, nil, "metadata", "name") }},
		{"other namespace", func(o fieldMap) { set(o, "default", "metadata", "namespace") }},
		{"beta", func(o fieldMap) { set(o, "policy/v1beta1", "apiVersion") }},
		{"other version set", func(o fieldMap) { set(o, "policy/v2", "apiVersion") }},
		{"other kind", func(o fieldMap) { set(o, "Pod", "kind") }},
		{"unknown field", func(o fieldMap) { set(o, 1, "unknown") }},
		{"text", func(o fieldMap) { set(o, "text", "deleteOptions") }},
	} {
		b.evict(c.label, "a", c.edit, "dryRun=All")
	}
	b.evict("bad dry run", "a", nil, "dryRun=Some")
	b.evict("strict", "a", func(o fieldMap) { set(o, 1, "unknown") }, "dryRun=All", "fieldValidation=Strict")
	b.evict("missing", "missing", nil)
	b.evict("deleted", "deleted", nil)
	b.methods("a", "eviction", body(b.eviction("a", nil)))
	b.add("evict without body", http.MethodPost, b.sub("a", "eviction", "dryRun=All"))
	b.add("evict empty object", http.MethodPost, b.sub("a", "eviction", "dryRun=All"), body(fieldMap{}))
	b.add("evict as YAML", http.MethodPost, b.sub("a", "eviction", "dryRun=All"),
		bytesBody(mediaYAML, "apiVersion: policy/v1\nkind: Eviction\nmetadata: {name: a}\n"))
	b.add("evict as table", http.MethodPost, b.sub("a", "eviction", "dryRun=All"), body(b.eviction("a", nil)),
		accept(asTable))
	b.add("evict as partial", http.MethodPost, b.sub("a", "eviction", "dryRun=All"), body(b.eviction("a", nil)),
		accept(asPartial))
	b.add("evict as protobuf", http.MethodPost, b.sub("a", "eviction", "dryRun=All"), body(b.eviction("a", nil)),
		accept(mediaProtobuf))
	for _, phase := range []string{"Pending", "Running", "Succeeded", "Failed", "Unknown"} {
		for _, bound := range []bool{false, true} {
			b.create("p", func(o fieldMap) { set(o, []any{"example.com/keep"}, "metadata", "finalizers") })
			if bound {
				b.add("bind", http.MethodPost, b.sub("p", "binding"), body(b.binding("p", nil)))
			}
			b.state("p", phase, "True")
			b.evict(phase, "p", nil, "dryRun=All")
			b.evict(phase, "p", nil)
			b.add("get evicted", http.MethodGet, b.named("p"))
			b.evict(phase+" again", "p", func(o fieldMap) { set(o, 0, "deleteOptions", "gracePeriodSeconds") })
			b.add("get evicted", http.MethodGet, b.named("p"))
			b.add("release", http.MethodPatch, b.named("p"), bytesBody(mergePatch, `{"metadata":{"finalizers":null}}`))
			b.add("delete", http.MethodDelete, b.named("p", "gracePeriodSeconds=0"))
		}
	}
}

// state sets the phase and readiness of a pod.
func (b *podBuilder) state(name, phase, ready string) {
	b.add("state", http.MethodPatch, b.sub(name, "status"), bytesBody(mergePatch, fmt.Sprintf(
		`{"status":{"phase":%q,"conditions":[{"type":"Ready","status":%q,"lastTransitionTime":"2024-01-02T03:04:05Z"}]}}`, phase, ready)))
}

// budgets evicts pods with each state of a disruption budget. The test writes the budget's status,
// because no controller runs.
func (b *podBuilder) budgets() {
	budgets := "/apis/policy/v1/namespaces/" + b.own + "/poddisruptionbudgets"
	budget := func(name, policy string) {
		o := fieldMap{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": fieldMap{"name": name},
			"spec": fieldMap{"minAvailable": 1, "selector": fieldMap{"matchLabels": fieldMap{"guarded": "yes"}}}}
		if policy != "" {
			set(o, policy, "spec", "unhealthyPodEvictionPolicy")
		}
		b.add("create budget", http.MethodPost, budgets, body(o), save(name))
	}
	guarded := func(name, phase, ready string) {
		b.create(name, func(o fieldMap) { set(o, fieldMap{"guarded": "yes"}, "metadata", "labels") })
		b.state(name, phase, ready)
	}
	status := func(name, status string) {
		b.add("budget status", http.MethodPatch, budgets+"/"+name+"/status",
			bytesBody(mergePatch, `{"status":`+status+`}`))
	}
	const (
		allowed     = `{"observedGeneration":1,"disruptionsAllowed":1,"currentHealthy":2,"desiredHealthy":1,"expectedPods":2,"conditions":[]}`
		noneAllowed = `{"observedGeneration":1,"disruptionsAllowed":0,"currentHealthy":1,"desiredHealthy":1,"expectedPods":1,"conditions":[]}`
		unhealthy   = `{"observedGeneration":1,"disruptionsAllowed":0,"currentHealthy":0,"desiredHealthy":1,"expectedPods":1,"conditions":[]}`
		negative    = `{"observedGeneration":1,"disruptionsAllowed":-1,"currentHealthy":1,"desiredHealthy":1,"expectedPods":1}`
		unobserved  = `{"observedGeneration":0,"disruptionsAllowed":1,"currentHealthy":2,"desiredHealthy":1,"expectedPods":2}`
		failed      = `{"observedGeneration":1,"disruptionsAllowed":0,"currentHealthy":2,"desiredHealthy":1,"expectedPods":2,
			"conditions":[{"type":"DisruptionAllowed","status":"False","reason":"SyncFailed","message":"it failed","lastTransitionTime":"2024-01-02T03:04:05Z"}]}`
		insufficient = `{"observedGeneration":1,"disruptionsAllowed":0,"currentHealthy":2,"desiredHealthy":1,"expectedPods":2,
			"conditions":[{"type":"DisruptionAllowed","status":"False","reason":"InsufficientPods","message":"too few","lastTransitionTime":"2024-01-02T03:04:05Z"}]}`
	)
	for _, policy := range []string{"", "AlwaysAllow", "IfHealthyBudget"} {
		name := map[string]string{"": "plain", "AlwaysAllow": "always", "IfHealthyBudget": "healthy"}[policy]
		budget(name, policy)
		for _, pod := range []struct{ phase, ready string }{{"Running", "True"}, {"Running", "False"},
			{"Pending", "False"}, {"Succeeded", "False"}} {
			for _, text := range []string{allowed, noneAllowed, unhealthy, negative, unobserved, failed, insufficient} {
				guarded("g", pod.phase, pod.ready)
				status(name, text)
				b.evict("guarded dry", "g", nil, "dryRun=All")
				b.add("get budget", http.MethodGet, budgets+"/"+name)
				b.evict("guarded", "g", func(o fieldMap) { set(o, 0, "deleteOptions", "gracePeriodSeconds") })
				b.add("get budget", http.MethodGet, budgets+"/"+name)
				b.add("get guarded", http.MethodGet, b.named("g"))
				b.add("delete", http.MethodDelete, b.named("g", "gracePeriodSeconds=0"))
			}
		}
		if policy != "" {
			b.add("delete budget", http.MethodDelete, budgets+"/"+name)
		}
	}
	budget("second", "")
	status("second", allowed)
	guarded("g", "Running", "True")
	b.evict("with two budgets", "g", nil)
	b.add("get guarded", http.MethodGet, b.named("g"))
}
