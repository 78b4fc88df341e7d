package planned

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"kelson.dev/lab/history"
	"kelson.dev/lab/printable"
)

// Painter colors parts of a text for a terminal.
type Painter interface {
	Bold(string) string
	Faint(string) string
	Good(string) string
	Bad(string) string
}

// TextOptions select what Text shows.
type TextOptions struct {
	// All shows every step and every field. Without it, Text shows steps that do the same to
	// different objects once, with a count, and truncates long lists of fields.
	All bool
	// Paint colors the text; nil means no colors.
	Paint Painter
}

const (
	maxFields = 30 // of a write
	maxNamed  = 5  // of similar steps
	// minSimilar is the minimum number of similar steps that are shown as one.
	minSimilar = 4
)

// Text writes a plan for people.
func (p *Plan) Text(out io.Writer, opts TextOptions) error {
	t := &texter{out: out, opts: opts}
	t.line("%s", t.bold(fmt.Sprintf("plan on a copy of %s, %s", p.Cluster, count(p.Objects, "object"))))
	for _, i := range p.Installed {
		t.line("installed first: %s %s", i.Verb, i.Object)
		t.fields(i.Verb, i.Changes, "    ")
	}
	if p.Compared != "" {
		t.differences(p)
	} else {
		for _, g := range groups(p.Steps, opts.All) {
			t.step(g)
		}
	}
	for _, r := range p.Refused {
		t.line("")
		t.line("%s", t.bad(r.text()))
	}
	t.line("")
	for _, note := range p.Notes {
		t.line("note: %s", clean(note))
	}
	if p.Incomplete != "" {
		t.line("%s", t.bad("incomplete: "+p.Incomplete))
	}
	t.line("%s", t.bold(p.result()))
	return t.err
}

// result returns the last line.
func (p *Plan) result() string {
	switch {
	case p.Compared != "" && len(p.Differences) == 0:
		return fmt.Sprintf("the operator would leave the cluster as %s does", p.Compared)
	case p.Compared != "":
		return fmt.Sprintf("%s would be different than with %s", count(len(p.Differences), "object"), p.Compared)
	case p.Empty():
		return "the operator would do nothing"
	}
	return p.Summary()
}

func (r Refusal) text() string {
	object := r.Object.String()
	if r.Object.Name == "" && r.Object.Namespace != "" { // a new object, or all objects
		object = r.Object.GroupResource() + " in namespace " + r.Object.Namespace
	}
	if r.Subresource != "" {
		object += " (" + r.Subresource + ")"
	}
	text := fmt.Sprintf("refused: %s %s: %s", r.Verb, object, clean(r.Message))
	if r.Times > 1 {
		text += fmt.Sprintf(" (%d times)", r.Times)
	}
	return text
}

// group is a step with the others of the same shape.
type group struct {
	Step
	others []Step
}

// groups collects similar steps, in the order of the first ones.
func groups(steps []Step, all bool) []group {
	shapes := map[string]int{}
	for _, s := range steps {
		shapes[s.shape()]++
	}
	var list []group
	at := map[string]int{}
	for _, s := range steps {
		shape := s.shape()
		if i, ok := at[shape]; ok && !all && shapes[shape] >= minSimilar {
			list[i].others = append(list[i].others, s)
			continue
		}
		at[shape] = len(list)
		list = append(list, group{Step: s})
	}
	return list
}

// shape returns a text that is equal for steps that do the same to different objects.
func (s Step) shape() string {
	var b strings.Builder
	fmt.Fprint(&b, s.Controller, s.Object != nil, s.Error != "", s.Simulated != "")
	for _, w := range s.Writes {
		fmt.Fprint(&b, "|", w.Verb, w.Object.Group, w.Object.Resource, w.Subresource, len(w.Webhooks))
		for _, c := range w.Changes {
			b.WriteString(" " + unnamed.ReplaceAllString(c.Path, "[]"))
		}
	}
	return b.String()
}

// unnamed matches the names of list items in a path.
var unnamed = regexp.MustCompile(`\[[^]]*\]`)

// subject returns the object or reconcile of a step.
func (s Step) subject() string {
	switch {
	case s.Object != nil:
		return s.Object.String()
	case len(s.Writes) > 0:
		return s.Writes[0].Object.String()
	}
	return ""
}

// title returns the first line of a step.
func (s Step) title() string {
	if s.Controller != "" {
		return fmt.Sprintf("%d. controller %s reconciles %s", s.Number, s.Controller, s.subject())
	}
	return fmt.Sprintf("%d. the operator writes", s.Number)
}

// text returns a cause as a sentence.
func (c Cause) text() string {
	text := clean(c.Text)
	if c.Probably {
		text = "probably because " + text
	} else {
		text = "because " + text
	}
	if c.Step > 0 {
		text += fmt.Sprintf(" in step %d", c.Step)
	}
	return text
}

// texter writes lines, and keeps the first error.
type texter struct {
	out  io.Writer
	opts TextOptions
	err  error
}

func (t *texter) line(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.out, format+"\n", args...)
	}
}

func (t *texter) paint(text string, with func(Painter, string) string) string {
	if t.opts.Paint == nil {
		return text
	}
	return with(t.opts.Paint, text)
}

func (t *texter) bold(s string) string  { return t.paint(s, Painter.Bold) }
func (t *texter) faint(s string) string { return t.paint(s, Painter.Faint) }
func (t *texter) good(s string) string  { return t.paint(s, Painter.Good) }
func (t *texter) bad(s string) string   { return t.paint(s, Painter.Bad) }

