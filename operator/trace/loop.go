package trace

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/boundedmap"
)

// Loop describes a hot loop: reconciles that cause each other by their writes without end, or a
// reconcile that reverts the changes of another writer, which makes them again.
type Loop struct {
	// Controllers are the controllers of this process in the loop; Managers are all writers in it,
	// by their name in managedFields.
	Controllers []string `json:"controllers"`
	Managers    []string `json:"managers,omitempty"`
	// Objects are the written objects, such as "Pod default/web".
	Objects []string `json:"objects"`
	// Fields are the fields that change repeatedly, such as "Pod default/web: spec.replicas (3 → 5
	// → 3)".
	Fields []string `json:"fields,omitempty"`
	// Reconciles is the number of reconciles in the loop, within the time Within.
	Reconciles int           `json:"reconciles"`
	Within     time.Duration `json:"within"`
}

// String returns a description in one line.
func (l Loop) String() string {
	s := fmt.Sprintf("%d reconciles of %s in %s repeatedly write %s", l.Reconciles,
		strings.Join(l.Controllers, " and "),
		l.Within.Round(time.Millisecond), strings.Join(l.Objects, " and "))
	if len(l.Managers) > 1 {
		s += ", by " + strings.Join(l.Managers, " and ")
	}
	if len(l.Fields) > 0 {
		s += "; flapping fields: " + strings.Join(l.Fields, ", ")
	}
	return s
}

// Thresholds. Objects that are written often are examined closely. A loop is a chain of reconciles
// that is long and fast, or a field that several writers often return to earlier values.
const (
	loopWindow    = time.Minute
	suspectWrites = 5  // of one object, within loopWindow
	loopHops      = 20 // reconciles that cause each other
	loopPace      = 5 * time.Second
	loopReturns   = 4    // of one field, within loopWindow
	maxNamed      = 6    // bounds each list in a Loop
	remembered    = 4096 // objects, writes and reconciles of which a Tracer keeps records
)

// loops detects hot loops.
type loops struct {
	suspects atomic.Int32 // number of suspicious activities, usually 0

	mu         sync.Mutex
	activities boundedmap.Map[subject, *activity]
	chains     boundedmap.Map[uint64, chain] // by reconcile
	reported   boundedmap.Map[string, time.Time]
}

func (l *loops) init() {
	l.activities = boundedmap.New[subject](remembered, l.clearSuspicion)
	l.chains = boundedmap.New[uint64, chain](remembered, nil)
	l.reported = boundedmap.New[string, time.Time](remembered, nil)
}

// activity records the changes within loopWindow to an object that this process writes.
type activity struct {
	since      time.Time
	writes     int
	suspicious bool
	writers    []string         // controllers
	managers   []string         // whose changes were observed
	fields     map[string]*flap // by path
}

// flap records the changes of a field.
type flap struct {
	values   []string // the last few, oldest first
	managers []string // that made the changes; none if they are unknown
	changes  int
	returns  int // how often the new value was one of values
}

// chain is a sequence of reconciles, each caused by a write of the previous one.
type chain struct {
	began       time.Time
	hops        int
	controllers []string
	objects     []subject
}

// reconciled examines a reconcile, and returns a Loop if it is part of one.
func (l *loops) reconciled(r Record) *Loop {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := chain{began: r.Time, hops: 1}
	for _, cause := range r.Causes.All() {
		if before, ok := l.chains.Get(cause.By); cause.By != 0 && ok && before.hops >= c.hops {
			c = before
			c.hops++
		}
	}
	if c.hops > 1 && time.Since(c.began) > time.Duration(c.hops)*loopPace {
		c = chain{began: r.Time, hops: 1} // slow enough to be harmless
	}
	c.controllers = with(c.controllers, r.Controller)
	flapping := false
	wrote := false
	for _, w := range r.Writes {
		if !w.Changed || w.Err != nil {
			continue
		}
		wrote = true
		s := subject{w.Cluster, w.Kind, w.Key}
		c.objects = with(c.objects, s)
		a := l.activity(s, r.Time)
		a.writes++
		a.writers = with(a.writers, r.Controller)
		if a.writes >= suspectWrites && !a.suspicious {
			a.suspicious = true
			l.suspects.Add(1)
		}
		flapping = flapping || a.flapping()
	}
	if !wrote {
		return nil
	}
	l.chains.Set(r.ID, c)
	if c.hops < loopHops && !flapping {
		return nil
	}
	return l.loop(r, c)
}

