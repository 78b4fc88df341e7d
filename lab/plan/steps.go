package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/store"
	"kelson.dev/lab/history"
	"kelson.dev/lab/planned"
	"kelson.dev/operator/trace"
)

// subject names an object as traces do.
type subject struct{ kind, namespace, name string }

func (s subject) String() string {
	return s.kind + " " + strings.TrimPrefix(s.namespace+"/"+s.name, "/")
}

// state is an object at a revision.
type state struct {
	subject
	revision string
}

// item is a step while the plan is made.
type item struct {
	Step
	revision uint64 // of its first write
	record   *trace.LineRecord
	about    subject // object that the step is about; for steps without a record
	versions []version
	writes   []*Write
}

// maker orders the writes of a run into steps.
type maker struct {
	*run
	secrets secrets
	records []*trace.LineRecord
	writers map[state]*trace.LineRecord
	deletes []*trace.LineRecord // those that deleted objects
	// releases are the last writes that left an object at a state: such a write has no effect, or
	// has removed the last finalizer. The response then has the version before it.
	releases map[state]*trace.LineRecord
	items    []*item
	byRecord map[*trace.LineRecord]*item
	byState  map[state]*item // the step that wrote the state
	// byRequest has the last write of each request. besides are the versions that the server wrote
	// in addition.
	byRequest map[*request]*Write
	besides   []version
	latest    map[subject]version
	// last change by Kubernetes' controllers of an object or its dependents
	foreign       map[subject]uint64
	podDependents podDependents
	effects       effects
}

// plan returns the plan of a finished run.
func (r *run) plan() (*Plan, error) {
	m := &maker{
		run: r, writers: map[state]*trace.LineRecord{}, releases: map[state]*trace.LineRecord{},
		byRecord: map[*trace.LineRecord]*item{}, byState: map[state]*item{}, byRequest: map[*request]*Write{},
		latest: map[subject]version{}, foreign: map[subject]uint64{},
		effects: effects{writes: map[any]*Write{}},
	}
	m.podDependents = podDependents{store: r.plane.Store().Snapshot(), from: r.before,
		since: map[subject]podDependence{}, kind: m.subject}
	m.learn()
	for _, v := range r.recorder.versions {
		if err := m.version(v); err != nil {
			return nil, err
		}
	}
	for _, v := range m.besides {
		if w := m.byRequest[v.by]; w != nil {
			addEffect(w, verbOf(v.event.Type), m.ref(v.event.Object))
		}
	}
	m.failures()
	p := &Plan{
		Plan: planned.Plan{
			Cluster: r.state.name, Objects: r.state.objects, Installed: r.installed, Steps: []Step{},
			Incomplete: r.incomplete, Notes: slices.Concat(r.state.notes, r.notes),
		},
		ending: ending{snapshot: r.plane.Store().Snapshot(), before: r.before.Revision(),
			began: r.began.Truncate(time.Second), touched: map[store.Key]bool{}, secrets: &m.secrets},
	}
	for i := range p.Installed {
		m.secrets.changes(p.Installed[i].Changes)
	}
	slices.SortStableFunc(m.items, func(a, b *item) int { return cmp.Compare(a.revision, b.revision) })
	for i, step := range m.items {
		step.Number = i + 1
	}
	for _, step := range m.items {
		m.explain(step)
		step.Error = m.secrets.text(step.Error)
		for _, w := range step.writes {
			step.Writes = append(step.Writes, *w)
		}
		p.Steps = append(p.Steps, step.Step)
		for _, v := range step.versions {
			p.touched[v.event.Object.Key] = true
		}
	}
	p.Refused = m.refusals()
	return p, nil
}

// learn reads the Secrets and the trace.
func (m *maker) learn() {
	for obj := range m.before.Scan("secrets", "", store.Key{}) {
		m.secrets.learn(obj)
	}
	for _, v := range m.recorder.versions {
		m.secrets.learn(v.event.Object)
	}
	m.secrets.complete()
	m.run.mu.Lock()
	defer m.run.mu.Unlock()
	for i := range m.run.records {
		m.records = append(m.records, &m.run.records[i])
	}
	slices.SortStableFunc(m.records, func(a, b *trace.LineRecord) int { return a.Time.Compare(b.Time) })
	for _, r := range m.records {
		for i := range r.Writes {
			w := &r.Writes[i]
			switch {
			case w.Error != "":
			case w.ResourceVersion != "" && w.Changed:
				m.writers[state{subject{w.Kind, w.Namespace, w.Name}, w.ResourceVersion}] = r
			case strings.HasPrefix(w.Verb, "delete"):
				m.deletes = append(m.deletes, r)
			default:
				m.releases[state{subject{w.Kind, w.Namespace, w.Name}, w.ResourceVersion}] = r
			}
		}
	}
}

