package causes

import (
	"slices"
	"time"

	"kelson.dev/operator/trace"
)

// Explanation explains why an object is in its state.
type Explanation struct {
	Object Object `json:"object"`
	// Writes are the last writes of the object, the oldest first; Earlier is the number of
	// writes before them.
	Writes  []Step `json:"writes,omitempty"`
	Earlier int    `json:"earlierWrites,omitempty"`
	// Reconciles are the last reconciles of an object that no operator wrote.
	Reconciles []*Reconcile `json:"reconciles,omitempty"`
	// Caused are the reconciles that the object caused, if operators did not write or reconcile it.
	Caused []*Reconcile `json:"caused,omitempty"`
	// Logged are the last writes of the object in an audit log, with their probable causes; see
	// [Log].
	Logged []*LoggedStep `json:"logged,omitempty"`
	// Unsettled are the last reconciles of the object that failed or that requested a repetition,
	// one for each controller.
	Unsettled []*Reconcile `json:"unsettled,omitempty"`
	// Loops are the hot loops that involve the object.
	Loops []LoopAt `json:"loops,omitempty"`
}

// LoopAt is a hot loop with the time of its detection.
type LoopAt struct {
	Time time.Time   `json:"time"`
	Loop *trace.Loop `json:"loop"`
}

// Step is a write of a reconcile.
type Step struct {
	Write trace.LineWrite `json:"write"`
	By    *Reconcile      `json:"by"`
}

// Reconcile is a reconcile with its causes.
type Reconcile struct {
	*trace.LineRecord
	// Because explains the causes of LineRecord, in the same order.
	Because []Because `json:"because,omitempty"`
	// Repeated means that Because is empty because another place of the explanation has it.
	Repeated bool `json:"repeated,omitempty"`
	// Cut means that Because is empty because the chain is too long.
	Cut bool `json:"cut,omitempty"`
}

// Because is a cause of a reconcile, with the reconcile that caused it if it is known.
type Because struct {
	Cause trace.LineCause `json:"cause"`
	// By is the reconcile that made the change. It is nil if a person or a program without a trace
	// made it; Cause.Manager may have its name.
	By *Reconcile `json:"by,omitempty"`
	// Write is the write of By that made the change; nil if it is unknown.
	Write *trace.LineWrite `json:"write,omitempty"`
	// Logged is the write that made the change, if it is of another program and in the audit log
	// that is attached to the trace.
	Logged *LoggedStep `json:"logged,omitempty"`
}

// maxDepth is the maximum length of a chain of causes.
const maxDepth = 24

// Explain returns why an object is in its state, with its last writes or reconciles: at most last,
// and none if last is negative.
func (t *Trace) Explain(o Object, last int) Explanation {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e := explainer{t, map[*trace.LineRecord]bool{}}
	x := Explanation{Object: o}
	var writes []write
	for _, r := range t.records {
		for i := range r.Writes {
			if w := &r.Writes[i]; Written(w) == o && (w.Changed || w.Error != "") {
				writes = append(writes, write{r, w})
			}
		}
	}
	last = max(0, last)
	x.Earlier = max(0, len(writes)-last)
	for _, w := range writes[x.Earlier:] {
		x.Writes = append(x.Writes, Step{*w.write, e.reconcile(w.record, 1)})
	}
	if len(writes) == 0 {
		all := t.byObject[o]
		for _, r := range all[max(0, len(all)-last):] {
			x.Reconciles = append(x.Reconciles, e.reconcile(r, 1))
		}
		if len(all) == 0 {
			x.Caused = t.causedBy(o)
		}
	}
	x.Unsettled = t.unsettled(o)
	for _, r := range t.records {
		if r.Loop != nil && slices.Contains(r.Loop.Objects, o.String()) {
			x.Loops = append(x.Loops, LoopAt{r.Time, r.Loop})
		}
	}
	return x
}

// WriteOf returns the write that made a version of an object, with its causes. It returns false if
// no reconcile of the trace made the version.
func (t *Trace) WriteOf(o Object, resourceVersion string) (Step, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.writeOf(o, resourceVersion)
}

// writeOf does the same as WriteOf. The caller holds the lock.
func (t *Trace) writeOf(o Object, resourceVersion string) (Step, bool) {
	w, ok := t.writers[state{o, resourceVersion}]
	if !ok {
		return Step{}, false
	}
	e := explainer{t, map[*trace.LineRecord]bool{}}
	return Step{*w.write, e.reconcile(w.record, 1)}, true
}

// Chain returns a reconcile with its causes.
func (t *Trace) Chain(r *trace.LineRecord) *Reconcile {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e := explainer{t, map[*trace.LineRecord]bool{}}
	return e.reconcile(r, 1)
}

