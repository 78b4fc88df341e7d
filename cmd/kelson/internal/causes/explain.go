package causes

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"kelson.dev/operator/trace"
)

// Explain tells how an object came to be as it is: the last writes of it, each with the chain that led there, then what its own last
// reconcile came to, and the loops that it is part of.
func (a *Account) Explain(out io.Writer, o Object, last int) {
	e := &explanation{account: a, out: out, told: map[*trace.LineRecord]bool{}}
	fmt.Fprintf(out, "%s\n", o)
	var writes []writer
	for _, r := range a.records {
		for i := range r.Writes {
			if w := &r.Writes[i]; written(w) == o && (w.Changed || w.Error != "") {
				writes = append(writes, writer{r, w})
			}
		}
	}
	if skipped := len(writes) - last; skipped > 0 {
		fmt.Fprintf(out, "\n(%d earlier writes: --last tells how many are shown)\n", skipped)
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
	account *Account
	out     io.Writer
	told    map[*trace.LineRecord]bool // whose causes were told
}

func (e *explanation) line(depth int, format string, args ...any) {
	fmt.Fprintf(e.out, "%s%s\n", strings.Repeat("  ", depth), fmt.Sprintf(format, args...))
}

// reconcilesOf tells of an object that no operator wrote: why it was looked at.
func (e *explanation) reconcilesOf(o Object, last int) {
	var of []*trace.LineRecord
	for _, r := range e.account.records {
		if reconciled(r) == o {
			of = append(of, r)
		}
	}
	for _, r := range of[max(0, len(of)-last):] {
		fmt.Fprintf(e.out, "\n%s  reconciled by %s: %s\n", clock(r.Time), e.who(r), result(r))
		e.causes(r, 1)
	}
	if len(of) == 0 {
		fmt.Fprintf(e.out, "\nno operator wrote it; it caused the reconcile of\n")
		for _, r := range e.account.records {
			for i := range r.Causes {
				if caused(&r.Causes[i]) == o {
					e.line(1, "%s, %s: %s", reconciled(r), clock(r.Time), result(r))
				}
			}
		}
	}
}

// maxDepth bounds a chain.
const maxDepth = 24

// causes tells what led to a reconcile, and on.
func (e *explanation) causes(r *trace.LineRecord, depth int) {
	if e.told[r] {
		e.line(depth, "(what led to this is told above)")
		return
	}
	e.told[r] = true
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
		e.line(depth, "and %d causes more", r.MoreCauses)
	}
	if len(r.Causes) == 0 {
		e.line(depth, "no cause is known")
	}
}

// writerOf is the reconcile that made a change: of the same operator, or of another whose account is here.
func (e *explanation) writerOf(r *trace.LineRecord, c *trace.LineCause) (*trace.LineRecord, *trace.LineWrite) {
	if c.Event == trace.Retry || c.Event == trace.After {
		return e.before(r), nil
	}
	if w := e.account.writers[state{caused(c), c.ResourceVersion}]; w != nil {
		return w.record, w.write
	}
	if c.By != 0 {
		return e.account.byID[reconcile{r.Run, c.By}], nil
	}
	return nil, nil
}

// before is the last reconcile of the same object by the same controller.
func (e *explanation) before(r *trace.LineRecord) *trace.LineRecord {
	var found *trace.LineRecord
	for _, other := range e.account.records {
		if other == r {
			break
		}
		if other.Run == r.Run && other.Controller == r.Controller && reconciled(other) == reconciled(r) {
			found = other
		}
	}
	return found
}

// outcome tells what the last reconcile of the object itself came to, if that is no success.
func (e *explanation) outcome(o Object) {
	latest := map[string]*trace.LineRecord{}
	var order []string
	for _, r := range e.account.records {
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
	for _, r := range e.account.records {
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

// who is a reconcile as a person names it.
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
	trace.Add: "was created", trace.Update: "was changed", trace.Delete: "was deleted", trace.Sync: "was there when the operator began to look",
	trace.Resync: "is looked at now and then",
}

func cause(c *trace.LineCause) string {
	switch c.Event {
	case trace.Retry:
		return "the reconcile before returned an error"
	case trace.After:
		return "the reconcile before asked for it"
	case trace.Other:
		return strings.TrimSpace("of something outside of the API server " + c.Name)
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
