package main

import (
	"fmt"
	"strings"
	"time"
)

const (
	begin = "<!-- generators: written by make bench-generators -->\n"
	end   = "<!-- end of generators -->\n"
)

// text returns the text of the page's section.
func text(f figures, rounds, processors int, load float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, `## Generators

A project with three kinds, each with a pod template: definitions, roles and deep copies. controller-gen v0.23 and Kelson alternately, medians of %d;
%d processors. `+"`make bench-generators`"+` runs it. Both are complete processes with warm caches, except Kelson's edit, which `+"`kelson generate --watch`"+`
handles: the time is from the write of the file to the change of the definition, and includes 10 ms of waiting for the editor to finish.
`, rounds, processors)
	if load > float64(processors)+1 {
		fmt.Fprintf(&b, "Other programs kept the machine busy (a load of %.0f), so CPU time is the relevant figure.\n",
			load)
	}
	b.WriteString("\n| | controller-gen | Kelson | |\n|---|---|---|---|\n")
	row := func(what string, theirs, ours time.Duration) {
		if ours <= 0 {
			fmt.Fprintf(&b, "| %s | %v | less than a clock tick of 10 ms | |\n", what, round(theirs))
			return
		}
		fmt.Fprintf(&b, "| %s | %v | %v | 1/%.1f |\n", what, round(theirs), round(ours), float64(theirs)/float64(ours))
	}
	row("a run, on the clock", f.runTheirs.clock, f.runOurs.clock)
	row("a run, processors' time", f.runTheirs.processor, f.runOurs.processor)
	row("an edit of one file, on the clock", f.editTheirs.clock, f.editOurs.clock)
	row("an edit of one file, processors' time", f.editTheirs.processor, f.editOurs.processor)
	return b.String()
}

func round(d time.Duration) time.Duration {
	if d < 100*time.Millisecond {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
