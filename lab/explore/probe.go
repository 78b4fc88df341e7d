package explore

import (
	"context"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/store"
	"kelson.dev/operator/client"
)

// These limits keep the number of plans with actions in proportion to the number of those with
// faults at points.
const (
	maxVariations = 60 // of the fields of one object
	maxChildren   = 20
)

// probe collects the actions that are possible in a run without faults.
type probe struct {
	plans map[string]Fault // by the fault without the input; the last one counts
	order []string
}

// actionsOf runs the scenario without faults, and returns a plan for each action.
func (e *explorer) actionsOf() []Plan {
	p := &probe{plans: map[string]Fault{}}
	if r := e.runWith(nil, p, nil); r.failed != nil {
		return nil
	}
	var plans []Plan
	for _, key := range p.order {
		plans = append(plans, Plan{p.plans[key]})
	}
	return plans
}

func (p *probe) add(f Fault) {
	n := f.At.N
	f.At.N = 1
	key := f.String()
	if _, ok := p.plans[key]; !ok {
		p.order = append(p.order, key)
	}
	if f.At.N = n; f.Kind == CreateWith && p.plans[key].At.N > 0 {
		return // the first input is the one that creates the object
	}
	p.plans[key] = f
}

// collect adds the actions that are possible after the n-th input.
func (p *probe) collect(t *trial, n int) {
	children := 0
	p.cluster(t, n)
	p.definitions(t, n)
	for key, obj := range sortedKeys(t.history.now) {
		if obj == nil || obj.GetDeletionTimestamp() != nil {
			continue
		}
		id := t.history.names.id(key)
		at := Point{Verb: after, Resource: key.Resource, Object: strings.TrimPrefix(id, key.Resource+" "), N: n}
		switch {
		case t.setup.isInput(obj):
			p.input(t, at, obj)
		case key.Resource == "pods":
			p.add(Fault{Kind: FailPod, At: at})
			p.add(Fault{Kind: DeletePod, At: at})
		}
		if t.observed.ownObjects[id] && t.history.counts[created+id] > 0 && !t.setup.isInput(obj) && children < maxChildren {
			children++
			p.child(t, at, obj)
		}
	}
}

// jumps lists the lengths of clock jumps: past the timeouts of requests and leases, and past a day.
// wireJumps lists the lengths for a Binary, in real time: less than the ten seconds after which a
// leader gives up, and more than the pauses between attempts.
var (
	jumps     = []string{"1h", "26h"}
	wireJumps = []string{"4s"}
)

// cluster adds the actions on the machines of the operator and of its Pods.
func (p *probe) cluster(t *trial, n int) {
	durations := jumps
	if t.setup.wire != nil {
		durations = wireJumps
	}
	for _, d := range durations {
		p.add(Fault{Kind: ClockJump, At: Point{Verb: after, Resource: "time", Object: d, N: n}})
	}
	for key, obj := range sortedKeys(t.history.now) {
		if key.Resource != "pods" || obj == nil {
			continue
		}
		if node, _, _ := unstructured.NestedString(obj.Object, "spec", "nodeName"); node != "" {
			at := Point{Verb: after, Resource: "nodes", Object: node, N: n}
			p.add(Fault{Kind: LoseNode, At: at})
			if t.setup.wire == nil {
				p.add(Fault{Kind: SilenceNode, At: at})
			}
			return // one Node represents all
		}
	}
}

// input adds the actions on an object of the inputs.
func (p *probe) input(t *trial, at Point, obj *unstructured.Unstructured) {
	p.add(Fault{Kind: Recreate, At: at})
	p.add(Fault{Kind: Batch, At: at})
	definition, ok := t.users.schemaOf(obj)
	if !ok {
		return
	}
	accepted := 0
	for _, v := range variations(definition, obj.Object) {
		f := Fault{Kind: SetField, At: at, Field: v.field, Value: v.value}
		if accepted == maxVariations {
			break
		}
		if !t.users.accepts(f, obj) {
			continue
		}
		if accepted++; accepted == 1 {
			flicker := f
			flicker.Kind = Flicker
			p.add(flicker)
		}
		p.add(f)
	}
}

// accepts reports whether the server would accept an action that sets a field.
func (u *users) accepts(f Fault, obj *unstructured.Unstructured) bool {
	accepted := false
	ok := u.do(Input{name: "dry run", do: func(ctx context.Context, c client.Client) error {
		accepted = set(ctx, c, obj, f, client.DryRunAll) == nil
		return nil
	}})
	return ok && accepted
}

// child adds the actions on an object that the operator has created.
func (p *probe) child(t *trial, at Point, obj *unstructured.Unstructured) {
	p.add(Fault{Kind: DeleteChild, At: at})
	p.add(Fault{Kind: Finalizer, At: at})
	var fields []variation
	for _, part := range slices.Sorted(maps.Keys(obj.Object)) {
		switch part {
		case "apiVersion", "kind", "metadata", "status":
		default:
			leaves(&fields, part, obj.Object[part])
		}
	}
	for _, v := range fields {
		f := Fault{Kind: EditChild, At: at, Field: v.field, Value: v.value}
		if t.users.accepts(f, obj) {
			p.add(f)
			break // one field represents all
		}
	}
	if len(obj.GetLabels()) > 0 {
		// a user removes the labels by which the operator may find the object
		p.add(Fault{Kind: EditChild, At: at, Field: "metadata.labels", Value: "null"})
	}
}

// schemaOf returns the schema of a custom kind, from its definition.
func (u *users) schemaOf(obj *unstructured.Unstructured) (map[string]any, bool) {
	kind := obj.GroupVersionKind()
	resource, ok := u.setup.env.Plane().Registry().Current().ByKind(kind.GroupKind())
	if !ok {
		return nil, false
	}
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinition"})
	name := resource.Plural + "." + resource.Group
	ok = u.do(Input{name: "read " + name, do: func(ctx context.Context, c client.Client) error {
		return client.IgnoreNotFound(c.Get(ctx, client.Key{Name: name}, crd))
	}})
	if !ok {
		return nil, false
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if version, _ := v.(map[string]any); version["name"] == kind.Version {
			found, ok, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
			return found, ok
		}
	}
	return nil, false
}

// sortedKeys iterates over objects in the order of their keys.
func sortedKeys(now map[store.Key]*unstructured.Unstructured) func(func(store.Key, *unstructured.Unstructured) bool) {
	return func(yield func(store.Key, *unstructured.Unstructured) bool) {
		for _, key := range slices.SortedFunc(maps.Keys(now), compareKeys) {
			if !yield(key, now[key]) {
				return
			}
		}
	}
}
