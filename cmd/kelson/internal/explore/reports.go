package explore

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"kelson.dev/lab/explore"
)

// reports writes the files of --junit, --sarif and --markdown.
func (p *printer) reports(m explore.Message) error {
	if p.junit != "" {
		if err := p.writeJUnit(m); err != nil {
			return fmt.Errorf("write the report of JUnit: %w", err)
		}
	}
	if p.sarif != "" {
		if err := p.writeSARIF(m); err != nil {
			return fmt.Errorf("write the report in SARIF: %w", err)
		}
	}
	if p.markdown != "" {
		if err := os.WriteFile(p.markdown, []byte(p.markdownText(m)), 0o644); err != nil {
			return fmt.Errorf("write the report in Markdown: %w", err)
		}
	}
	return nil
}

// junitSuite is a test suite in the format of JUnit. A case is an alarm, the other plans together,
// a kind of fault that was not tried, or the error with which the exploration has ended. Out has
// the remarks.
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
	Out      string      `xml:"system-out,omitempty"`
}

type junitCase struct {
	Class   string       `xml:"classname,attr"`
	Name    string       `xml:"name,attr"`
	Failure *junitResult `xml:"failure"`
	Error   *junitResult `xml:"error"`
	Skipped *junitResult `xml:"skipped"`
}

// remark is a text about an exploration that is not an alarm, with a level of SARIF.
type remark struct{ level, text string }

// remarks returns what is to be noticed about an exploration beside its alarms. NotTried is not
// among it.
func remarks(r *explore.Report) (all []remark) {
	if r == nil {
		return nil
	}
	add := func(level, text string) { all = append(all, remark{level, text}) }
	for _, w := range r.Warnings {
		add("warning", w)
	}
	for _, n := range r.Notes() {
		add("warning", n)
	}
	for _, e := range r.External {
		if text := fmt.Sprintf("%s: %d attempts", e.Address, e.Attempts); e.Allowed {
			add("note", "the operator used another system or program: "+text)
		} else {
			add("warning", "the operator tried to use another system or program, and failed: "+text)
		}
	}
	for _, v := range r.Varying {
		add("note", "not compared, because it differs without any fault: "+v)
	}
	for _, a := range r.Unconfirmed {
		add("note", fmt.Sprintf("not confirmed: %s (%s) in %d of %d further runs of: %s", a.What, a.Oracle, a.Seen, a.Runs, a.Plan))
	}
	return all
}

type junitResult struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

func (p *printer) writeJUnit(m explore.Message) error {
	const class = "kelson explore"
	suite := junitSuite{Name: class, Failures: len(p.failures), Time: "0"}
	for _, f := range p.failures {
		text := f.Detail + "\nreplay: " + p.replay(f.Plan)
		suite.Cases = append(suite.Cases, junitCase{Class: class, Name: f.Plan,
			Failure: &junitResult{Message: f.What, Type: f.Oracle, Text: printableXML(text)}})
	}
	if r := m.Report; r != nil {
		suite.Time = fmt.Sprintf("%.3f", r.Took.Seconds())
		if plans := r.Plans - len(p.failures); plans > 0 {
			suite.Cases = append(suite.Cases, junitCase{Class: class, Name: fmt.Sprintf("%d other plans", plans)})
		}
		for _, n := range r.NotTried {
			suite.Skipped++
			suite.Cases = append(suite.Cases, junitCase{Class: class, Name: string(n.Kind),
				Skipped: &junitResult{Message: printableXML(n.Reason)}})
		}
	}
	if p.err != "" {
		suite.Errors++
		suite.Cases = append(suite.Cases, junitCase{Class: class, Name: "the exploration",
			Error: &junitResult{Message: "the operator could not be explored", Text: printableXML(p.err)}})
	}
	var lines []string
	for _, r := range remarks(m.Report) {
		lines = append(lines, r.level+": "+r.text)
	}
	suite.Out = printableXML(strings.Join(lines, "\n"))
	suite.Tests = len(suite.Cases)
	data, err := xml.MarshalIndent(suite, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(p.junit, append([]byte(xml.Header), append(data, '\n')...), 0o644)
}

// printableXML replaces characters that XML does not allow.
func printableXML(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' {
			return '\uFFFD'
		}
		return r
	}, text)
}

