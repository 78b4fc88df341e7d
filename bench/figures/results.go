package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// results has the figures of all sides.
type results struct {
	table   *table
	figures [columns]map[string]figure
	took    time.Duration
}

func (r *results) set(column int, id string, f figure) {
	if r.figures[column] == nil {
		r.figures[column] = map[string]figure{}
	}
	r.figures[column][id] = f
	for _, row := range r.table.rows {
		if row.id != id {
			continue
		}
		fmt.Fprintf(os.Stderr, "%-40s %-22s %s", r.table.sides[column].name, id, row.unit.show(f))
		if f.cpu > 0 {
			fmt.Fprintf(os.Stderr, ", server %s of processor time each", f.cpu.Round(100*time.Nanosecond))
		}
		if f.client > 0 {
			fmt.Fprintf(os.Stderr, ", client %s", f.client.Round(100*time.Nanosecond))
		}
		if f.p99 > 0 {
			fmt.Fprintf(os.Stderr, ", p99 %s", f.p99.Round(10*time.Microsecond))
		}
		if f.failure != nil {
			fmt.Fprintf(os.Stderr, ": %s", f.failure)
		}
		fmt.Fprintln(os.Stderr)
	}
}

// cells returns the cells of a row, starting with its name.
func (r *results) cells(row row) []string {
	cells := []string{row.what}
	if row.target > 0 {
		cells = append(cells, fmt.Sprintf("%.0f ×", row.target))
	} else {
		cells = append(cells, "")
	}
	for i, s := range r.table.sides {
		f := r.figures[i][row.id]
		cells = append(cells, row.unit.show(f))
		if !s.kelson {
			continue
		}
		ratio := row.unit.ratio(r.figures[peerOf(i)][row.id], f)
		target := r.table.target(row, i)
		switch {
		case ratio == 0:
			cells = append(cells, "")
		case target == 0:
			cells = append(cells, showRatio(ratio))
		case ratio >= target:
			cells = append(cells, showRatio(ratio)+" ✓")
		default:
			cells = append(cells, showRatio(ratio)+" ✗")
		}
	}
	return cells
}

func showRatio(ratio float64) string {
	if ratio < 10 {
		return fmt.Sprintf("%.1f ×", ratio)
	}
	return thousands(ratio) + " ×"
}

func (r *results) empty(row row) bool {
	for i := range r.table.sides {
		if f := r.figures[i][row.id]; f.measured || f.failure != nil {
			return false
		}
	}
	return true
}

// failures lists why rows have no value. Rows of a side that failed together share a line.
func (r *results) failures() (lines []string) {
	for i, s := range r.table.sides {
		ids := map[string][]string{}
		var whys []string
		for _, row := range r.table.rows {
			if err := r.figures[i][row.id].failure; err != nil {
				why := strings.Join(strings.Fields(err.Error()), " ")
				if ids[why] == nil {
					whys = append(whys, why)
				}
				ids[why] = append(ids[why], row.id)
			}
		}
		for _, why := range whys {
			lines = append(lines, fmt.Sprintf("Failed: %s of %s: %s", strings.Join(ids[why], ", "), s.name, why))
		}
	}
	return lines
}

// whole reports whether all of Kelson's rows were measured.
func (r *results) whole() bool {
	for i, s := range r.table.sides {
		for _, f := range r.figures[i] {
			if s.kelson && f.failure != nil {
				return false
			}
		}
	}
	return true
}

func (r *results) print(to io.Writer) {
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, strings.Join(r.table.headings(), "\t"))
	for _, row := range r.table.rows {
		if !r.empty(row) {
			fmt.Fprintln(out, strings.Join(r.cells(row), "\t"))
		}
	}
	_ = out.Flush()
	for _, line := range r.failures() {
		fmt.Fprintln(to, line)
	}
}
