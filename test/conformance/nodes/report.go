//go:build linux

package main

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// result is the newest result of one spec; a spec that has passed once counts as passed.
type result struct {
	Name    string
	State   string
	Message string
	Runs    int // number of runs of the spec
}

type results []result

const (
	passed = "passed"
	notRun = "not run"
)

// pattern returns a regular expression that matches a spec by its name in upstream's list, which
// lacks the labels that the suite puts between the words.
func pattern(name string) string {
	return strings.ReplaceAll(regexp.QuoteMeta(name), " ", `( \[[A-Za-z:]+\])* `)
}

// reported matches Ginkgo's output at the end of a spec: outcome, duration, and name with labels.
var reported = regexp.MustCompile(`^[•S!](?: \[([A-Z ]+)\])? \[([0-9.]+) seconds\]\n(.*)\n`)

// parseLog returns the results in the output of one or more runs of the suite.
func parseLog(text string) (ran []result) {
	const separator, end, failure = "------------------------------\n", "  << Timeline\n", "  ["
	for part := range strings.SplitSeq(text, separator) {
		m := reported.FindStringSubmatch(part)
		if m == nil {
			continue
		}
		r := result{Name: strings.ReplaceAll(m[3], " [It]", ""), State: strings.ToLower(m[1])}
		if r.State == "" {
			r.State = passed
		}
		if _, after, found := strings.Cut(part, end); found {
			if at := strings.Index(after, failure); at >= 0 {
				r.Message = after[at+len(failure):]
				_, r.Message, _ = strings.Cut(r.Message, "] ")
			}
		}
		ran = append(ran, r)
	}
	return ran
}

// readResults returns the results of specs in the log to which the suite's output is appended.
func readResults(file string, specs []string) (results, error) {
	content, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	ran := parseLog(string(content))
	all := make(results, len(specs))
	for i, name := range specs {
		all[i] = result{Name: name, State: notRun}
		match := regexp.MustCompile(pattern(name))
		for _, r := range ran {
			if !match.MatchString(r.Name) {
				continue
			}
			runs := all[i].Runs + 1
			if all[i].State != passed {
				all[i] = r
				all[i].Name = name
			}
			all[i].Runs = runs
		}
	}
	return all, nil
}

func (rs results) counts() string {
	n := map[string]int{}
	for _, r := range rs {
		n[r.State]++
	}
	counts := []string{fmt.Sprintf("%d passed", n[passed])}
	delete(n, passed)
	for _, state := range slices.Sorted(maps.Keys(n)) {
		counts = append(counts, fmt.Sprintf("%d %s", n[state], state))
	}
	return fmt.Sprintf("%d specs: %s", len(rs), strings.Join(counts, ", "))
}

// reasonList has the reasons why specs do not pass: a pattern of names, a tab, and the reason.
//
//go:embed reasons.txt
var reasonList string

// reason returns why a spec does not pass, or the spec's own message.
func (r result) reason() string {
	for line := range strings.Lines(reasonList) {
		name, why, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if name != "" && regexp.MustCompile(name).MatchString(r.Name) {
			return why
		}
	}
	message := []rune(strings.Join(strings.Fields(r.Message), " "))
	if len(message) > 240 {
		message = append(message[:240], '…')
	}
	return "unexpected: " + string(message)
}

var group = regexp.MustCompile(`^\[(sig-[a-z-]+)\] `)

// markdown writes the section of the documentation.
func (rs results) markdown(kubernetes string) string {
	type count struct{ all, passed int }
	groups := map[string]count{}
	var again int
	for _, r := range rs {
		g := group.FindStringSubmatch(r.Name)[1]
		c := groups[g]
		c.all++
		if r.State == passed {
			c.passed++
			if r.Runs > 1 {
				again++
			}
		}
		groups[g] = c
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## Kubernetes: all conformance specs, with nodes\n\n")
	fmt.Fprintf(&b, "All specs with `[Conformance]` of Kubernetes %s, unchanged, against `kelson serve --node=containers` and a second node that\n", kubernetes)
	fmt.Fprintf(&b, "joined with `kelson-node join`: Kubernetes' kubelet and kube-proxy with containerd. `make conformance-nodes` builds the images that the\n")
	fmt.Fprintf(&b, "specs deploy from Kubernetes' sources and Debian's packages, runs the specs in namespaces of their own, and writes this section.\n\n")
	fmt.Fprintf(&b, "**%s.**", rs.counts())
	if again > 0 {
		fmt.Fprintf(&b, " %d of those that passed needed more than one run.\n", again)
		fmt.Fprintf(&b, "The command keeps results in a folder (`-work`). It does not run specs again that have passed there, even if programs or images\n")
		fmt.Fprintf(&b, "have changed since; `-again` runs all.")
	}
	fmt.Fprintf(&b, "\n\n| group | specs | passed |\n|---|--:|--:|\n")
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		fmt.Fprintf(&b, "| %s | %d | %d |\n", g, groups[g].all, groups[g].passed)
	}
	var others strings.Builder
	for _, r := range rs {
		if r.State != passed {
			fmt.Fprintf(&others, "| %s | %s | %s |\n", strings.TrimSuffix(r.Name, " [Conformance]"), r.State,
				strings.ReplaceAll(r.reason(), "|", `\|`))
		}
	}
	if others.Len() > 0 {
		fmt.Fprintf(&b, "\nThe others:\n\n| spec | result | why |\n|---|---|---|\n%s", others.String())
	}
	return b.String()
}

const sectionBegin, sectionEnd = "<!-- nodes: written by test/conformance/nodes -->\n", "<!-- end of nodes -->\n"

// writeSection replaces or appends this command's section of the page and leaves the rest
// unchanged.
func writeSection(page, section string) error {
	data, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(data), sectionBegin)
	after := ""
	if found {
		if _, after, found = strings.Cut(rest, sectionEnd); !found {
			return fmt.Errorf("%s: no %q after %q", page, strings.TrimSpace(sectionEnd),
				strings.TrimSpace(sectionBegin))
		}
	} else {
		before = strings.TrimRight(before, "\n") + "\n\n"
	}
	return os.WriteFile(page, []byte(before+sectionBegin+section+sectionEnd+after), 0o644)
}
