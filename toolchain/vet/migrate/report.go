package migrate

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Verdict reports whether a use of a name moves.
type Verdict string

const (
	// Moves means that the use moves unchanged.
	Moves Verdict = "moves"
	// Change means that the use needs the change that the finding describes.
	Change Verdict = "change"
	// Stays means that the use does not move: it keeps working as before, or no longer has an
	// effect.
	Stays Verdict = "stays"
)

// Finding is a verdict about one use of a name.
type Finding struct {
	Verdict Verdict `json:"verdict"`
	// File is relative to the project's directory. Line counts from 1.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Name is the used name, as in "ctrl.NewManager".
	Name string `json:"name"`
	// Advice is the change, or the reason.
	Advice string `json:"advice,omitempty"`
}

// Reconciler is a type with a method Reconcile for controller-runtime.
type Reconciler struct {
	Name string `json:"name"`
	File string `json:"file"`
	Line int    `json:"line"`
	// Findings are about the uses of names in the methods of the reconciler, in the functions,
	// variables and methods of its package that these refer to, and in functions that set it up.
	Findings []Finding `json:"findings"`
}

// Report lists the changes that the move of a project needs.
type Report struct {
	// Module is the project's module path, Runtime its version of controller-runtime.
	Module  string `json:"module"`
	Runtime string `json:"runtime"`
	// Uses is the number of uses of names of controller-runtime, Names that of different names, and
	// Packages that of the project's packages with such uses.
	Uses     int `json:"uses"`
	Names    int `json:"names"`
	Packages int `json:"packages"`
	// Program has the findings other than Moves for moving the whole program.
	Program []Finding `json:"program"`
	// Reconcilers has the findings for moving reconciler by reconciler.
	Reconcilers []Reconciler `json:"reconcilers"`
	// Elsewhere has the findings other than Moves about code that is not a part of a reconciler,
	// such as webhooks and main. It omits tests.
	Elsewhere []Finding `json:"elsewhere"`
}

func (r *Report) sort() {
	sortFindings(r.Program)
	sortFindings(r.Elsewhere)
	slices.SortFunc(r.Reconcilers, func(a, b Reconciler) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	for _, each := range r.Reconcilers {
		sortFindings(each.Findings)
	}
}

func sortFindings(findings []Finding) {
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Name, b.Name))
	})
}

// Count returns the number of findings with a verdict.
func Count(findings []Finding, v Verdict) int {
	n := 0
	for _, f := range findings {
		if f.Verdict == v {
			n++
		}
	}
	return n
}

// Write prints the report as text.
func (r *Report) Write(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s uses controller-runtime %s: %d uses of %d names in %d packages\n", r.Module, r.Runtime, r.Uses,
		r.Names, r.Packages)
	changes, stays := Count(r.Program, Change), Count(r.Program, Stays)
	fmt.Fprintf(b, "\nThe whole program, on adapter.NewManager: %d to change, %d not moved; everything else moves as it is\n", changes, stays)
	writeFindings(b, r.Program)
	fmt.Fprintf(b, "\nReconciler by reconciler: %d found\n", len(r.Reconcilers))
	for _, each := range r.Reconcilers {
		fmt.Fprintf(b, "\n%s:%d: %s: %d move as they are, %d to change, %d not moved\n", each.File, each.Line,
			each.Name,
			Count(each.Findings, Moves), Count(each.Findings, Change), Count(each.Findings, Stays))
		writeFindings(b, grouped(each.Findings))
	}
	if len(r.Elsewhere) > 0 {
		fmt.Fprintf(b, "\nOutside of the reconcilers, when all of them move: %d to change, %d not moved\n",
			Count(r.Elsewhere, Change), Count(r.Elsewhere, Stays))
		writeFindings(b, grouped(r.Elsewhere))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// grouped merges findings with the same name and advice, and drops those without advice.
func grouped(findings []Finding) []Finding {
	type same struct{ name, advice string }
	var all []Finding
	count := map[same]int{}
	for _, f := range findings {
		if f.Advice == "" {
			continue
		}
		key := same{f.Name, f.Advice}
		if count[key]++; count[key] == 1 {
			all = append(all, f)
		}
	}
	for n, f := range all {
		if c := count[same{f.Name, f.Advice}]; c > 1 {
			all[n].Name = fmt.Sprintf("%s (%d times)", f.Name, c)
		}
	}
	return all
}

func writeFindings(b *strings.Builder, findings []Finding) {
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, f := range findings {
		place := ""
		if f.File != "" {
			place = fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", f.Verdict, place, f.Name, f.Advice)
	}
	_ = table.Flush() // to a strings.Builder
}