// version adds a version to the step that wrote it, or to the effects of a step.
func (m *maker) version(v version) error {
	obj := v.event.Object
	about := m.subject(obj)
	defer func() { m.latest[about] = v }()
	if v.by == nil {
		m.podDependents.controllers(v, about)
		m.foreign[about] = obj.Revision
		for _, owner := range obj.Head.Owners {
			m.foreign[m.ownerOf(owner, obj.Key.Namespace)] = obj.Revision
		}
		m.effects.add(v, m.ref(obj))
		return nil
	}
	if v.by.dryRun {
		return nil
	}
	if v.besides {
		m.besides = append(m.besides, v)
		return nil
	}
	w, changed, err := m.write(v)
	if err != nil || !changed {
		return err
	}
	step := m.item(v, about)
	step.versions = append(step.versions, v)
	step.writes = append(step.writes, w)
	m.byState[state{about, fmt.Sprint(obj.Revision)}] = step
	m.effects.wrote(obj, w)
	m.byRequest[v.by] = w
	if step.Simulated == "" {
		step.Simulated = m.podsBehind(step, obj.Revision)
	}
	if step.Simulated != "" {
		m.podDependents.inherit(about, obj.Revision, step.Simulated)
	}
	return nil
}

func (m *maker) subject(obj *store.Object) subject {
	return subject{m.ref(obj).Kind, obj.Key.Namespace, obj.Key.Name}
}

func (m *maker) ref(obj *store.Object) Ref {
	gr := schema.ParseGroupResource(obj.Key.Resource)
	r := Ref{Group: gr.Group, Resource: gr.Resource, Namespace: obj.Key.Namespace, Name: obj.Key.Name}
	if r.Kind = m.kindOf(gr.Group, gr.Resource); r.Kind == "" {
		var meta struct {
			Kind string `json:"kind"`
		}
		_ = json.Unmarshal(obj.Data, &meta) // a stored object is valid
		r.Kind = meta.Kind
	}
	return r
}

// write describes a version. changed is false if only metadata that every write changes has
// changed.
func (m *maker) write(v version) (w *Write, changed bool, err error) {
	e := v.event
	w = &Write{Verb: planned.Update, Object: m.ref(e.Object), Subresource: v.by.subresource}
	v.by.mu.Lock()
	w.Webhooks = slices.Clone(v.by.hooks)
	v.by.mu.Unlock()
	var from []byte
	if e.Prev != nil {
		from = e.Prev.Data
	}
	switch {
	case e.Type == store.Deleted:
		w.Verb = planned.Delete
		return w, true, nil
	case e.Type == store.Added:
		w.Verb, from = planned.Create, nil
	case strings.HasPrefix(v.by.verb, "delete"):
		w.Verb = planned.Delete // finalizers delay the deletion
	}
	changes, err := history.Diff(from, e.Object.Data, history.DiffOptions{})
	if err != nil {
		return nil, false, err
	}
	w.Changes = m.secrets.changes(flat(changes))
	return w, len(w.Changes) > 0, nil
}

// flat divides new and removed values into their fields, and omits metadata that every write
// changes.
func flat(changes []history.Change) (all []history.Change) {
	for _, c := range changes {
		if c.From != "" && c.To != "" {
			all = append(all, c)
			continue
		}
		text := cmp.Or(c.To, c.From)
		var v any
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if text == hidden || d.Decode(&v) != nil {
			all = append(all, c)
			continue
		}
		leaves(c.Path, v, func(path, leaf string) {
			if c.To == "" {
				all = append(all, history.Change{Path: path, From: leaf})
			} else {
				all = append(all, history.Change{Path: path, To: leaf})
			}
		})
	}
	return slices.DeleteFunc(all, func(c history.Change) bool { return bookkeeping[c.Path] })
}

// leaves calls each with the leaf fields of a value.
func leaves(path string, v any, each func(path, leaf string)) {
	parts := history.Parts(v)
	if len(parts) == 0 {
		data, err := json.Marshal(v)
		if err != nil {
			return // the value was decoded from JSON
		}
		each(path, string(data))
		return
	}
	for _, p := range parts {
		leaves(path+p.Name, p.Value, each)
	}
}

