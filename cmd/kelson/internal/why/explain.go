package why

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"kelson.dev/operator/trace"
)

// Explain writes to out the last writes of an object, each with its chain of causes, then the
// result of the object's own last reconcile if it did not succeed, and the hot loops that involve
// the object.
func (t *Trace) Explain(out io.Writer, o Object, last int) {
	e := &explanation{trace: t, out: out, shown: map[*trace.LineRecord]bool{}}
	fmt.Fprintf(out, "%s\n", o)
	var writes []writer
	for _, r := range t.records {
		for i := range r.Writes {
			if w := &r.Writes[i]; written(w) == o && (w.Changed || w.Error != "") {
				writes = append(writes, writer{r, w})
			}
		}
	}
	if skipped := len(writes) - last; skipped > 0 {
		fmt.Fprintf(out, "\n(%d earlier writes: use --last to show more)\n", skipped)
		writes = writes[skipped:]
	}
	if len(writes) == 0 {
		e.reconcilesOf(o, last)
	}
	for _, w := range writes {
		fmt.Fprintf(out, "\n%s  %s by %s\n", clock(w.record.Time), deed(w.write), e.who(w.record))
		e.causes(w.record, 1)
	}
	e.outcome(o)
	e.loops(o)
}

type explanation struct {
	trace *Trace
	out   io.Writer
	shown map[*trace.LineRecord]bool // records whose causes are printed already
}

func (e *explanation) line(depth int, format string, args ...any) {
	fmt.Fprintf(e.out, "%s%s\n", strings.Repeat("  ", depth), fmt.Sprintf(format, args...))
}

// reconcilesOf prints the reconciles of an object that no operator wrote, or those that it caused.
func (e *explanation) reconcilesOf(o Object, last int) {
	var all []*trace.LineRecord
	for _, r := range e.trace.records {
		if reconciled(r) == o {
			all = append(all, r)
		}
	}
	for _, r := range all[max(0, len(all)-last):] {
		fmt.Fprintf(e.out, "\n%s  reconciled by %s: %s\n", clock(r.Time), e.who(r), result(r))
		e.causes(r, 1)
	}
	if len(all) == 0 {
		fmt.Fprintf(e.out, "\nno operator wrote this object; it caused reconciles of\n")
		for _, r := range e.trace.records {
			for i := range r.Causes {
				if caused(&r.Causes[i]) == o {
					e.line(1, "%s, %s: %s", reconciled(r), clock(r.Time), result(r))
				}
			}
		}
	}
}

// maxDepth is the maximum length of a chain of causes.
const maxDepth = 24

// causes prints the causes of a reconcile, and their causes.
func (e *explanation) causes(r *trace.LineRecord, depth int) {
	if e.shown[r] {
		e.line(depth, "(causes are shown above)")
		return
	}
	e.shown[r] = true
	if depth > maxDepth {
		e.line(depth, "…")
		return
	}
	for i := range r.Causes {
		c := &r.Causes[i]
		text := cause(c)
		by, write := e.writerOf(r, c)
		switch {
		case by != nil && write != nil:
			e.line(depth, "because %s was %s by %s", caused(c), deed(write), e.who(by))
			e.causes(by, depth+1)
		case by != nil:
			e.line(depth, "because %s, by %s", text, e.who(by))
			e.causes(by, depth+1)
		case c.Manager != "":
			e.line(depth, "because %s by %s", text, c.Manager)
		default:
			e.line(depth, "because %s", text)
		}
	}
	if r.MoreCauses > 0 {
		e.line(depth, "and %d more causes", r.MoreCauses)
	}
	if len(r.Causes) == 0 {
		e.line(depth, "cause unknown")
	}
}

