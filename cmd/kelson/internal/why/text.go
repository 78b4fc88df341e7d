package why

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/lab/causes"
	"kelson.dev/operator/trace"
)

// writeText writes an explanation: the last writes of an object, each with its chain of causes,
// then the result of the object's own last reconcile if it did not succeed, and the hot loops that
// involve the object.
//
//	Pod default/example-at
//
//	15:04:05.415  created by controller at (reconcile 2 of At default/example-at, 3.1ms)
//	  because At default/example-at was patched in its status by controller at (reconcile 1 of At default/example-at, 1.2ms)
//	    because At default/example-at was created by kubectl-create
func writeText(out io.Writer, x causes.Explanation) {
	p := printer{out, output.ColorsFor(out)}
	p.line(0, "%s", p.Bold(x.Object.String()))
	if x.Earlier > 0 {
		p.line(0, "\n(%d earlier writes: use --last to show more)", x.Earlier)
	}
	for _, w := range x.Writes {
		p.line(0, "\n%s  %s by %s", p.Faint(clock(w.By.Time)), p.failed(deed(&w.Write), w.Write.Error), who(w.By))
		p.because(w.By, 1)
	}
	for _, s := range x.Logged {
		p.line(0, "\n%s  %s by %s", p.Faint(clock(s.Time)), loggedDeed(s), writer(s))
		p.logged(s, 1)
	}
	for _, r := range x.Reconciles {
		p.line(0, "\n%s  reconciled by %s: %s", p.Faint(clock(r.Time)), who(r), p.failed(result(r), r.Error))
		p.because(r, 1)
	}
	if len(x.Writes) == 0 && len(x.Reconciles) == 0 && len(x.Logged) == 0 {
		p.line(0, "\nno operator wrote this object; it caused reconciles of")
		for _, r := range x.Caused {
			p.line(1, "%s, %s: %s", causes.Reconciled(r.LineRecord), clock(r.Time), result(r))
		}
	}
	for _, r := range x.Unsettled {
		p.line(0, "\n%s  the last reconcile by %s: %s", p.Faint(clock(r.Time)), who(r), p.failed(result(r), r.Error))
	}
	for _, l := range x.Loops {
		p.line(0, "\n%s  %s: %s", p.Faint(clock(l.Time)), p.Bad("hot loop"), l.Loop)
	}
}

// WriteStep prints a write and its chain of causes, indented by depth levels.
func WriteStep(out io.Writer, depth int, s causes.Step) {
	p := printer{out, output.ColorsFor(out)}
	p.line(depth, "%s by %s", deed(&s.Write), who(s.By))
	p.because(s.By, depth+1)
}

type printer struct {
	out io.Writer
	output.Colors
}

func (p printer) line(depth int, format string, args ...any) {
	fmt.Fprintf(p.out, "%s%s\n", strings.Repeat("  ", depth), fmt.Sprintf(format, args...))
}

// failed colors a text if there was an error.
func (p printer) failed(text, err string) string {
	if err == "" {
		return text
	}
	return p.Bad(text)
}

// because prints the causes of a reconcile, and their causes.
func (p printer) because(r *causes.Reconcile, depth int) {
	switch {
	case r.Repeated:
		p.line(depth, "(causes are shown above)")
		return
	case r.Cut:
		p.line(depth, "…")
		return
	}
	for _, b := range r.Because {
		text := cause(&b.Cause)
		switch {
		case b.By != nil && b.Write != nil:
			p.line(depth, "because %s was %s by %s", causes.Caused(&b.Cause), deed(b.Write), who(b.By))
			p.because(b.By, depth+1)
		case b.By != nil:
			p.line(depth, "because %s, by %s", text, who(b.By))
			p.because(b.By, depth+1)
		case b.Logged != nil:
			p.line(depth, "because %s by %s", text, b.Logged.By)
			p.logged(b.Logged, depth+1)
		case b.Cause.Manager != "":
			p.line(depth, "because %s by %s", text, b.Cause.Manager)
		default:
			p.line(depth, "because %s", text)
		}
	}
	if r.MoreCauses > 0 {
		p.line(depth, "and %d more causes", r.MoreCauses)
	}
	if len(r.Causes) == 0 {
		p.line(depth, "cause unknown")
	}
}

// who returns a description of a reconcile.
func who(r *causes.Reconcile) string {
	duration := r.Duration
	if d, err := time.ParseDuration(duration); err == nil {
		duration = d.Round(10 * time.Microsecond).String()
	}
	return fmt.Sprintf("controller %s (reconcile %d of %s, %s)", r.Controller, r.ID, causes.Reconciled(r.LineRecord),
		duration)
}

var deeds = map[string]string{"create": "created", "update": "updated", "patch": "patched", "apply": "applied",
	"delete": "deleted", "deletecollection": "deleted"}

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
	trace.Add: "was created", trace.Update: "was changed", trace.Delete: "was deleted",
	trace.Sync:   "existed when the operator started",
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
	text := causes.Caused(c).String() + " " + cmp.Or(events[c.Event], c.Event)
	if c.Fields != "" {
		text += " (" + c.Fields + ")"
	}
	return text
}

func result(r *causes.Reconcile) string {
	var done []string
	for i := range r.Writes {
		if w := &r.Writes[i]; w.Changed || w.Error != "" {
			done = append(done, fmt.Sprintf("%s %s", causes.Written(w), deed(w)))
		}
	}
	if r.RequeueAfter != "" {
		done = append(done, "again after "+r.RequeueAfter)
	}
	if r.Error != "" {
		done = append(done, "failed: "+r.Error)
	}
	if len(done) == 0 {
		done = []string{"nothing to do"}
	}
	if r.Repeats > 0 {
		done = append(done, fmt.Sprintf("as did %d more within a second", r.Repeats))
	}
	return strings.Join(done, ", ")
}

func clock(t time.Time) string { return t.Local().Format("15:04:05.000") }
