package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"

	"kelson.dev/bench/median"
	"kelson.dev/kubernetes/linked"
	"kelson.dev/test/section"
)

// unit formats a figure.
type unit func(float64) string

func byteCount(v float64) string {
	switch {
	case v >= 10<<20:
		return fmt.Sprintf("%.0f MiB", v/(1<<20))
	case v >= 10<<10:
		return fmt.Sprintf("%.0f KiB", v/(1<<10))
	}
	return fmt.Sprintf("%.0f B", v)
}

func seconds(v float64) string {
	if v < 0.1 {
		return fmt.Sprintf("%.2f ms", v*1000)
	}
	return fmt.Sprintf("%.2f s", v)
}

func perSecond(v float64) string { return fmt.Sprintf("%.2f M", v/1e6) }

func number(v float64) string {
	if v == float64(int(v)) {
		return fmt.Sprint(int(v))
	}
	return fmt.Sprintf("%.2f", v)
}

// target is the wanted ratio, and whether it is met.
type target func(theirs, ours float64) (want string, met bool)

func atMost(part float64) target {
	return func(theirs, ours float64) (string, bool) {
		return fmt.Sprintf("≤ %.2f ×", part), ours <= part*theirs
	}
}

func atLeast(times float64) target {
	return func(theirs, ours float64) (string, bool) {
		return fmt.Sprintf("≥ %.0f ×", times), ours >= times*theirs
	}
}

func exactly(v float64) target {
	return func(_, ours float64) (string, bool) { return number(v), ours == v }
}

func below(v float64) target {
	return func(_, ours float64) (string, bool) { return "≤ " + number(v), ours <= v }
}

// table has the results: groups of rows.
type table struct {
	groups  []string
	current string
	rows    map[string][]row
}

type row struct {
	what               string
	theirs, ours       string
	ratio, want, check string
}

// group starts or continues a group.
func (t *table) group(name string) {
	if t.rows == nil {
		t.rows = map[string][]row{}
	}
	if t.current = name; t.rows[name] == nil {
		t.groups = append(t.groups, name)
	}
}

func (t *table) row(what string, u unit, theirs, ours float64, want target) {
	r := row{what: what, theirs: u(theirs), ours: u(ours), ratio: "–"}
	if theirs > 0 {
		r.ratio = ratio(ours / theirs)
	}
	t.add(r, want, theirs, ours)
}

// pairs adds a row that was measured in turns. It judges the median of the turns' ratios, because
// the speed of the machine changes over time, but hardly between the two figures of a turn. want is
// a fraction or multiple of the peer's figure.
func (t *table) pairs(what string, u unit, theirs, ours []float64, want target) {
	var ratios []float64
	for i := range theirs {
		ratios = append(ratios, ours[i]/theirs[i])
	}
	middle := median.Of(ratios)
	t.add(row{what: what, theirs: u(median.Of(theirs)), ours: u(median.Of(ours)), ratio: ratio(middle)}, want, 1, middle)
}

func ratio(v float64) string {
	if v > 0 && v < 0.2 {
		return fmt.Sprintf("%.3f ×", v)
	}
	return fmt.Sprintf("%.2f ×", v)
}

// add judges a row and adds it to the group.
func (t *table) add(r row, want target, theirs, ours float64) {
	r.want = "report"
	if want != nil {
		var met bool
		r.want, met = want(theirs, ours)
		r.check = "missed"
		if met {
			r.check = "met"
		}
	}
	t.rows[t.current] = append(t.rows[t.current], r)
}

func (t *table) print(w io.Writer) {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, g := range t.groups {
		fmt.Fprintf(out, "%s\ttheirs\tours\tratio\ttarget\t\n", g)
		for _, r := range t.rows[g] {
			fmt.Fprintf(out, "  %s\t%s\t%s\t%s\t%s\t%s\n", r.what, r.theirs, r.ours, r.ratio, r.want, r.check)
		}
	}
	_ = out.Flush()
}

// These lines enclose the section of the page.
const (
	sectionBegin = "<!-- written by make bench-operator -->\n"
	sectionEnd   = "<!-- end of what make bench-operator writes -->\n"
)

// write replaces the section of a page.
func (t *table) write(page string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## The operator library\n\n`make bench-operator`, against client-go %s and controller-runtime v0.25.2 (%s/%s, %d processors, %s):\n",
		linked.Libraries, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	for _, g := range t.groups {
		fmt.Fprintf(&b, "\n| %s | theirs | ours | ratio | target | |\n|---|---|---|---|---|---|\n", g)
		for _, r := range t.rows[g] {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", r.what, r.theirs, r.ours, r.ratio, r.want, r.check)
		}
	}
	return section.Replace(page, sectionBegin, sectionEnd, b.String())
}