// writerOf returns the reconcile and the write that caused c, in the trace of any operator. The
// write is nil if it is unknown.
func (e *explanation) writerOf(r *trace.LineRecord, c *trace.LineCause) (*trace.LineRecord, *trace.LineWrite) {
	if c.Event == trace.Retry || c.Event == trace.After {
		return e.before(r), nil
	}
	if w := e.trace.writers[state{caused(c), c.ResourceVersion}]; w != nil {
		return w.record, w.write
	}
	if c.By != 0 {
		return e.trace.byID[reconcile{r.Run, c.By}], nil
	}
	return nil, nil
}

// before returns the previous reconcile of the same object by the same controller.
func (e *explanation) before(r *trace.LineRecord) *trace.LineRecord {
	var found *trace.LineRecord
	for _, other := range e.trace.records {
		if other == r {
			break
		}
		if other.Run == r.Run && other.Controller == r.Controller && reconciled(other) == reconciled(r) {
			found = other
		}
	}
	return found
}

// outcome prints the result of the last reconcile of the object by each controller that failed or
// requeued it.
func (e *explanation) outcome(o Object) {
	latest := map[string]*trace.LineRecord{}
	var order []string
	for _, r := range e.trace.records {
		if reconciled(r) == o {
			if latest[r.Controller] == nil {
				order = append(order, r.Controller)
			}
			latest[r.Controller] = r
		}
	}
	for _, name := range order {
		if r := latest[name]; r.Error != "" || r.RequeueAfter != "" {
			fmt.Fprintf(e.out, "\n%s  the last reconcile by %s: %s\n", clock(r.Time), e.who(r), result(r))
		}
	}
}

func (e *explanation) loops(o Object) {
	for _, r := range e.trace.records {
		if r.Loop == nil {
			continue
		}
		for _, name := range r.Loop.Objects {
			if name == o.String() {
				fmt.Fprintf(e.out, "\n%s  hot loop: %s\n", clock(r.Time), r.Loop)
			}
		}
	}
}

// who returns a description of a reconcile.
func (e *explanation) who(r *trace.LineRecord) string {
	duration := r.Duration
	if d, err := time.ParseDuration(duration); err == nil {
		duration = d.Round(10 * time.Microsecond).String()
	}
	return fmt.Sprintf("controller %s (reconcile %d of %s, %s)", r.Controller, r.ID, reconciled(r), duration)
}

var deeds = map[string]string{"create": "created", "update": "updated", "patch": "patched", "apply": "applied", "delete": "deleted", "deletecollection": "deleted"}

func deed(w *trace.LineWrite) string {
	text := cmp.Or(deeds[w.Verb], w.Verb)
	if w.Subresource != "" {
		text += " in its " + w.Subresource
	}
	if w.Error != "" {
		text = fmt.Sprintf("not %s (%s)", text, w.Error)
	}
	return text
}

var events = map[string]string{
	trace.Add: "was created", trace.Update: "was changed", trace.Delete: "was deleted", trace.Sync: "existed when the operator started",
	trace.Resync: "was resynced",
}

func cause(c *trace.LineCause) string {
	switch c.Event {
	case trace.Retry:
		return "the previous reconcile returned an error"
	case trace.After:
		return "the previous reconcile requested it"
	case trace.Other:
		return strings.TrimSuffix("an external event occurred: "+c.Name, ": ")
	}
	text := caused(c).String() + " " + cmp.Or(events[c.Event], c.Event)
	if c.Fields != "" {
		text += " (" + c.Fields + ")"
	}
	return text
}

func result(r *trace.LineRecord) string {
	var done []string
	for i := range r.Writes {
		if w := &r.Writes[i]; w.Changed || w.Error != "" {
			done = append(done, fmt.Sprintf("%s %s", written(w), deed(w)))
		}
	}
	if r.RequeueAfter != "" {
		done = append(done, "again after "+r.RequeueAfter)
	}
	if r.Error != "" {
		done = append(done, "failed: "+r.Error)
	}
	if len(done) == 0 {
		return "nothing to do"
	}
	return strings.Join(done, ", ")
}

func clock(t time.Time) string { return t.Local().Format("15:04:05.000") }
