package explore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/operator/client"
)

// ForeignWrite has another client change an object just before a write of the operator reaches the
// server. The operator has not seen that change, so its write must not undo it (O13). A user or
// another controller can do this at any time.
//
// Whether the operator may overwrite a field depends on the operator: it may own the field. So the
// run is compared with two others, in which the change and the work of the operator do not overlap:
//
//   - foreignFirst: the process ends before the write, and the next one reads the changed object.
//   - foreignLast: the change comes when the operator is quiet.
//
// If the field has another value than in both, neither order explains it: the update was lost.

// foreignFirst and foreignLast are the kinds of the runs for comparison. They are not part of the
// exploration.
const (
	foreignFirst Kind = "foreign-write-first"
	foreignLast  Kind = "foreign-write-last"
)

// foreignAnnotation is the annotation that ForeignWrite adds, and finalizersField the field in
// which it adds a finalizer. It also changes other fields of the objects of the inputs.
const (
	foreignAnnotation = "metadata.annotations.foreign"
	finalizersField   = "metadata.finalizers"
)

// maxForeignFields bounds the fields that ForeignWrite changes at one patch.
const maxForeignFields = 2

// foreign is the write of another client in a run.
type foreign struct {
	fault   Fault
	object  *unstructured.Unstructured // as it was before the operator's write
	step    *step                      // the operator's write; nil when the foreign write was made
	written bool                       // the server has accepted the foreign write
}

// isForeign reports whether a kind is ForeignWrite, or one of the runs with which it is compared.
func (k Kind) isForeign() bool { return k == ForeignWrite || k == foreignFirst || k == foreignLast }

// foreign reports whether a plan has a foreign write. Such plans have no other faults, because
// these would also change the runs with which the plan is compared.
func (p Plan) foreign() bool {
	return slices.ContainsFunc(p, func(f Fault) bool { return f.Kind.isForeign() })
}

// lookup returns the value at a path of names and indexes; nil for none.
func lookup(tree any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		switch node := tree.(type) {
		case map[string]any:
			tree = node[name]
		case []any:
			var i int
			if _, err := fmt.Sscan(name, &i); err != nil || i >= len(node) {
				return nil
			}
			tree = node[i]
		default:
			return nil
		}
	}
	return tree
}

// interrupt makes the foreign write of a plan, if the step that comes next is the write before
// which it happens, and lets that write continue. It reports whether the trial can continue.
func (a *actions) interrupt() bool {
	f := a.trial.injector.foreign
	if f == nil || f.step == nil {
		return true
	}
	s := f.step
	f.step = nil
	if f.fault.Kind == foreignFirst {
		a.trial.operator.stop()
		return a.writeForeign() && a.trial.operator.resume()
	}
	ok := a.writeForeign()
	s.held = false
	if a.trial.latest = s; ok && !a.trial.gate.isDead(s.process) {
		a.trial.injector.execute(s)
	}
	return ok
}

// writeForeign makes the foreign write.
func (a *actions) writeForeign() bool {
	f := a.trial.injector.foreign
	if !strings.HasPrefix(f.fault.Field, "metadata.") {
		a.trial.oracles.unusual = true // the operator may return an error for the value
	}
	return a.users.try(func(ctx context.Context, c client.Client) error {
		current, err := read(ctx, c, f.object.GroupVersionKind(), client.KeyOf(f.object))
		if err != nil {
			return err
		}
		if f.fault.Field == finalizersField {
			current.SetFinalizers(append(current.GetFinalizers(), foreignFinalizer))
			a.finalized = append(a.finalized, f.object)
		} else if err := setField(current.Object, f.fault.Field, f.fault.Value); err != nil {
			return err
		}
		err = c.Update(ctx, current)
		f.written = err == nil
		return err
	})
}

// observeForeign records which value the field of a foreign write has when the operator is quiet.
func (a *actions) observeForeign() bool {
	f := a.trial.injector.foreign
	if f == nil || a.result.foreign != "" {
		return true
	}
	if f.fault.Kind == foreignLast && (!a.writeForeign() || !a.trial.settle()) {
		return false
	}
	if !f.written {
		return true
	}
	a.result.foreign = f.value(a.setup.stored(call{resource: f.fault.At.Resource,
		object: qualified(f.object.GetNamespace(), f.object.GetName())}))
	ok := a.removeFinalizers()
	a.finalized = nil
	return ok
}