// item returns the step of a version: that of its reconcile. Without a record, it is the last step
// if that also has no record and is about the same object. If Kubernetes' controllers have changed
// that object or a dependent since then, this is probably another reconcile.
func (m *maker) item(v version, about subject) *item {
	if r := m.recordOf(v, about); r != nil {
		if step := m.byRecord[r]; step != nil {
			return step
		}
		step := &item{revision: v.event.Object.Revision, record: r}
		step.Controller, step.Object, step.Error = r.Controller, m.reconciled(r), r.Error
		m.byRecord[r], m.items = step, append(m.items, step)
		return step
	}
	object := about
	for _, owner := range v.event.Object.Head.Owners {
		if owner.Controller {
			object = m.ownerOf(owner, v.event.Object.Key.Namespace)
		}
	}
	if n := len(m.items); n > 0 && m.items[n-1].record == nil && m.items[n-1].about == object {
		last := m.items[n-1]
		if m.foreign[object] < last.versions[len(last.versions)-1].event.Object.Revision {
			return last
		}
	}
	step := &item{revision: v.event.Object.Revision, about: object}
	m.items = append(m.items, step)
	return step
}

func (m *maker) ownerOf(owner store.Owner, namespace string) subject {
	for _, sn := range []*store.Snapshot{m.podDependents.store, m.before} {
		if obj := sn.ByUID(owner.UID); obj != nil {
			return m.subject(obj)
		}
	}
	return subject{owner.Kind, namespace, owner.Name}
}

// recordOf returns the reconcile that made a version, or nil if it is not known.
func (m *maker) recordOf(v version, about subject) *trace.LineRecord {
	if r := m.writers[state{about, fmt.Sprint(v.event.Object.Revision)}]; r != nil {
		return r
	}
	if !strings.HasPrefix(v.by.verb, "delete") {
		if v.event.Type != store.Deleted {
			return nil
		}
		return m.releases[state{about, fmt.Sprint(v.event.Prev.Revision)}]
	}
	for i, r := range m.deletes {
		for _, w := range r.Writes {
			if w.Kind == about.kind && w.Namespace == about.namespace &&
				(w.Name == about.name || w.Verb == "deletecollection") && w.Error == "" {
				if w.Verb == "delete" {
					m.deletes = slices.Delete(m.deletes, i, i+1)
				}
				return r
			}
		}
	}
	return nil
}

// reconciled returns the object of a reconcile.
func (m *maker) reconciled(r *trace.LineRecord) *Ref {
	ref := Ref{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
	for _, res := range m.plane.Registry().Current().All() {
		if res.Kind == r.Kind && res.StoredAs == "" &&
			(ref.Resource == "" || m.podDependents.store.Get(res.Key(r.Namespace, r.Name)) != nil) {
			ref.Group, ref.Resource = res.Group, res.Plural
		}
	}
	return &ref
}

// failures adds steps for reconciles that still failed at the end. It omits errors after which a
// retry succeeded, which are part of normal work.
func (m *maker) failures() {
	type work struct {
		controller string
		about      subject
	}
	last, times := map[work]*trace.LineRecord{}, map[string]int{}
	about := func(r *trace.LineRecord) work { return work{r.Controller, subject{r.Kind, r.Namespace, r.Name}} }
	for _, r := range m.records {
		last[about(r)] = r
		times[fmt.Sprint(about(r), r.Error)]++
	}
	written := func(until time.Time) (revision uint64) {
		for _, step := range m.items {
			if step.record != nil && !step.record.Time.After(until) {
				revision = max(revision, step.revision)
			}
		}
		return revision
	}
	for _, step := range m.items {
		if step.record != nil && step.Error != "" && last[about(step.record)].Error == "" {
			step.Error = ""
		} else if step.record != nil && step.Error != "" {
			step.Times = times[fmt.Sprint(about(step.record), step.Error)]
		}
	}
	for _, r := range m.records {
		if r.Error == "" || last[about(r)] != r {
			continue
		}
		same := func(step *item) bool {
			return step.record != nil && about(step.record) == about(r) && step.Error == r.Error
		}
		if slices.ContainsFunc(m.items, same) {
			continue
		}
		step := &item{revision: written(r.Time), record: r}
		step.Controller, step.Object, step.Error, step.Times = r.Controller, m.reconciled(r), r.Error,
			times[fmt.Sprint(about(r), r.Error)]
		m.items = append(m.items, step)
	}
}

// refusals counts the rejected requests.
func (m *maker) refusals() (all []Refusal) {
	for _, req := range m.recorder.refused {
		one := Refusal{Verb: req.verb, Subresource: req.subresource, Object: req.object,
			Message: m.secrets.text(req.message), Times: 1}
		one.Object.Kind = m.kindOf(one.Object.Group, one.Object.Resource)
		same := func(o Refusal) bool { o.Times = 1; return o == one }
		if i := slices.IndexFunc(all, same); i >= 0 {
			all[i].Times++
			continue
		}
		all = append(all, one)
	}
	return all
}
