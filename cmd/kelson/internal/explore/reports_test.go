package explore

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kelson.dev/cmd/kelson/internal/exit"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/agent"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/explored"
)

// messages are those of an exploration with two alarms.
func messages() []explore.Message {
	const plan = "kill-after create secrets default/web-key #1"
	return []explore.Message{
		{Kind: "progress", Text: "explored 3 plans"},
		{Kind: "alarm", Plan: plan, Finding: "another end state (O1)\n  secrets: is missing",
			Failure: &explored.Failure{Oracle: "O1", What: "another end state", Detail: "secrets <a>: is missing\x01",
				Finding: "another end state (O1)", Plan: plan}},
		{Kind: "alarm", Plan: "order 7", Finding: "another end state (O1)",
			Failure: &explored.Failure{Oracle: "O1", What: "another end state", Detail: "pods: is missing",
				Finding: "another end state (O1)", Plan: "order 7"}},
		{Kind: "done", Text: "explored 40 plans", Alarms: 2,
			Report: &explore.Report{Plans: 40, Took: 2500 * time.Millisecond,
				NotTried: []explore.NotTried{{Kind: explore.KillOld, Reason: "nothing is removed", Plans: 0}},
				Failing:  []string{"shop default/a: no key"}, Further: 3,
				External: []agent.External{{Address: "192.0.2.1:443", Attempts: 41}},
				Unconfirmed: []explore.Alarm{{Oracle: "O2", What: "done more often",
					Plan: explore.Plan{{Kind: explore.Order, Seed: 3}}, Seen: 1, Runs: 3}}}},
	}
}

// --junit, --sarif and --markdown write files with the alarms beside the other output, which has no
// progress if it is not a terminal.
func TestReports(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	p := &printer{out: &out, errOut: &out, command: "kelson explore shop", folder: "shop", format: "json",
		junit: filepath.Join(dir, "junit.xml"), sarif: filepath.Join(dir, "kelson.sarif"),
		markdown: filepath.Join(dir, "kelson.md"), former: "../v1"}
	for _, m := range messages() {
		require.NoError(t, p.take(m))
	}
	var result Result
	if err := json.Unmarshal(out.Bytes(), &result); err != nil || len(result.NotTried) != 1 ||
		!slices.Equal(result.External, []External{{"192.0.2.1:443", 41, false}}) || result.Further != 3 ||
		len(result.Notes) != 1 || !strings.Contains(result.Notes[0], "shop default/a: no key") || result.Causes != 2 ||
		result.Unconfirmed != 1 || len(result.NotConfirmed) != 1 || result.NotConfirmed[0].Plan != "order 3" {
		t.Errorf("%v, %+v", err, result)
	}
	data, err := os.ReadFile(p.junit)
	var suite junitSuite
	if err == nil {
		err = xml.Unmarshal(data, &suite)
	}
	if err != nil || suite.Tests != 4 || suite.Failures != 2 || suite.Skipped != 1 || suite.Time != "2.500" ||
		len(suite.Cases) != 4 || !strings.Contains(suite.Out,
		"warning: the operator tried to use another system or program, and failed: 192.0.2.1:443: 41 attempts\n") {
		t.Fatalf("%v\n%s", err, data)
	}
	if f := suite.Cases[0].Failure; f == nil || f.Type != "O1" ||
		!strings.Contains(f.Text, "secrets <a>: is missing") ||
		!strings.Contains(f.Text, "replay: kelson explore shop --plan 'kill-after create secrets default/web-key #1'") || suite.Cases[2].Failure != nil || suite.Cases[2].Name != "38 other plans" || suite.Cases[3].Skipped == nil {
		t.Errorf("%s", data)
	}
	data, err = os.ReadFile(p.sarif)
	var log sarifLog
	if err == nil {
		err = json.Unmarshal(data, &log)
	}
	if err != nil || log.Version != "2.1.0" || len(log.Runs) != 1 || len(log.Runs[0].Tool.Driver.Rules) != 1 ||
		len(log.Runs[0].Results) != 2 || !log.Runs[0].Invocations[0].ExecutionSuccessful {
		t.Fatalf("%v\n%s", err, data)
	}
	for _, want := range []string{"warning without any fault, a reconcile fails again and again: shop default/a: no key",
		"note not tried: kill-old: nothing is removed"} {
		if !slices.Contains(log.notifications(), want) {
			t.Errorf("%q, want %q", log.notifications(), want)
		}
	}
	if r := log.Runs[0].Results[1]; r.RuleID != "O1" || !strings.Contains(r.Message.Text, "--plan 'order 7'") ||
		r.Locations[0].PhysicalLocation.ArtifactLocation.URI != "shop/go.mod" {
		t.Errorf("%s", data)
	}
	data, err = os.ReadFile(p.markdown)
	for _, want := range []string{"### Exploration: 2 alarms\n", "\n#### another end state (O1)\n\n```text\nsecrets <a>: is missing",
		"replay: kelson explore shop --plan 'order 7'\n", "explored 40 plans\n"} {
		if err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%v, no %q in\n%s", err, want, data)
		}
	}
	got := p.replay("rollback after operator former #1")
	assert.Equal(t, got, "kelson explore shop --former ../v1 --plan 'rollback after operator former #1'")
	assert.Equal(t, fenced("", "a\n```\nb"), "````\na\n```\nb\n````\n")
}

