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
func (m *maker) explain(step *item) {
	if step.record == nil {
		step.Because = []Cause{m.probableCause(step)}
		return
	}
	for i := range step.record.Causes {
		step.Because = append(step.Because, m.cause(step.record, &step.record.Causes[i]))
	}
	if step.record.MoreCauses > 0 {
		step.Because = append(step.Because, Cause{Text: fmt.Sprintf("and %d more causes", step.record.MoreCauses)})
	}
}

var events = map[string]string{
	trace.Add: "was created", trace.Update: "was changed", trace.Delete: "was deleted",
	trace.Sync: "existed when the operator started", trace.Resync: "was resynced",
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
	if step := m.byState[state{object, c.ResourceVersion}]; step != nil {
		out.Step = step.Number
	} else if c.Event != trace.Sync && m.isControllers(object, c.ResourceVersion) {
		out.Text += " by Kubernetes"
	}
	return out
}

// isControllers reports whether Kubernetes' controllers wrote a version in the run.
func (m *maker) isControllers(object subject, revision string) bool {
	return slices.ContainsFunc(m.recorder.versions, func(v version) bool {
		return (v.by == nil || v.besides) && fmt.Sprint(v.event.Object.Revision) == revision &&
			m.subject(v.event.Object) == object
	})
}

// previous returns the reconcile of the same object by the same controller before r.
func (m *maker) previous(r *trace.LineRecord) (found *trace.LineRecord) {
	for _, other := range m.records {
		if other == r {
			break
		}
		if other.Controller == r.Controller && other.Kind == r.Kind && other.Namespace == r.Namespace &&
			other.Name == r.Name {
			found = other
		}
	}
	return found
}

func (m *maker) numberOf(r *trace.LineRecord) int {
	if step := m.byRecord[r]; r != nil && step != nil {
		return step.Number
	}
	return 0
}

// probableCause infers the cause of a step if the operator does not record reconciles: the last
// preceding change of the step's object or of one of its dependents.
func (m *maker) probableCause(step *item) Cause {
	first := step.versions[0].event.Object.Revision
	for _, v := range slices.Backward(m.recorder.versions) {
		obj := v.event.Object
		if obj.Revision >= first || v.besides {
			continue
		}
		about := m.subject(obj)
		if about != step.about && !m.dependsOn(obj, step.about) {
			continue
		}
		return m.changeOf(v)
	}
	if _, changed := m.latest[step.about]; changed && !m.existed(step.about) {
		return m.lastChange(first)
	}
	return Cause{Probably: true, Text: step.about.String() + " existed when the operator started"}
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
		if v.event.Object.Revision < first && !v.besides {
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
	return slices.ContainsFunc(obj.Head.Owners, func(o store.Owner) bool {
		return m.ownerOf(o, obj.Key.Namespace) == on
	})
}

// podsBehind describes how a step depends on simulated pods, or returns "".
func (m *maker) podsBehind(step *item, revision uint64) string {
	if step.record == nil {
		return m.podDependents.before(step.about, revision)
	}
	for _, c := range step.record.Causes {
		if c.Event == trace.Retry || c.Event == trace.After {
			if before := m.byRecord[m.previous(step.record)]; before != nil && before.Simulated != "" {
				return before.Simulated
			}
			continue
		}
		if why := m.podDependents.before(subject{c.Kind, c.Namespace, c.Name}, revision); why != "" {
			return why
		}
	}
	return m.podDependents.before(subject{step.record.Kind, step.record.Namespace, step.record.Name}, revision)
}
