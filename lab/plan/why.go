package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"kelson.dev/apiserver/store"
	"kelson.dev/operator/trace"
)

// explain sets the causes of a step.
func (m *maker) explain(it *item) {
	if it.record == nil {
		it.Because = []Cause{m.probableCause(it)}
		return
	}
	for i := range it.record.Causes {
		it.Because = append(it.Because, m.cause(it.record, &it.record.Causes[i]))
	}
	if it.record.MoreCauses > 0 {
		it.Because = append(it.Because, Cause{Text: fmt.Sprintf("and %d more causes", it.record.MoreCauses)})
	}
}

var events = map[string]string{
	trace.Add: "was created", trace.Update: "was changed", trace.Delete: "was deleted", trace.Sync: "existed when the operator started", trace.Resync: "was resynced",
}

// cause describes a recorded cause.
func (m *maker) cause(r *trace.LineRecord, c *trace.LineCause) Cause {
	switch c.Event {
	case trace.Retry, trace.After:
		text := "the previous reconcile requested it"
		if c.Event == trace.Retry {
			text = "the previous reconcile returned an error"
		}
		return Cause{Text: text, Step: m.numberOf(m.previous(r))}
	case trace.Other:
		return Cause{Text: m.secrets.text(strings.TrimSuffix("an external event occurred: "+c.Name, ": "))}
	}
	object := subject{c.Kind, c.Namespace, c.Name}
	out := Cause{Text: object.String() + " " + cmp.Or(events[c.Event], c.Event)}
	if c.Fields != "" {
		out.Text += " (" + c.Fields + ")"
	}
	if it := m.byState[state{object, c.ResourceVersion}]; it != nil {
		out.Step = it.Number
	} else if c.Event != trace.Sync && m.isControllers(object, c.ResourceVersion) {
		out.Text += " by Kubernetes"
	}
	return out
}

// isControllers reports whether Kubernetes' controllers wrote a version in the run.
func (m *maker) isControllers(object subject, revision string) bool {
	return slices.ContainsFunc(m.recorder.versions, func(v version) bool {
		return v.by == nil && fmt.Sprint(v.event.Object.Revision) == revision && m.subject(v.event.Object) == object
	})
}

// previous returns the reconcile of the same object by the same controller before r.
func (m *maker) previous(r *trace.LineRecord) (found *trace.LineRecord) {
	for _, other := range m.records {
		if other == r {
			break
		}
		if other.Controller == r.Controller && other.Kind == r.Kind && other.Namespace == r.Namespace && other.Name == r.Name {
			found = other
		}
	}
	return found
}

func (m *maker) numberOf(r *trace.LineRecord) int {
	if it := m.byRecord[r]; r != nil && it != nil {
		return it.Number
	}
	return 0
}

// probableCause infers the cause of a step if the operator does not record reconciles: the last
// preceding change of the step's object or of one of its dependents.
func (m *maker) probableCause(it *item) Cause {
	first := it.versions[0].event.Object.Revision
	for _, v := range slices.Backward(m.recorder.versions) {
		obj := v.event.Object
		if obj.Revision >= first {
			continue
		}
		about := m.subject(obj)
		if about != it.about && !m.dependsOn(obj, it.about) {
			continue
		}
		return m.changeOf(v)
	}
	if _, changed := m.latest[it.about]; changed && !m.existed(it.about) {
		return m.lastChange(first)
	}
	return Cause{Probably: true, Text: it.about.String() + " existed when the operator started"}
}

// existed reports whether an object existed when the operator started.
func (m *maker) existed(object subject) bool {
	for _, res := range m.plane.Registry().Current().All() {
		if res.Kind == object.kind && m.before.Get(res.Key(object.namespace, object.name)) != nil {
			return true
		}
	}
	return false
}

// lastChange returns the cause of a step that creates its object: the last preceding change of any
// object.
func (m *maker) lastChange(first uint64) Cause {
	for _, v := range slices.Backward(m.recorder.versions) {
		if v.event.Object.Revision < first {
			return m.changeOf(v)
		}
	}
	return Cause{Probably: true, Text: "the operator started"}
}

// changeOf returns a change as a probable cause.
func (m *maker) changeOf(v version) Cause {
	obj := v.event.Object
	about := m.subject(obj)
	out := Cause{Probably: true, Text: about.String() + " " + map[store.EventType]string{
		store.Added: "was created", store.Modified: "was changed", store.Deleted: "was deleted",
	}[v.event.Type]}
	if by := m.byState[state{about, fmt.Sprint(obj.Revision)}]; by != nil {
		out.Step = by.Number
	} else {
		out.Text += " by Kubernetes"
	}
	return out
}

func (m *maker) dependsOn(obj *store.Object, on subject) bool {
	return slices.ContainsFunc(obj.Head.Owners, func(o store.Owner) bool { return m.ownerOf(o, obj.Key.Namespace) == on })
}

// podsBehind describes how a step depends on simulated pods, or returns "".
func (m *maker) podsBehind(it *item, revision uint64) string {
	if it.record == nil {
		return m.podDependents.before(it.about, revision)
	}
	for _, c := range it.record.Causes {
		if c.Event == trace.Retry || c.Event == trace.After {
			if before := m.byRecord[m.previous(it.record)]; before != nil && before.Simulated != "" {
				return before.Simulated
			}
			continue
		}
		if why := m.podDependents.before(subject{c.Kind, c.Namespace, c.Name}, revision); why != "" {
			return why
		}
	}
	return m.podDependents.before(subject{it.record.Kind, it.record.Namespace, it.record.Name}, revision)
}