func (t *Trace) causedBy(o Object) []*Reconcile {
	var all []*Reconcile
	for _, r := range t.records {
		for i := range r.Causes {
			if Caused(&r.Causes[i]) == o {
				all = append(all, &Reconcile{LineRecord: r})
			}
		}
	}
	return all
}

func (t *Trace) unsettled(o Object) []*Reconcile {
	latest := map[string]*trace.LineRecord{}
	var order []string
	for _, r := range t.byObject[o] {
		if latest[r.Controller] == nil {
			order = append(order, r.Controller)
		}
		latest[r.Controller] = r
	}
	var all []*Reconcile
	for _, name := range order {
		if r := latest[name]; r.Error != "" || r.RequeueAfter != "" {
			all = append(all, &Reconcile{LineRecord: r})
		}
	}
	return all
}

type explainer struct {
	*Trace
	shown map[*trace.LineRecord]bool // records whose causes are in the explanation
}

func (e *explainer) reconcile(r *trace.LineRecord, depth int) *Reconcile {
	x := &Reconcile{LineRecord: r}
	switch {
	case e.shown[r]:
		x.Repeated = true
		return x
	case depth > maxDepth:
		x.Cut = true
		return x
	}
	e.shown[r] = true
	for i := range r.Causes {
		c := &r.Causes[i]
		b := Because{Cause: *c}
		if by, w := e.writerOf(r, c); by != nil {
			b.By, b.Write = e.reconcile(by, depth+1), w
		} else if e.log != nil {
			if logged := e.log.wrote(Caused(c), c.ResourceVersion); logged != nil {
				b.Logged = e.log.step(logged, map[*LoggedWrite]bool{}, depth+1)
			}
		}
		x.Because = append(x.Because, b)
	}
	return x
}

// writerOf returns the reconcile and the write that caused c, in the trace of any operator. The
// write is nil if it is unknown.
func (t *Trace) writerOf(r *trace.LineRecord, c *trace.LineCause) (*trace.LineRecord, *trace.LineWrite) {
	if c.Event == trace.Retry || c.Event == trace.After {
		return t.previous(r), nil
	}
	if w, ok := t.writers[state{Caused(c), c.ResourceVersion}]; ok {
		return w.record, w.write
	}
	if c.By != 0 {
		return t.byID[id{r.Run, c.By}], nil
	}
	return nil, nil
}

// previous returns the previous reconcile of the same object by the same controller.
func (t *Trace) previous(r *trace.LineRecord) *trace.LineRecord {
	var found *trace.LineRecord
	for _, other := range t.byObject[Reconciled(r)] {
		if other == r {
			break
		}
		if other.Run == r.Run && other.Controller == r.Controller {
			found = other
		}
	}
	return found
}

// Effect is a write of a reconcile with the reconciles that it caused.
type Effect struct {
	Write      trace.LineWrite     `json:"write"`
	Reconciles []*trace.LineRecord `json:"reconciles,omitempty"`
}

// Effects returns the writes of a reconcile, and the reconciles that these caused.
func (t *Trace) Effects(r *trace.LineRecord) []Effect {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var all []Effect
	for i := range r.Writes {
		w := &r.Writes[i]
		e := Effect{Write: *w}
		if w.ResourceVersion != "" && w.Changed {
			e.Reconciles = slices.Clone(t.effects[state{Written(w), w.ResourceVersion}])
		}
		all = append(all, e)
	}
	return all
}

// Connected returns the reconciles that led to r, those that r led to, and r itself, at most limit
// in each direction.
func (t *Trace) Connected(r *trace.LineRecord, limit int) []*trace.LineRecord {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := []*trace.LineRecord{r}
	seen := map[*trace.LineRecord]bool{r: true}
	follow := func(next func(*trace.LineRecord) []*trace.LineRecord) {
		queue := []*trace.LineRecord{r}
		for found := 0; len(queue) > 0 && found < limit; queue = queue[1:] {
			for _, n := range next(queue[0]) {
				if !seen[n] {
					seen[n] = true
					found++
					all, queue = append(all, n), append(queue, n)
				}
			}
		}
	}
	follow(func(r *trace.LineRecord) (before []*trace.LineRecord) {
		for i := range r.Causes {
			if by, _ := t.writerOf(r, &r.Causes[i]); by != nil {
				before = append(before, by)
			}
		}
		return before
	})
	follow(func(r *trace.LineRecord) (after []*trace.LineRecord) {
		for i := range r.Writes {
			if w := &r.Writes[i]; w.Changed && w.ResourceVersion != "" {
				after = append(after, t.effects[state{Written(w), w.ResourceVersion}]...)
			}
		}
		return after
	})
	return all
}
