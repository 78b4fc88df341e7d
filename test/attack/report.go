package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"kelson.dev/test/section"
)

// This program writes the part of the page between these lines.
const (
	partBegin = "<!-- written by make attack -->\n"
	partEnd   = "<!-- end of what make attack writes -->\n"
)

// report has all measurements.
type report struct {
	all            []*measurement
	alone          bool     // kube-apiserver was not built
	skipped        []string // for lack of time
	impossible     []string // on this machine, with the reasons
	took           time.Duration
	load           string // of the machine before the run, as in /proc/loadavg
	seconds, after int
}

func (r *report) add(a attack, s side) *measurement {
	m := &measurement{attack: a, side: s}
	r.all = append(r.all, m)
	return m
}

// find returns the measurement of an attack on a side, or nil.
func (r *report) find(name string, s side) *measurement {
	for _, m := range r.all {
		if m.attack.name == name && m.side == s {
			return m
		}
	}
	return nil
}

// missed returns the criteria that kelson missed, each with its attack.
func (r *report) missed() (missed []string) {
	for _, m := range r.all {
		if m.side == kelson {
			for _, miss := range m.misses(r.find(m.attack.name, peer)) {
				missed = append(missed, m.attack.name+": "+miss)
			}
		}
	}
	return missed
}

// summary is printed when an attack ends.
func (m *measurement) summary() string {
	return fmt.Sprintf("probes ≤ %s (%d of %d failed), tenant %d of %d failed, p99 %s → %s, memory %s → %s, %.1f processors; %s",
		short(m.probes.slowest()), m.probes.failed, m.probes.requests(), m.tenant.failed, m.tenant.requests(),
		short(m.baseline),
		short(m.tenant.p99()), mb(m.before), mb(m.worst), m.busiest, m.note)
}

func (r *report) print(w io.Writer, missed []string) {
	fmt.Fprintln(w)
	for _, m := range r.all {
		fmt.Fprintln(w, strings.Join(m.cells(r.find(m.attack.name, peer)), " | "))
	}
	fmt.Fprintf(w, "\n%s\n", r.took.Round(time.Second))
	for _, skipped := range r.skipped {
		fmt.Fprintln(w, "not measured, for lack of time: "+skipped)
	}
	for _, impossible := range r.impossible {
		fmt.Fprintln(w, "skipped: "+impossible)
	}
	for _, miss := range missed {
		fmt.Fprintln(w, "missed: "+miss)
	}
}

var heads = []string{"attack", "server", "slowest probe", "tenant: failed", "tenant: p99, before → during", "limit",
	"memory: before → worst → a minute after",
	"processors: worst second → a minute after"}

// cells returns the row of a measurement. other is as in misses.
func (m *measurement) cells(other *measurement) []string {
	cells := []string{m.attack.what, string(m.side)}
	if m.tenant == nil {
		return append(cells, "", "", "", "", "", "")
	}
	probes := short(m.probes.slowest())
	if m.probes.failed > 0 {
		probes += fmt.Sprintf(", %d of %d failed", m.probes.failed, m.probes.requests())
	}
	failed := "0"
	if m.tenant.failed > 0 {
		failed = fmt.Sprintf("%.1f %%", 100*float64(m.tenant.failed)/float64(m.tenant.requests()))
	}
	after, cpu := mb(m.after), fmt.Sprintf("%.2f", m.afterCPU)
	if m.guarded {
		after, cpu = "ended by this program", "–"
	} else if m.lost != nil {
		after, cpu = "the server ended", "–"
	}
	limit := short(m.p99Limit(other))
	if m.attack.control || m.side == peer {
		limit = "–"
	}
	return append(cells, probes, failed, short(m.baseline)+" → "+short(m.tenant.p99()), limit,
		mb(m.before)+" → "+mb(m.worst)+" → "+after,
		fmt.Sprintf("%.1f → %s", m.busiest, cpu))
}

// markdown returns the part of the page.
func (r *report) markdown(missed []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d processors, %s: %d seconds per attack.", time.Now().UTC().Format("2 January 2006"),
		runtime.NumCPU(), runtime.GOARCH, r.seconds)
	if r.load != "" {
		fmt.Fprintf(&b, " The machine's load average was %s before.", r.load)
	}
	if r.alone {
		b.WriteString(" kube-apiserver was not built.")
	}
	if len(r.skipped) > 0 {
		fmt.Fprintf(&b, " Not measured, for lack of time: %s.", strings.Join(r.skipped, ", "))
	}
	for _, impossible := range r.impossible {
		fmt.Fprintf(&b, " Skipped: %s.", impossible)
	}
	fmt.Fprintf(&b, "\n\n| %s |\n|---|---%s|\n", strings.Join(heads, " | "), strings.Repeat("|--:", len(heads)-2))
	for _, a := range attacks {
		for _, s := range []side{kelson, peer} {
			if m := r.find(a.name, s); m != nil {
				fmt.Fprintln(&b, "| "+strings.Join(m.cells(r.find(a.name, peer)), " | ")+" |")
			}
		}
	}
	if len(missed) == 0 {
		b.WriteString("\nkelson met every criterion.\n")
		return b.String()
	}
	b.WriteString("\nkelson missed:\n\n")
	for _, miss := range missed {
		fmt.Fprintln(&b, "- "+strings.ReplaceAll(miss, "\n", " "))
	}
	return b.String()
}

// writeDocs replaces the part of the page.
func (r *report) writeDocs(name string, missed []string) error {
	return section.Replace(name, partBegin, partEnd, "\n"+r.markdown(missed)+"\n")
}