func (t *texter) step(g group) {
	t.line("")
	t.line("%s", t.bold(g.title()))
	for _, c := range g.Because {
		t.line("   %s", t.faint(c.text()))
	}
	for _, w := range g.Writes {
		t.write(w)
	}
	if g.Error != "" {
		text := "fails: " + clean(g.Error)
		if g.Times > 1 {
			text += fmt.Sprintf(" (%d times)", g.Times)
		}
		t.line("   %s", t.bad(text))
	}
	if g.Simulated != "" {
		t.line("   simulated: %s", clean(g.Simulated))
	}
	if len(g.others) > 0 {
		t.line("   %s", similar(g.others))
	}
}

// similar names the steps that are not shown.
func similar(others []Step) string {
	var names []string
	for _, s := range others[:min(len(others), maxNamed)] {
		names = append(names, s.subject())
	}
	if len(others) > maxNamed {
		names = append(names, "…")
	}
	return fmt.Sprintf("and %s like it: %s", count(len(others), "step"), strings.Join(names, ", "))
}

var signs = map[string]string{Create: "+", Update: "~", Delete: "-"}

func (w Write) title() string {
	text := fmt.Sprintf("%s %s %s", signs[w.Verb], w.Verb, w.Object)
	if w.Subresource != "" {
		text += " (" + w.Subresource + ")"
	}
	return text
}

func (t *texter) write(w Write) {
	title := w.title()
	switch w.Verb {
	case Create:
		title = t.good(title)
	case Delete:
		title = t.bad(title)
	}
	t.line("   %s", title)
	t.fields(w.Verb, w.Changes, "       ")
	for _, line := range w.remarks() {
		t.line("       %s", line)
	}
}

// remarks returns the further effects of a write, and the webhooks that were not called.
func (w Write) remarks() (lines []string) {
	if len(w.Effects) > 0 {
		byKind := map[string][]string{}
		var order []string
		for _, l := range w.Effects {
			what := l.Verb + " " + l.Object.Kind
			if byKind[what] == nil {
				order = append(order, what)
			}
			byKind[what] = append(byKind[what], strings.TrimPrefix(l.Object.Namespace+"/"+l.Object.Name, "/"))
		}
		var parts []string
		for _, what := range order {
			names := byKind[what]
			if len(names) > maxNamed {
				names = append(slices.Clone(names[:maxNamed]), fmt.Sprintf("and %d more", len(names)-maxNamed))
			}
			parts = append(parts, what+" "+strings.Join(names, ", "))
		}
		lines = append(lines, "then Kubernetes: "+strings.Join(parts, "; "))
	}
	if len(w.Webhooks) > 0 {
		lines = append(lines, "webhooks not called: "+strings.Join(w.Webhooks, ", "))
	}
	return lines
}

// fields writes the changed fields.
func (t *texter) fields(verb string, changes []history.Change, indent string) {
	shown := changes
	if !t.opts.All && verb == Create {
		shown = withoutIdentity(changes)
		changes = shown
	}
	if !t.opts.All && len(changes) > maxFields {
		shown = changes[:maxFields]
	}
	for _, c := range shown {
		t.line("%s%s", indent, changeText(verb, c))
	}
	if hidden := len(changes) - len(shown); hidden > 0 {
		t.line("%s… and %s", indent, count(hidden, "more field"))
	}
}

// withoutIdentity omits fields that say nothing specific about a new object: its identity, its
// owner and an empty status.
func withoutIdentity(changes []history.Change) []history.Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c history.Change) bool {
		switch c.Path {
		case ".apiVersion", ".kind", ".metadata.name", ".metadata.namespace", ".metadata.generateName", ".status":
			return true
		}
		return strings.HasPrefix(c.Path, ".metadata.ownerReferences[")
	})
}

// changeText returns a change in one line.
func changeText(verb string, c history.Change) string {
	path := clean(c.Path)
	switch {
	case verb == Create || c.From == "" && c.To != "":
		return path + ": " + clean(c.To)
	case c.To == "":
		return path + ": " + clean(c.From) + " → not set"
	}
	return path + ": " + clean(c.From) + " → " + clean(c.To)
}

func (t *texter) differences(p *Plan) {
	for _, d := range p.Differences {
		t.line("")
		t.line("%s", t.bold(d.title(p.Compared)))
		t.fields(Update, d.Changes, "    ")
		for _, n := range d.Steps {
			step := p.Steps[n-1]
			t.line("    step %s", strings.Replace(step.title(), ".", ":", 1))
			for _, c := range step.Because {
				t.line("      %s", t.faint(c.text()))
			}
			if step.Simulated != "" {
				t.line("      simulated: %s", clean(step.Simulated))
			}
		}
	}
}

func (d Difference) title(compared string) string {
	switch d.Only {
	case "new":
		return fmt.Sprintf("+ %s: does not exist with %s", d.Object, compared)
	case "old":
		return fmt.Sprintf("- %s: exists only with %s", d.Object, compared)
	}
	return fmt.Sprintf("~ %s", d.Object)
}

// clean replaces line breaks and tabs by spaces and escapes what a terminal does not show, so that
// a text is one line.
func clean(text string) string { return printable.Escape(oneLine.Replace(text)) }

var oneLine = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ")

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text + " " + what + "s"
}
