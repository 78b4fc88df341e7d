package main

import (
	"fmt"
	"strings"

	"kelson.dev/bench/median"
)

const (
	begin = "<!-- bench/customserver -->\n"
	end   = "<!-- end of bench/customserver -->\n"
)

// row is a figure in the table.
type row struct {
	name   string
	target float64 // the ratio that make bench wants for such a figure; 0: none
	rate   bool    // more is better
}

// rows are the figures in the order of the table.
func rows() []row {
	all := []row{{start, 15, false}, {size, 0, false}, {idle, 5, false}, {created, 0, false}, {read, 0, false},
		{listed, 0, false}, {watched, 0, false}, {loaded, 0, false}, {crowded, 8, false}}
	for _, load := range []struct {
		name   string
		target float64
	}{{loadCreate, 8}, {loadGet, 8}, {loadList, 30}, {loadPatch, 8}, {loadApply, 8}, {loadDelete, 8}, {loadWatch, 5}} {
		all = append(all, row{load.name + perSecond, load.target, true}, row{load.name + apart, load.target, true},
			row{load.name + processor, 0, false})
	}
	return all
}

// report returns the table: the median of each figure, and how much better each side is than the
// first.
func report(sides []side, results []map[string][]float64) string {
	var b strings.Builder
	b.WriteString("| | `make bench` wants |")
	for i, s := range sides {
		fmt.Fprintf(&b, " %s |", s.name)
		if i > 0 {
			b.WriteString(" better |")
		}
	}
	b.WriteString("\n|---|--:|" + strings.Repeat("--:|", 2*len(sides)-1) + "\n")
	for _, r := range rows() {
		wants := ""
		if r.target > 0 {
			wants = fmt.Sprintf("%.0f ×", r.target)
		}
		fmt.Fprintf(&b, "| %s | %s |", r.name, wants)
		var peer float64
		for i := range sides {
			values := results[i][r.name]
			if values == nil { // not measured for this side
				b.WriteString(" |")
				if i > 0 {
					b.WriteString(" |")
				}
				continue
			}
			value := median.Of(values)
			fmt.Fprintf(&b, " %s |", number(value))
			if i == 0 {
				peer = value
				continue
			}
			better := peer / value
			if r.rate {
				better = value / peer
			}
			mark := ""
			switch {
			case r.target > 0 && better >= r.target:
				mark = " ✓"
			case r.target > 0:
				mark = " ✗"
			}
			fmt.Fprintf(&b, " %.1f ×%s |", better, mark)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// number formats a figure with four digits.
func number(v float64) string {
	switch {
	case v >= 1000:
		digits := fmt.Sprintf("%.0f", v)
		for i := len(digits) - 3; i > 0; i -= 3 {
			digits = digits[:i] + "," + digits[i:]
		}
		return digits
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
