package plan

import (
	"fmt"
	"slices"

	"kelson.dev/apiserver/store"
	"kelson.dev/lab/planned"
)

// podDependents records objects whose state depends on pods that did not really run. If unsure, it
// assumes a dependency: all owners of such a pod depend on it.
type podDependents struct {
	store, from *store.Snapshot
	since       map[subject]podDependence
	kind        func(*store.Object) subject
}

// podDependence is the first revision at which an object depends on a simulated pod, and why.
type podDependence struct {
	revision uint64
	why      string
}

// measured are resources that Kubernetes' controllers compute from the status of pods they don't
// own.
var measured = []string{"endpoints", "endpointslices.discovery.k8s.io", "poddisruptionbudgets.policy"}

// controllers processes a version that Kubernetes' controllers or the simulated kubelets wrote.
func (d *podDependents) controllers(v version, about subject) {
	obj := v.event.Object
	if obj.Key.Resource == "pods" && v.event.Type == store.Modified && obj.Created > d.from.Revision() {
		why := fmt.Sprintf("after the simulated start of pod %s/%s", obj.Key.Namespace, obj.Key.Name)
		d.inherit(about, obj.Revision, why)
		d.owners(obj, obj.Revision, why, 0)
		return
	}
	if slices.Contains(measured, obj.Key.Resource) {
		for s, other := range d.since {
			if s.kind == "Pod" && s.namespace == about.namespace && other.revision < obj.Revision {
				d.inherit(about, obj.Revision, other.why)
				return
			}
		}
	}
}

// owners records that all owners of an object depend on simulated pods.
func (d *podDependents) owners(obj *store.Object, revision uint64, why string, depth int) {
	const deepest = 16
	for _, o := range obj.Head.Owners {
		for _, sn := range []*store.Snapshot{d.store, d.from} {
			if owner := sn.ByUID(o.UID); owner != nil && depth < deepest {
				d.inherit(d.kind(owner), revision, why)
				d.owners(owner, revision, why, depth+1)
				break
			}
		}
	}
}

// inherit records that an object depends on simulated pods from a revision on.
func (d *podDependents) inherit(about subject, revision uint64, why string) {
	if _, ok := d.since[about]; !ok {
		d.since[about] = podDependence{revision, why}
	}
}

// before returns why an object depended on simulated pods before a revision, or "" if it did not.
func (d *podDependents) before(about subject, revision uint64) string {
	if dependence, ok := d.since[about]; ok && dependence.revision < revision {
		return dependence.why
	}
	return ""
}

// effects assigns the changes by Kubernetes' controllers to the operator's writes that led to them.
type effects struct {
	writes map[any]*Write // by the UID of the object; for namespaces that are deleted, by name
}

type deletedNamespace string

// wrote records a write of the operator.
func (l *effects) wrote(obj *store.Object, w *Write) {
	l.writes[obj.Head.UID] = w
	if w.Verb == planned.Delete && obj.Key.Resource == "namespaces" {
		l.writes[deletedNamespace(obj.Key.Name)] = w
	}
}

// add assigns a version of Kubernetes' controllers to the write that led to it, if that is known:
// a dependent, or a part of a deleted namespace.
func (l *effects) add(v version, ref Ref) {
	obj := v.event.Object
	if write := l.writes[obj.Head.UID]; write != nil {
		if v.event.Type == store.Deleted && write.Verb != planned.Delete {
			addEffect(write, planned.Delete, ref)
		}
		return
	}
	w := l.writes[deletedNamespace(obj.Key.Namespace)]
	for _, o := range obj.Head.Owners {
		if by := l.writes[o.UID]; by != nil {
			w = by
		}
	}
	if w == nil {
		return
	}
	l.writes[obj.Head.UID] = w // dependents of dependents
	addEffect(w, verbOf(v.event.Type), ref)
}

func verbOf(event store.EventType) string {
	switch event {
	case store.Added:
		return planned.Create
	case store.Deleted:
		return planned.Delete
	}
	return planned.Update
}

// addEffect adds a change, unless w has the same change of the object or, for an update, any change
// of it.
func addEffect(w *Write, verb string, ref Ref) {
	for _, e := range w.Effects {
		if e.Object == ref && (e.Verb == verb || verb == planned.Update) {
			return
		}
	}
	w.Effects = append(w.Effects, Effect{Verb: verb, Object: ref})
}
