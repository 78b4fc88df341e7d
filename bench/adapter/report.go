package main

import (
	"fmt"
	"strings"

	"kelson.dev/bench/median"
)

// rows are the figures in the table.
var rows = []struct {
	name   string
	value  func(figures) float64
	format string
}{
	{"resident memory, MiB", func(f figures) float64 { return f.memory }, "%.0f"},
	{"peak of resident memory, MiB", func(f figures) float64 { return f.peak }, "%.0f"},
	{"CPU, seconds", func(f figures) float64 { return f.cpu }, "%.2f"},
	{"requests that read", func(f figures) float64 { return f.reads }, "%.0f"},
	{"requests that write", func(f figures) float64 { return f.writes }, "%.0f"},
	{"reconciles", func(f figures) float64 { return f.reconciles }, "%.0f"},
	{"of these, with an error", func(f figures) float64 { return f.failed }, "%.0f"},
	{"seconds to the last reconcile", func(f figures) float64 { return f.seconds }, "%.1f"},
}

// report returns the table of medians, with an empty line after it.
func report(w workload, results map[string][]figures) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "| %s, %d %s | on controller-runtime | on the adapter |\n|---|--:|--:|\n", w.title, w.count, w.noun)
	for _, phase := range []string{"created", "restarted"} {
		for _, row := range rows {
			fmt.Fprintf(b, "| %s: %s |", phase, row.name)
			for _, side := range sides {
				fmt.Fprintf(b, " "+row.format+" |", median.By(results[side+" "+phase], row.value))
			}
			b.WriteString("\n")
		}
	}
	b.WriteString("\n")
	return b.String()
}

const (
	begin = "<!-- bench/adapter -->\n"
	end   = "<!-- end of bench/adapter -->\n"

	introduction = `## A whole program on the adapter

Programs of other projects, built twice: with ` + "`ctrl.NewManager`, and with `adapter.NewManager`" + ` instead. In the rows "created" the program runs while
the objects are created; in the rows "restarted" it starts with all of them. ` + "`make bench-adapter`" + ` writes these tables; the values are medians.

`
)