// sarifLog is a report in SARIF.
type sarifLog struct {
	Version string
	Runs    []struct {
		Tool struct {
			Driver struct{ Rules []struct{ ID string } }
		}
		Invocations []struct {
			ExecutionSuccessful        bool
			ToolExecutionNotifications []struct {
				Level   string
				Message struct{ Text string }
			}
		}
		Results []struct {
			RuleID    string
			Message   struct{ Text string }
			Locations []struct {
				PhysicalLocation struct{ ArtifactLocation struct{ URI string } }
			}
		}
	}
}

// notifications returns the level and the text of each notification.
func (l *sarifLog) notifications() (all []string) {
	for _, n := range l.Runs[0].Invocations[0].ToolExecutionNotifications {
		all = append(all, n.Level+" "+n.Message.Text)
	}
	return all
}

// An exploration that ends with an error, such as an operator whose run without faults is not
// possible, has all reports, with the error and the alarms so far.
func TestReportsOfError(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	p := &printer{out: &out, errOut: &out, command: "kelson explore", format: "json",
		junit: filepath.Join(dir, "junit.xml"), sarif: filepath.Join(dir, "kelson.sarif"),
		markdown: filepath.Join(dir, "kelson.md")}
	require.NoError(t, p.take(messages()[1]))
	failed := errors.New(`input "create Shop a": refused`)
	if err := p.fail(failed); err != failed {
		t.Errorf("%v", err)
	}
	var result Result
	if err := json.Unmarshal(out.Bytes(), &result); err != nil || result.Error != failed.Error() ||
		len(result.Alarms) != 1 {
		t.Errorf("%v, %s", err, out.String())
	}
	data, err := os.ReadFile(p.junit)
	var suite junitSuite
	if err == nil {
		err = xml.Unmarshal(data, &suite)
	}
	if err != nil || suite.Tests != 2 || suite.Failures != 1 || suite.Errors != 1 ||
		suite.Cases[1].Error == nil || suite.Cases[1].Error.Text != failed.Error() {
		t.Errorf("%v\n%s", err, data)
	}
	data, err = os.ReadFile(p.sarif)
	var log sarifLog
	if err == nil {
		err = json.Unmarshal(data, &log)
	}
	if err != nil || log.Runs[0].Invocations[0].ExecutionSuccessful ||
		!slices.Contains(log.notifications(), "error "+failed.Error()) || len(log.Runs[0].Results) != 1 {
		t.Errorf("%v\n%s", err, data)
	}
	data, err = os.ReadFile(p.markdown)
	if err != nil || !strings.HasPrefix(string(data), "### Exploration: it ended with an error\n\n```text\n"+failed.Error()+"\n```\n") {
		t.Errorf("%v\n%s", err, data)
	}
	out.Reset()
	if err := p.fail(exit.Code(1)); err != exit.Code(1) || out.Len() > 0 {
		t.Errorf("after the document: %v, %s", err, out.String())
	}
}

// Without a terminal, the text has the alarms and the summary, and no progress.
func TestTextWithoutTerminal(t *testing.T) {
	var out bytes.Buffer
	p := &printer{out: &out, errOut: &out, command: "kelson explore"}
	for _, m := range append(messages(), explore.Message{Kind: "steps", Text: "request: create pods"}) {
		require.NoError(t, p.take(m))
	}
	if got := out.String(); strings.Contains(got, "explored 3 plans") ||
		!strings.Contains(got, "explored 40 plans\n") || !strings.Contains(got, "request: create pods\n") ||
		strings.Count(got, "ALARM:") != 2 {
		t.Errorf("%s", got)
	}
}
