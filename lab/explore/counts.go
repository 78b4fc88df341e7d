package explore

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// O2 compares how often a run does something with each object with the runs without faults. States
// do not contain UIDs and times, so two runs may end in equal states although one has replaced a
// Pod and the other has not. The counts show such differences, as those of Sieve do.
//
// Operators may do something more or less often without a bug: they retry, and they may never see
// states in between. These rules keep the alarms few:
//
//   - Only objects count that the operator itself has created or deleted, and the Pods that
//     Kubernetes' controllers create from a template.
//   - Less often is an alarm only if the end states are equal, and an object was both created and
//     deleted less often, so that it was not replaced; or if less writes have only changed values
//     that states do not contain, such as the time of a restart in a template.
//   - Updates are an alarm only if there are far more than without faults.
//   - Every run without faults must differ, also those in several random orders.

// The prefixes of the keys of result.counts.
const (
	created = "created "
	deleted = "deleted "
	updated = "updated "
	// touched counts the writes to the spec of a workload that have only changed values that states
	// do not contain, such as the time in an annotation of the template. They replace its Pods.
	touched = "touched "
	// called counts the calls of a service that add something, by POST and the URL.
	called = "called "
)

// ofTemplate is the prefix of the objects of the counts of Pods that were created from a template.
const ofTemplate = "the Pods of "

// counter counts the versions of objects.
type counter map[string]int

// count counts a version. The content of the objects is normal; see names.normal.
func (c counter) count(id string, change Change, n *names) {
	subjects := []string{id}
	if owner := templateOf(change.Object); owner != nil {
		name := owner.Name
		if generated, ok := n.generated[name]; ok {
			name = generated
		}
		subjects = append(subjects, ofTemplate+owner.Kind+" "+qualified(change.Object.GetNamespace(), name))
	}
	for _, subject := range subjects {
		switch change.Type {
		case "ADDED":
			c[created+subject]++
		case "DELETED":
			c[deleted+subject]++
		}
	}
	if change.Type == "MODIFIED" && change.Previous != nil {
		c[updated+id]++
		if specChanged(change) && hasTemplate(change.Object) &&
			reflect.DeepEqual(specOf(n.normal(change.Object)), specOf(n.normal(change.Previous))) {
			c[touched+id]++
		}
	}
}

// withoutUpdates returns the counts from which the rest of a run follows: operators repeat updates.
func (c counter) withoutUpdates() counter {
	kept := maps.Clone(c)
	maps.DeleteFunc(kept, func(what string, _ int) bool { return strings.HasPrefix(what, updated) })
	return kept
}

// templateOf returns the controller that has created a Pod from a template; nil for other objects.
func templateOf(obj *unstructured.Unstructured) *metav1.OwnerReference {
	if obj.GetKind() != "Pod" {
		return nil
	}
	if owner := metav1.GetControllerOf(obj); owner != nil && slices.Contains(workloads, owner.Kind) &&
		owner.Kind != "Job" {
		return owner
	}
	return nil
}

// specChanged reports whether a version has another spec, or other fields if its kind has no
// generation.
func specChanged(c Change) bool {
	if c.Object.GetGeneration() > 0 {
		return c.Object.GetGeneration() > c.Previous.GetGeneration()
	}
	return !reflect.DeepEqual(specOf(c.Object.Object), specOf(c.Previous.Object))
}

// hasTemplate reports whether an object has a template of Pods.
func hasTemplate(obj *unstructured.Unstructured) bool {
	_, found, _ := unstructured.NestedMap(obj.Object, "spec", "template", "spec")
	return found
}

// specOf returns the fields of an object without its metadata and status.
func specOf(object map[string]any) map[string]any {
	spec := maps.Clone(object)
	delete(spec, "metadata")
	delete(spec, "status")
	return spec
}

// manyUpdates is how many updates of an object are far more than without faults, in addition to
// three times as many.
const manyUpdates = 10

// moreOften returns what a run has done more often than without faults.
func (o *outcomes) moreOften(plan Plan, r *result) (lines []string) {
	for _, verb := range []string{created, deleted, updated, called} {
		for _, id := range slices.Sorted(maps.Keys(r.ownObjects)) {
			have, most := r.counts[verb+id], o.most(verb+id)
			limit := most
			if verb == updated {
				limit = 3*most + manyUpdates
			}
			if have > limit && !plan.duplicates(id) && !o.end.groups[groupOf(id)] && !o.left.groups[groupOf(id)] {
				lines = append(lines, fmt.Sprintf("%s is %s%s, without faults %s", id, verb, times(have), times(most)))
			}
		}
	}
	return lines
}

// mayMerge lists the kinds of faults after which an operator may never see a state that it sees
// without them: two inputs look like one to it, or the order is another.
var mayMerge = []Kind{HoldInput, TwoLeaders, Order, Priorities}

// lessOften returns what a run with an equal end has done less often than without faults.
func (o *outcomes) lessOften(plan Plan, r *result) (lines []string) {
	if slices.ContainsFunc(plan, func(f Fault) bool { return slices.Contains(mayMerge, f.Kind) }) {
		return nil
	}
	for _, what := range slices.Sorted(maps.Keys(o.counts)) {
		id, ok := strings.CutPrefix(what, created)
		if !ok || !o.ownObjects[id] && !strings.HasPrefix(id, ofTemplate) || o.end.groups[groupOf(id)] ||
			o.left.groups[groupOf(id)] {
			continue
		}
		if creates, deletes := r.counts[what], r.counts[deleted+id]; creates < o.counts[what].least &&
			deletes < o.least(deleted+id) {
			lines = append(lines, fmt.Sprintf("%s: created %s and deleted %s, without faults %s and %s",
				id, times(creates), times(deletes), times(o.counts[what].least), times(o.least(deleted+id))))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(o.counts)) {
		if id, ok := strings.CutPrefix(what, touched); ok && r.counts[what] < o.counts[what].least {
			lines = append(lines, fmt.Sprintf(
				"%s: written with another time or another random value %s, without faults %s",
				id, times(r.counts[what]), times(o.counts[what].least)))
		}
	}
	return lines
}

// least returns how often something was done at least.
func (o *outcomes) least(what string) int {
	if l := o.counts[what]; l != nil {
		return l.least
	}
	return 0
}

// duplicates reports whether a former leader creates an object with a generated name under the
// plan. The server cannot refuse this write, so the next leader finds one more object.
func (p Plan) duplicates(id string) bool {
	return slices.ContainsFunc(p, func(f Fault) bool {
		return f.Kind == TwoLeaders && f.At.Verb == "create" && strings.HasSuffix(id, "*") &&
			f.At.Resource+" "+f.At.Object == id
	})
}

func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}