// writeSARIF writes the alarms as results. Rules are oracles. Alarms are about the behavior of the
// program, so each result is at the first line of the project's go.mod. The error of an
// exploration, the kinds of faults that were not tried, and remarks are notifications.
func (p *printer) writeSARIF(m explore.Message) error {
	type object = map[string]any
	text := func(s string) object { return object{"text": s} }
	rules, results := []object{}, []object{}
	var ids []string
	for _, f := range p.failures {
		if !slices.Contains(ids, f.Oracle) {
			ids = append(ids, f.Oracle)
			rules = append(rules, object{"id": f.Oracle, "shortDescription": text(f.What)})
		}
		results = append(results, object{
			"ruleId": f.Oracle, "level": "error", "message": text(f.Finding + "\nreplay: " + p.replay(f.Plan)),
			"partialFingerprints": object{"plan/v1": f.Plan},
			"locations": []object{{
				"physicalLocation": object{"artifactLocation": object{"uri": path.Join(p.folder, "go.mod")},
					"region": object{"startLine": 1}},
				"logicalLocations": []object{{"fullyQualifiedName": f.Plan}},
			}},
		})
	}
	notifications := []object{}
	notify := func(level, s string) {
		notifications = append(notifications, object{"level": level, "message": text(s)})
	}
	if p.err != "" {
		notify("error", p.err)
	}
	for _, r := range remarks(m.Report) {
		notify(r.level, r.text)
	}
	if m.Report != nil {
		for _, n := range m.Report.NotTried {
			notify("note", fmt.Sprintf("not tried: %s: %s", n.Kind, n.Reason))
		}
	}
	log := object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{"tool": object{"driver": object{"name": "kelson explore", "rules": rules}},
			"invocations": []object{{"executionSuccessful": p.err == "", "toolExecutionNotifications": notifications}},
			"results":     results}},
	}
	data, err := json.MarshalIndent(log, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(p.sarif, append(data, '\n'), 0o644)
}

// maxMarkdownAlarms bounds the alarms in Markdown, and maxMarkdownSteps the steps of each: GitHub
// shows at most a megabyte of a summary.
const (
	maxMarkdownAlarms = 20
	maxMarkdownSteps  = 40
)

// markdownText is the report for the summary of a CI job, or for a comment of a code review.
func (p *printer) markdownText(m explore.Message) string {
	var b strings.Builder
	switch {
	case p.err != "":
		fmt.Fprintf(&b, "### Exploration: it ended with an error\n\n%s", fenced("text", p.err))
	case len(p.failures) == 0:
		b.WriteString("### Exploration: no alarms\n")
	case len(p.failures) == 1:
		b.WriteString("### Exploration: 1 alarm\n")
	default:
		fmt.Fprintf(&b, "### Exploration: %d alarms\n", len(p.failures))
	}
	for i, f := range p.failures {
		if i == maxMarkdownAlarms {
			fmt.Fprintf(&b, "\n%d more alarms are in the other reports.\n", len(p.failures)-i)
			break
		}
		fmt.Fprintf(&b, "\n#### %s (%s)\n\n%s", f.What, f.Oracle,
			fenced("text", f.Detail+"\nfaults: "+f.Plan+"\nreplay: "+p.replay(f.Plan)))
		if f.SameAs != "" {
			fmt.Fprintf(&b, "\nProbably the same cause as an earlier alarm:\n\n%s", fenced("text", f.SameAs))
		}
		if len(f.Steps) > 0 {
			fmt.Fprintf(&b, "\n<details><summary>What happened</summary>\n\n%s\n</details>\n",
				fenced("text", strings.Join(aroundFault(f.Steps), "\n")))
		}
	}
	if m.Report != nil {
		fmt.Fprintf(&b, "\n<details><summary>What was explored</summary>\n\n%s\n</details>\n", fenced("text", m.Text))
	}
	return b.String()
}

// aroundFault returns the steps around the first fault.
func aroundFault(steps []string) []string {
	first := max(0, slices.IndexFunc(steps, func(s string) bool { return strings.HasPrefix(s, "FAULT") })-6)
	return steps[first:min(len(steps), first+maxMarkdownSteps)]
}

// fenced returns a text as a block of code, whatever it contains.
func fenced(language, text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + printableXML(text) + "\n" + fence + "\n"
}
