package main

import (
	_ "embed"
	"encoding/xml"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// result is the result of one spec.
type result struct {
	name    string
	outcome outcome
	reason  string // why the spec failed, in one line
}

type outcome string

const (
	passed  outcome = "passed"
	failed  outcome = "failed"
	skipped outcome = "skipped"
	notRun  outcome = "not run" // not in the suite, or the run ended before the spec
)

type results []result

// junit is the part of the suite's report that this command reads.
type junit struct {
	Cases []struct {
		Name    string `xml:"name,attr"`
		Status  string `xml:"status,attr"`
		Failure struct {
			Message string `xml:"message,attr"`
		} `xml:"failure"`
		Error struct {
			Message string `xml:"message,attr"`
		} `xml:"error"`
	} `xml:"testsuite>testcase"`
}

// readReport finds a spec in a report.
func readReport(file, name string) (result, error) {
	r := result{name: name, outcome: notRun}
	data, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	var report junit
	if err := xml.Unmarshal(data, &report); err != nil {
		return r, fmt.Errorf("%s: %w", file, err)
	}
	match := regexp.MustCompile(focus(name))
	for _, c := range report.Cases {
		if !match.MatchString(c.Name) {
			continue
		}
		switch c.Status {
		case "passed":
			r.outcome = passed
		case "skipped":
			r.outcome = skipped
		default:
			r.outcome, r.reason = failed, oneLine(c.Failure.Message+c.Error.Message)
		}
	}
	return r, nil
}

// focus returns a pattern that matches a spec by name. Upstream's list of names lacks two labels
// that the suite puts between the words.
func focus(name string) string {
	return strings.ReplaceAll(regexp.QuoteMeta(name), " ", `( \[(Serial|Slow)\])* `)
}

var spaces = regexp.MustCompile(`\s+`)

func oneLine(message string) string {
	message = strings.TrimSpace(spaces.ReplaceAllString(message, " "))
	if r := []rune(message); len(r) > 240 {
		message = string(r[:240]) + "…"
	}
	return message
}

func (rs results) withOutcome(o outcome) results {
	return slices.DeleteFunc(slices.Clone(rs), func(r result) bool { return r.outcome != o })
}

func (rs results) counts() string {
	var counts []string
	for _, o := range []outcome{passed, failed, skipped, notRun} {
		if n := len(rs.withOutcome(o)); n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, o))
		}
	}
	return fmt.Sprintf("%d specs: %s", len(rs), strings.Join(counts, ", "))
}

// knownList has the known gaps: a pattern of names, a tab, and why those specs fail.
//
//go:embed known.txt
var knownList string

// known returns why a failed spec is known to fail, or "".
func known(name string) string {
	for line := range strings.Lines(knownList) {
		pattern, why, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if regexp.MustCompile(pattern).MatchString(name) {
			return why
		}
	}
	return ""
}

func (r result) String() string {
	s := fmt.Sprintf("%-8s %s", r.outcome, short(r.name))
	if r.reason != "" {
		s += "\n         " + r.reason
	}
	return s
}

// markdown writes the section of the documentation. kubernetes is the version of the specs.
func (rs results) markdown(kubernetes string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## Kubernetes: sig-api-machinery\n\n")
	fmt.Fprintf(&b, "Kubernetes' own conformance specs (`k8s.io/kubernetes/test/e2e/apimachinery` %s, unchanged) against `kelson serve --in-memory`:\n", kubernetes)
	fmt.Fprintf(&b, "those of sig-api-machinery that need no running pod. In three groups, a backend replaces the image that the spec\n")
	fmt.Fprintf(&b, "deploys: agnhost's own handlers of admission and conversion webhooks, in the process of the runner, and Kubernetes' sample API server\n")
	fmt.Fprintf(&b, "with an etcd, as processes ([backends.go](../../test/conformance/backends.go)). Run them with `make conformance`.\n\n")
	fmt.Fprintf(&b, "**%s.**\n", rs.counts())
	fmt.Fprintf(&b, "\n| group | specs | passed |\n|---|--:|--:|\n")
	specs, ok := map[string]int{}, map[string]int{}
	for _, r := range rs {
		specs[r.group()]++
		if r.outcome == passed {
			ok[r.group()]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		fmt.Fprintf(&b, "| %s | %d | %d |\n", name, specs[name], ok[name])
	}
	for _, o := range []outcome{failed, skipped, notRun} {
		group := rs.withOutcome(o)
		if len(group) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n\n", strings.ToUpper(string(o[:1]))+string(o[1:]))
		if o == failed {
			fmt.Fprintf(&b, "| spec | why |\n|---|---|\n")
			for _, r := range group {
				why := known(r.name)
				if why == "" {
					why = "unexpected: " + r.reason
				}
				fmt.Fprintf(&b, "| %s | %s |\n", short(r.name), strings.ReplaceAll(why, "|", `\|`))
			}
			continue
		}
		for _, r := range group {
			fmt.Fprintf(&b, "- %s\n", short(r.name))
		}
	}
	return b.String()
}

// group returns the words at the beginning of a spec's name that name what it tests, such as
// Watchers.
func (r result) group() string {
	name, _, _ := strings.Cut(short(r.name), " [")
	for _, verb := range []string{" should ", " works ", " removes ", " updates ", " MUST ", " Should ", " CRUD Tests"} {
		name, _, _ = strings.Cut(name, verb)
	}
	return name
}

// short returns a name without the parts that all names share.
func short(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(name, "[sig-api-machinery] "), " [Conformance]")
}

const sectionBegin, sectionEnd = "<!-- sig-api-machinery: written by test/conformance -->\n",
	"<!-- end of sig-api-machinery -->\n"

// writeSection replaces or appends this command's section of the page and leaves the rest
// unchanged.
func writeSection(page, section string) error {
	data, err := os.ReadFile(page)
	if os.IsNotExist(err) {
		data = []byte("# Conformance\n\n")
	} else if err != nil {
		return err
	}
	text := string(data)
	before, rest, found := strings.Cut(text, sectionBegin)
	after := ""
	if found {
		if _, after, found = strings.Cut(rest, sectionEnd); !found {
			return fmt.Errorf("%s: no %q after %q", page, strings.TrimSpace(sectionEnd),
				strings.TrimSpace(sectionBegin))
		}
	} else if before = strings.TrimRight(before, "\n") + "\n\n"; before == "\n\n" {
		before = ""
	}
	return os.WriteFile(page, []byte(before+sectionBegin+section+sectionEnd+after), 0o644)
}
