package trace

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/recent"
)

// Loop is an operator that keeps itself busy: either reconciles cause each other by what they write, without end; or a reconcile
// undoes what somebody else does, who undoes it again.
type Loop struct {
	// Controllers are those of this process that take part, Managers all whose writes do, by their name in managedFields.
	Controllers []string `json:"controllers"`
	Managers    []string `json:"managers,omitempty"`
	// Objects are those that are written, as "Pod default/web".
	Objects []string `json:"objects"`
	// Fields are those that change again and again, as "Pod default/web: spec.replicas (3 → 5 → 3)".
	Fields []string `json:"fields,omitempty"`
	// Reconciles is how many there were in this row, in the time Within.
	Reconciles int           `json:"reconciles"`
	Within     time.Duration `json:"within"`
}

// String is one line for people.
func (l Loop) String() string {
	s := fmt.Sprintf("%d reconciles of %s in %s write %s again and again", l.Reconciles, strings.Join(l.Controllers, " and "),
		l.Within.Round(time.Millisecond), strings.Join(l.Objects, " and "))
	if len(l.Managers) > 1 {
		s += ", by " + strings.Join(l.Managers, " and ")
	}
	if len(l.Fields) > 0 {
		s += "; what flaps: " + strings.Join(l.Fields, ", ")
	}
	return s
}

// Thresholds. An object that is written suspiciously often is looked at closely; a chain of reconciles, or a field that returns to what it
// was, is a loop when it is long, or returns often, and fast.
const (
	loopWindow    = time.Minute
	suspectWrites = 5  // of one object, in a window
	loopHops      = 20 // reconciles that cause each other
	loopPace      = 5 * time.Second
	loopReturns   = 4 // of one field, in a window
	maxNamed      = 6 // things of a kind that a Loop names
)

// loops finds hot loops.
type loops struct {
	suspects atomic.Int32 // how many activities are suspicious: none, most of the time

	mu         sync.Mutex
	activities recent.Map[subject, *activity]
	chains     recent.Map[uint64, chain] // by reconcile
	told       recent.Map[string, time.Time]
}

// activity is what happened to an object that this process writes, in a window.
type activity struct {
	since      time.Time
	writes     int
	suspicious bool
	writers    []string         // controllers
	managers   []string         // whose changes were seen
	fields     map[string]*flap // by path
}

// flap is what became of a field.
type flap struct {
	values  []string // the last few, oldest first
	changes int
	returns int // how often the new value was one of these
}

// chain is a row of reconciles of which each was caused by a write of the one before.
type chain struct {
	began       time.Time
	hops        int
	controllers []string
	objects     []subject
}

// reconciled looks at a reconcile and says whether it is part of a loop.
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
		c = chain{began: r.Time, hops: 1} // it takes its time
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

// loop describes what was found, unless that was told within the last minute.
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
	if last, ok := l.told.Get(name); ok && r.Time.Sub(last) < loopWindow {
		return nil
	}
	l.told.Set(name, r.Time)
	return found
}

func (l *loops) activity(s subject, now time.Time) *activity {
	a, ok := l.activities.Get(s)
	if !ok || now.Sub(a.since) > loopWindow {
		if ok {
			l.calm(a)
		}
		a = &activity{since: now}
		l.activities.Set(s, a)
	}
	return a
}

// calm ends the suspicion of an activity that is over, or forgotten for others.
func (l *loops) calm(a *activity) {
	if a.suspicious {
		a.suspicious = false
		l.suspects.Add(-1)
	}
}

// Suspicious says whether an object is written so often that its changes are worth a closer look. It is quick.
func (t *Tracer) Suspicious(cluster, kind string, key client.Key) bool {
	if t == nil || t.loops.suspects.Load() == 0 {
		return false
	}
	t.loops.mu.Lock()
	defer t.loops.mu.Unlock()
	a, ok := t.loops.activities.Get(subject{cluster, kind, key})
	if ok && time.Since(a.since) > 2*loopWindow {
		t.loops.calm(a)
	}
	return ok && a.suspicious
}

// Change is one field that an update changed, with its values as JSON, shortened.
type Change struct {
	Path          string
	Before, After string
}

// Changed notes what an update of a suspicious object changed, and by whom.
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
		if slices.Contains(f.values, c.After) {
			f.returns++
		}
		f.values = append(f.values, c.After)
		if len(f.values) > 3 {
			f.values = f.values[1:]
		}
	}
}

// flapping says whether fields return to what they were, again and again.
func (a *activity) flapping() bool {
	for _, f := range a.fields {
		if f.returns >= loopReturns {
			return true
		}
	}
	return false
}

// flapped are the fields that change most: those that return if there are any, else those that change each time.
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

// with is a list with a member, in a copy if it has to be added, and not beyond what is named.
func with[T comparable](list []T, member T) []T {
	if slices.Contains(list, member) || len(list) >= maxNamed {
		return list
	}
	return append(slices.Clone(list), member)
}
