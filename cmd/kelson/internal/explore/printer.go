package explore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"kelson.dev/cmd/kelson/internal/exit"
	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/explored"
)

// printer prints the messages of an exploration, and exports the alarms.
type printer struct {
	out, errOut  io.Writer
	warnings     *warnings     // of this process and of those that explore a share
	command      string        // the command without --plan
	operatorArgs string        // appended to command: -- and the arguments of the operator
	format       output.Format // Text: messages as they come; otherwise a Result at the end
	failure      string        // the file for the first alarm; "" for none
	tests        *exporter     // nil: alarms are not exported

	last     explore.Message
	finished bool   // the document at the end was printed
	err      string // with which the exploration has ended; "" for none
	failures []*explored.Failure
	tested   []string // the files of the tests
	partial  bool     // the terminal shows a line of progress
	junit    string   // the file for a report of JUnit; "" for none
	sarif    string   // the file for a report in SARIF; "" for none
	markdown string   // the file for a report in Markdown; "" for none
	folder   string   // of the project, as in the report in SARIF
	former   string   // the folder of the former version; "" for none
}

// Result is the output of kelson explore --output. docs/reference/explore.md describes it.
type Result struct {
	// Plans is the number of plans that ran in Seconds.
	Plans   int     `json:"plans"`
	Seconds float64 `json:"seconds"`
	// OneFault is the number of plans with a single fault. Skipped is the number of these that are
	// equal to others. Left is the number of these for which the time was too short.
	OneFault int `json:"oneFault"`
	Skipped  int `json:"skipped"`
	Left     int `json:"left"`
	// Equal is the number of plans with several faults that did not run because they equal others,
	// and Pruned the number of runs that ended early at a state that was explored.
	Equal  int `json:"equal"`
	Pruned int `json:"pruned"`
	// Points is the number of writes and events in the run without faults. States is the number of
	// different states of the control plane.
	Points int `json:"points"`
	States int `json:"states"`
	// Unequal is the number of runs, out of Further further runs without faults, that took
	// different steps than the first.
	Unequal    int    `json:"unequal"`
	Further    int    `json:"further"`
	Difference string `json:"difference,omitempty"`
	// Error says why the operator could not be explored, or not to the end.
	Error string `json:"error,omitempty"`
	// Remaining lists the objects without an owner that the operator has created and that remain,
	// without any fault, when the objects of the inputs were deleted.
	Remaining []string `json:"remaining,omitempty"`
	// NotTried lists the kinds of faults of which some plans cannot occur for the operator, and
	// why.
	NotTried []NotTried `json:"notTried,omitempty"`
	// Varying lists the fields and objects that differ between runs without faults.
	Varying []string `json:"varying,omitempty"`
	// External lists the attempts to connect to other systems and to start programs.
	External []External `json:"external,omitempty"`
	// Warnings are about the project, and Notes about the runs without faults.
	Warnings []string `json:"warnings,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	// Unconfirmed is the number of alarms that do not count because further runs did not raise
	// them, and NotConfirmed lists them.
	Unconfirmed  int            `json:"unconfirmed"`
	NotConfirmed []NotConfirmed `json:"notConfirmed,omitempty"`
	// Causes is the number of probably different causes of the alarms.
	Causes int                 `json:"causes"`
	Alarms []*explored.Failure `json:"alarms"`
	// Replays are the commands that run the plans of the alarms again.
	Replays []string `json:"replays,omitempty"`
	// Tests are the files of the tests that --export has written.
	Tests []string `json:"tests,omitempty"`
}

// NotTried is the reason why plans with a kind of fault were not tried.
type NotTried struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
	Plans  int    `json:"plans"`
}

// NotConfirmed is an alarm that most further runs of its plan did not raise: Seen out of Runs.
type NotConfirmed struct {
	Oracle string `json:"oracle"`
	What   string `json:"what"`
	Detail string `json:"detail"`
	Plan   string `json:"plan"`
	Seen   int    `json:"seen"`
	Runs   int    `json:"runs"`
}

// External is an address or a program outside of the control plane, and how often the operator
// tried to use it, in all runs. Attempts that were not allowed failed.
type External struct {
	Address  string `json:"address"`
	Attempts int    `json:"attempts"`
	Allowed  bool   `json:"allowed"`
}

// asProcess makes the commands that replay alarms run the operator as a process: printed commands
// get flags, and exported tests, which run in other folders, get exported. args are the operator's
// arguments.
func (p *printer) asProcess(flags, exported, args []string) {
	p.command += " " + strings.Join(quoted(flags), " ")
	p.withArgs(args)
	if p.tests != nil {
		p.tests.flags = exported
	}
}

// withArgs adds the operator's arguments to the commands that replay alarms.
func (p *printer) withArgs(args []string) {
	if len(args) > 0 {
		p.operatorArgs = " -- " + strings.Join(quoted(args), " ")
	}
	if p.tests != nil {
		p.tests.args = args
	}
}

// quoted returns words, each as quote does.
func quoted(words []string) []string {
	all := make([]string, len(words))
	for i, word := range words {
		all[i] = quote(word)
	}
	return all
}

// quote quotes a word for a shell if that is needed.
func quote(word string) string {
	if word == "" || strings.ContainsAny(word, " \t\n'\"$&|;<>()*?[]#~`\\{}!") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// replay is the command that runs the plan of an alarm again.
func (p *printer) replay(plan string) string {
	command := p.command
	if p.former != "" && explore.NeedsFormer(plan) {
		command += " --former " + quote(p.former)
	}
	return command + " --plan " + quote(plan) + p.operatorArgs
}

// take prints a message.
func (p *printer) take(m explore.Message) error {
	p.last = m
	text := p.format == output.Text
	switch m.Kind {
	case "progress":
		p.progress(m.Text)
	case "alarm":
		return p.alarm(m, text)
	case "steps":
		p.clear()
		if text {
			fmt.Fprintln(p.out, m.Text)
		}
	case "done":
		p.clear()
		return p.finish(m)
	default:
		p.clear()
	}
	return nil
}

// finish writes the reports and prints the summary at the end.
func (p *printer) finish(m explore.Message) error {
	p.finished = true
	if err := p.reports(m); err != nil {
		return err
	}
	switch {
	case p.format != output.Text:
		return p.format.Print(p.out, p.summary(m))
	case m.Kind == "done":
		fmt.Fprintln(p.out, m.Text)
	}
	return nil
}

// fail writes the reports, and the document at the end, of an exploration that has ended with an
// error. It returns this error.
func (p *printer) fail(err error) error {
	if err == nil || p.finished || errors.As(err, new(exit.Code)) || errors.Is(err, context.Canceled) {
		return err
	}
	p.err = err.Error()
	if failed := p.finish(explore.Message{Kind: "error", Text: p.err}); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

// alarm prints an alarm, unless the output is a single document at the end, and writes its files.
func (p *printer) alarm(m explore.Message, text bool) error {
	p.clear()
	if text {
		color := output.ColorsFor(p.out)
		fmt.Fprintf(p.out, "\n%s %sreplay: %s\n", color.Bad("ALARM:"), m.Text, color.Bold(p.replay(m.Plan)))
	}
	if p.tests != nil {
		what, file, err := p.tests.export(m)
		if err != nil {
			return fmt.Errorf("export an alarm: %w", err)
		}
		p.tested = append(p.tested, file)
		if text {
			fmt.Fprintln(p.out, what)
		}
	}
	if p.failure != "" && len(p.failures) == 0 {
		if err := writeFailure(p.failure, m.Failure); err != nil {
			return fmt.Errorf("write the failure: %w", err)
		}
		if text {
			fmt.Fprintf(p.out, "failure: %s\n", p.failure)
		}
	}
	p.failures = append(p.failures, m.Failure)
	if text {
		fmt.Fprintln(p.out)
	}
	return nil
}

// summary is the document at the end.
func (p *printer) summary(m explore.Message) Result {
	r := Result{Alarms: p.failures, Tests: p.tested, Error: p.err}
	if r.Alarms == nil {
		r.Alarms = []*explored.Failure{}
	}
	for _, f := range p.failures {
		if f.SameAs == "" {
			r.Causes++
		}
		r.Replays = append(r.Replays, p.replay(f.Plan))
	}
	if report := m.Report; report != nil {
		r.Plans, r.Seconds, r.Left = report.Plans, report.Took.Seconds(), report.Left
		r.OneFault, r.Skipped = report.OneFault, report.Skipped
		r.Equal, r.Pruned = report.Equal, report.Pruned
		r.Points, r.States, r.Unequal, r.Difference = report.Points, report.States, report.Unequal, report.Difference
		r.Further, r.Notes = report.Further, report.Notes()
		for _, e := range report.External {
			r.External = append(r.External, External(e))
		}
		r.Unconfirmed, r.Varying, r.Warnings = len(report.Unconfirmed), report.Varying, report.Warnings
		for _, a := range report.Unconfirmed {
			r.NotConfirmed = append(r.NotConfirmed,
				NotConfirmed{a.Oracle, a.What, a.Detail, a.Plan.String(), a.Seen, a.Runs})
		}
		for _, n := range report.NotTried {
			r.NotTried = append(r.NotTried, NotTried{string(n.Kind), n.Reason, n.Plans})
		}
		r.Remaining = report.Remaining
	}
	return r
}

// progress shows how far the exploration is in one line of a terminal.
func (p *printer) progress(text string) {
	if width := output.TerminalWidth(p.errOut); width > 0 {
		line, _, _ := strings.Cut(text, "\n")
		if len(line) >= width {
			line = line[:width-1]
		}
		fmt.Fprintf(p.errOut, "\r\x1b[K%s", line)
		p.partial = true
	}
}

// clear removes the line of progress.
func (p *printer) clear() {
	if p.partial {
		fmt.Fprint(p.errOut, "\r\x1b[K")
		p.partial = false
	}
}