// value returns the value of the changed field in an object, which may be nil, as JSON.
func (f *foreign) value(obj *unstructured.Unstructured) string {
	var value any
	switch {
	case obj == nil:
	case f.fault.Field == finalizersField && slices.Contains(obj.GetFinalizers(), foreignFinalizer):
		value = []string{foreignFinalizer}
	case f.fault.Field == finalizersField:
	default:
		value = lookup(obj.Object, f.fault.Field)
	}
	return encode(value)
}

// encode returns a value of JSON types as JSON.
func encode(value any) string {
	text, err := json.Marshal(value)
	if err != nil { // cannot happen: the value was decoded from JSON
		panic(fmt.Sprintf("explore: encode: %v", err))
	}
	return string(text)
}

// lost raises an alarm (O13) if a write of the operator has overwritten a change that it had not
// seen.
func (e *explorer) lost(plan Plan, r *result) []Alarm {
	if len(plan) != 1 || r.failed != nil || r.foreign == "" {
		return nil
	}
	var written any
	if json.Unmarshal([]byte(plan[0].Value), &written) != nil || r.foreign == encode(written) {
		return nil
	}
	var values []string
	for _, order := range []Kind{foreignFirst, foreignLast} {
		serial := plan[0]
		serial.Kind = order
		other, ok := e.variants[serial.String()]
		if !ok {
			other = e.run(Plan{serial})
			e.variants[serial.String()] = other
		}
		if other.failed != nil || len(other.alarms) > 0 || other.foreign == "" || other.foreign == r.foreign {
			return nil
		}
		values = append(values, other.foreign)
	}
	f := plan[0]
	return []Alarm{{Oracle: "O13", What: "an update is lost", Detail: fmt.Sprintf(
		"%s %s.%s: %s, after another client has set it to %s just before the operator's %s. It is %s if the operator sees that change first, and %s if the change comes later",
		f.At.Resource, f.At.Object, f.Field, r.foreign, f.Value, f.At.Verb, values[0], values[1])}}
}

// foreignWrites returns the changes that another client may make before a write of the operator:
//
//   - An annotation shows whether the write replaces the whole object.
//   - A finalizer is added if the write is a patch with finalizers: it may replace the list.
//   - Of an object of the inputs, fields are changed that are part of the patch. A user changes
//     them, and a patch that was computed from an older version has their old values.
func (in *injector) foreignWrites(s *step) (changes []variation) {
	c := s.call
	if c.verb != "update" && c.verb != "patch" && c.verb != "apply" || strings.Contains(c.resource, "/") {
		return nil
	}
	obj := in.setup.stored(c)
	if obj == nil || obj.GetDeletionTimestamp() != nil {
		return nil
	}
	if c.verb != "apply" { // an apply keeps the annotations of other managers
		changes = append(changes, variation{foreignAnnotation, `"yes"`})
	}
	var patch map[string]any
	if json.Unmarshal(s.body, &patch) != nil {
		return changes // not a patch, or one of another format
	}
	if _, ok, _ := unstructured.NestedSlice(patch, strings.Split(finalizersField, ".")...); ok {
		changes = append(changes, variation{finalizersField, `["` + foreignFinalizer + `"]`})
	}
	if !in.setup.isInput(obj) {
		return changes // the operator may reset the fields of its own objects
	}
	var fields []variation
	for field, value := range obj.Object {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, field) {
			leaves(&fields, field, value)
		}
	}
	slices.SortFunc(fields, func(a, b variation) int { return strings.Compare(a.field, b.field) })
	fields = slices.DeleteFunc(fields, func(v variation) bool { return lookup(patch, v.field) == nil })
	return append(changes, fields[:min(len(fields), maxForeignFields)]...)
}

// beforeResponse returns the step that comes next instead of the chosen one. The response to the
// operator's write comes after the events of both writes. Otherwise the event of the foreign write
// could start a reconcile that writes its value again, by chance.
func (in *injector) beforeResponse(chosen *step, steps []*step) *step {
	if f := in.foreign; f == nil || chosen.phase != responding || chosen.point != f.fault.At {
		return chosen
	}
	for _, s := range steps {
		if s.phase == delivering && s.call.resource == chosen.call.resource {
			return s
		}
	}
	return chosen
}
