package main

import (
	"fmt"
	"strings"
	"time"
)

const (
	begin = "<!-- bench/dropin -->\n"
	end   = "<!-- end of bench/dropin -->\n"
)

// row is a row of the table.
type row struct {
	what   string
	value  func(figures) float64 // milliseconds or mebibytes
	target float64               // the maximum for kelson; 0: none
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

var rows = []row{
	{"envtest's Start, ms", func(f figures) float64 { return milliseconds(f.start) }, 0},
	{"… of which the programs' own time", func(f figures) float64 { return milliseconds(f.ownStart) }, 60},
	{"envtest's Stop, ms", func(f figures) float64 { return milliseconds(f.stop) }, 0},
	{"… of which the programs' own time", func(f figures) float64 { return milliseconds(f.ownStop) }, 30},
	{"resident memory of both when idle, MiB", func(f figures) float64 { return mebibytes(f.idle.total()) }, 45},
	{"… of which etcd", func(f figures) float64 { return mebibytes(f.idle.etcd) }, 0},
	{"resident memory of both after 20,000 objects, MiB", func(f figures) float64 {
		return mebibytes(f.full.total())
	}, 130},
	{"… of which etcd", func(f figures) float64 { return mebibytes(f.full.etcd) }, 0},
}

// report returns the table, with an empty line after it.
func report(sides []side, all []figures) string {
	var b strings.Builder
	b.WriteString("| | target |")
	for _, s := range sides {
		b.WriteString(" " + s.name + " |")
	}
	b.WriteString("\n|---|--:|" + strings.Repeat("--:|", len(sides)) + "\n")
	for _, r := range rows {
		target := ""
		if r.target > 0 {
			target = fmt.Sprintf("≤ %g", r.target)
		}
		fmt.Fprintf(&b, "| %s | %s |", r.what, target)
		for i, f := range all {
			mark := ""
			if i == 0 && r.target > 0 {
				mark = " ✗"
				if r.value(f) <= r.target {
					mark = " ✓"
				}
			}
			fmt.Fprintf(&b, " %.0f%s |", r.value(f), mark)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	return b.String()
}
