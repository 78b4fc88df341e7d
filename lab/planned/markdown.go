package planned

import (
	"fmt"
	"io"
	"strings"
)

// Markdown writes a plan for the comments of a code review: a summary, and the steps as diffs.
// Similar steps are shown once.
func (p *Plan) Markdown(out io.Writer) error {
	t := &texter{out: out}
	t.line("### Plan: %s", p.result())
	t.line("")
	t.line("On a copy of %s, %s.", code(p.Cluster), count(p.Objects, "object"))
	for _, i := range p.Installed {
		t.line("- installed first: %s %s", i.Verb, code(i.Object.String()))
	}
	if p.Incomplete != "" {
		t.line("")
		t.line("**Incomplete:** %s", p.Incomplete)
	}
	if p.Compared != "" {
		for _, d := range p.Differences {
			t.block(d.title(p.Compared), d.lines(p))
		}
	} else {
		for _, g := range groups(p.Steps, false) {
			t.block(g.title(), g.lines())
		}
	}
	if len(p.Refused) > 0 {
		t.line("")
		for _, r := range p.Refused {
			t.line("- %s", code(r.text()))
		}
	}
	if len(p.Notes) > 0 {
		t.line("")
		for _, note := range p.Notes {
			t.line("- note: %s", code(clean(note)))
		}
	}
	return t.err
}

// block writes a title and a diff.
func (t *texter) block(title string, lines []string) {
	t.line("")
	t.line("#### %s", escape(title))
	if len(lines) == 0 {
		return
	}
	fence := "```"
	for strings.Contains(strings.Join(lines, "\n"), fence) {
		fence += "`"
	}
	t.line("%sdiff", fence)
	for _, line := range lines {
		t.line("%s", line)
	}
	t.line("%s", fence)
}

// lines returns a step as a diff.
func (g group) lines() (lines []string) {
	for _, c := range g.Because {
		lines = append(lines, "# "+c.text())
	}
	for _, w := range g.Writes {
		sign := map[string]string{Create: "+", Update: "!", Delete: "-"}[w.Verb]
		lines = append(lines, sign+strings.TrimPrefix(w.title(), signs[w.Verb]))
		lines = append(lines, w.diff()...)
		for _, r := range w.remarks() {
			lines = append(lines, "#   "+r)
		}
	}
	if g.Error != "" {
		lines = append(lines, "- fails: "+clean(g.Error))
	}
	if g.Simulated != "" {
		lines = append(lines, "# simulated: "+clean(g.Simulated))
	}
	if len(g.others) > 0 {
		lines = append(lines, "# "+similar(g.others))
	}
	return lines
}

func (w Write) diff() (lines []string) {
	changes := w.Changes
	if w.Verb == Create {
		changes = withoutIdentity(changes)
	}
	for i, c := range changes {
		if i == maxFields {
			return append(lines, fmt.Sprintf("#   … and %s", count(len(changes)-i, "more field")))
		}
		if w.Verb != Create && c.From != "" {
			lines = append(lines, "-   "+clean(c.Path)+": "+clean(c.From))
		}
		if c.To != "" {
			lines = append(lines, "+   "+clean(c.Path)+": "+clean(c.To))
		}
	}
	return lines
}

func (d Difference) lines(p *Plan) []string {
	lines := Write{Verb: Update, Changes: d.Changes}.diff()
	for _, n := range d.Steps {
		step := p.Steps[n-1]
		lines = append(lines, "# step "+strings.Replace(step.title(), ".", ":", 1))
		for _, c := range step.Because {
			lines = append(lines, "#   "+c.text())
		}
		if step.Simulated != "" {
			lines = append(lines, "#   simulated: "+clean(step.Simulated))
		}
	}
	return lines
}

// code returns a text as a code span.
func code(text string) string {
	return "`" + strings.ReplaceAll(clean(text), "`", "'") + "`"
}

// escape returns a text that Markdown shows as it is.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "<", "&lt;", "[", `\[`, "#",
		`\#`).Replace(clean(text))
}