// loop describes a loop, or returns nil if the same one was reported within the last minute.
func (l *loops) loop(r Record, c chain) *Loop {
	found := &Loop{Controllers: c.controllers, Reconciles: c.hops, Within: time.Since(c.began)}
	for _, s := range c.objects {
		name := s.String()
		found.Objects = append(found.Objects, name)
		a, ok := l.activities.Get(s)
		if !ok {
			continue
		}
		for _, w := range a.writers {
			found.Controllers = with(found.Controllers, w)
		}
		for _, m := range a.managers {
			found.Managers = with(found.Managers, m)
		}
		if a.writes > found.Reconciles {
			found.Reconciles, found.Within = a.writes, time.Since(a.since)
		}
		for _, path := range a.flapped() {
			found.Fields = with(found.Fields, name+": "+path+" ("+strings.Join(a.fields[path].values, " → ")+")")
		}
	}
	name := strings.Join(found.Objects, ",") + "|" + strings.Join(slices.Sorted(slices.Values(found.Controllers)), ",")
	if last, ok := l.reported.Get(name); ok && r.Time.Sub(last) < loopWindow {
		return nil
	}
	l.reported.Set(name, r.Time)
	return found
}

func (l *loops) activity(s subject, now time.Time) *activity {
	a, ok := l.activities.Get(s)
	if !ok || now.Sub(a.since) > loopWindow {
		if ok {
			l.clearSuspicion(a)
		}
		a = &activity{since: now}
		l.activities.Set(s, a)
	}
	return a
}

// clearSuspicion resets the suspicion when an activity ends or is evicted.
func (l *loops) clearSuspicion(a *activity) {
	if a.suspicious {
		a.suspicious = false
		l.suspects.Add(-1)
	}
}

// Suspicious reports whether an object is written so often that its changes should be recorded in
// detail. It is cheap.
func (t *Tracer) Suspicious(cluster, kind string, key client.Key) bool {
	if t == nil || t.loops.suspects.Load() == 0 {
		return false
	}
	t.loops.mu.Lock()
	defer t.loops.mu.Unlock()
	a, ok := t.loops.activities.Get(subject{cluster, kind, key})
	if ok && time.Since(a.since) > 2*loopWindow {
		t.loops.clearSuspicion(a)
	}
	return ok && a.suspicious
}

// Change is a field that an update changed, with its values as JSON, truncated.
type Change struct {
	Path          string
	Before, After string
}

// Changed records the changes by an update of a suspicious object, and its field manager.
func (t *Tracer) Changed(cluster, kind string, key client.Key, manager string, changes []Change) {
	t.loops.mu.Lock()
	defer t.loops.mu.Unlock()
	a, ok := t.loops.activities.Get(subject{cluster, kind, key})
	if !ok {
		return
	}
	if manager != "" {
		a.managers = with(a.managers, manager)
	}
	for _, c := range changes {
		f := a.fields[c.Path]
		if f == nil {
			if len(a.fields) >= 100 {
				continue
			}
			f = &flap{values: []string{c.Before}}
			if a.fields == nil {
				a.fields = map[string]*flap{}
			}
			a.fields[c.Path] = f
		}
		f.changes++
		if manager != "" {
			f.managers = with(f.managers, manager)
		}
		if slices.Contains(f.values, c.After) {
			f.returns++
		}
		f.values = append(f.values, c.After)
		if len(f.values) > 3 {
			f.values = f.values[1:]
		}
	}
}

// flapping reports whether a field has often returned to an earlier value, because several writers
// set it. A field that one writer sets follows something else, such as the status of another
// object, and is not a loop; if the writer causes the changes itself, its reconciles are a chain.
func (a *activity) flapping() bool {
	for _, f := range a.fields {
		if f.returns >= loopReturns && (len(f.managers) != 1 || len(a.writers) > 1) {
			return true
		}
	}
	return false
}

// flapped returns the fields that return to earlier values most often or, if there are none, the
// fields that change most often.
func (a *activity) flapped() []string {
	var returning, changing []string
	for path, f := range a.fields {
		if f.returns >= loopReturns {
			returning = append(returning, path)
		}
		if f.changes >= loopReturns {
			changing = append(changing, path)
		}
	}
	if len(returning) == 0 {
		returning = changing
	}
	slices.Sort(returning)
	return returning[:min(len(returning), maxNamed)]
}

func (s subject) String() string {
	name := s.key.Name
	if s.key.Namespace != "" {
		name = s.key.Namespace + "/" + name
	}
	if s.cluster != "" {
		name = s.cluster + ":" + name
	}
	return s.kind + " " + name
}

// with returns list with member added in a copy, if it is missing and list has fewer than maxNamed
// members.
func with[T comparable](list []T, member T) []T {
	if slices.Contains(list, member) || len(list) >= maxNamed {
		return list
	}
	return append(slices.Clone(list), member)
}
