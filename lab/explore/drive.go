package explore

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"kelson.dev/lab/agent/inside"
	"kelson.dev/lab/explored"
)

// The environment variables of Drive. SeedVariable selects the random plans; ReportVariable is the
// file descriptor for messages.
const (
	SeedVariable   = "KELSON_EXPLORE_SEED"
	ReportVariable = "KELSON_EXPLORE_REPORT"
)

// Message is a line of JSON that Drive writes for the program that started it.
type Message struct {
	// Kind is progress, alarm, steps, error or done. A message of kind error or done is the last
	// one. One of kind steps has the steps of a replay without an alarm.
	Kind string
	Text string `json:",omitempty"`
	// Plan and Finding describe an alarm: the shortest plan that causes it, and the failure. Alarms
	// is the number of alarms so far.
	Plan    string `json:",omitempty"`
	Finding string `json:",omitempty"`
	Alarms  int    `json:",omitempty"`
	// Failure describes the failure of an alarm.
	Failure *explored.Failure `json:",omitempty"`
	// Report is set in messages of kind progress and done; its Alarms are nil.
	Report *Report `json:",omitempty"`
}

func (r Report) message(kind string) Message {
	m := Message{Kind: kind, Text: r.Summary(), Alarms: len(r.Alarms)}
	r.Alarms = nil
	m.Report = &r
	return m
}

// Drive explores a scenario for another program, which reads the messages: kelson explore runs it
// in a test program that it generates. The environment variables of Run apply, too. It fails the
// test if there is an alarm or an error.
func Drive(t *testing.T, s Scenario, err error) {
	out := io.Writer(os.Stdout)
	if fd, err := strconv.Atoi(os.Getenv(ReportVariable)); err == nil {
		out = os.NewFile(uintptr(fd), "report")
	}
	encoder := json.NewEncoder(out)
	send := func(m Message) {
		if err := encoder.Encode(m); err != nil {
			t.Fatalf("explore: write a message: %v", err) // the reader has ended
		}
	}
	var report Report
	if err == nil {
		report, err = drive(t, s, send)
	}
	if err != nil {
		send(Message{Kind: "error", Text: err.Error()})
		t.Fatal(err)
	}
	send(report.message("done"))
	if len(report.Alarms) > 0 {
		t.Fail()
	}
}

// drive explores the scenario, or replays the plan of the environment.
func drive(t *testing.T, s Scenario, send func(Message)) (Report, error) {
	if text := os.Getenv(PlanVariable); text != "" {
		return replayed(t, s, text, send)
	}
	o, err := optionsOf(os.Getenv)
	if err != nil {
		return Report{}, err
	}
	o.sendProgress(send)
	return Explore(t, s, o)
}

// sendProgress sets the functions of o that send messages while an exploration runs.
func (o *Options) sendProgress(send func(Message)) {
	sent := time.Time{}
	o.Found = func(a Alarm) { send(a.message()) }
	o.Progress = func(r Report) {
		if time.Since(sent) >= time.Second {
			sent = time.Now()
			send(r.message("progress"))
		}
	}
}

// DriveBinary explores a scenario with a Binary, or replays the plan if it is not empty, and sends
// the messages of Drive. No two calls of send happen at the same time.
func DriveBinary(ctx context.Context, s Scenario, plan string, o Options, send func(Message)) {
	report, err := driveBinary(ctx, s, plan, o, send)
	if err != nil {
		send(Message{Kind: "error", Text: err.Error()})
		return
	}
	send(report.message("done"))
}

func driveBinary(ctx context.Context, s Scenario, plan string, o Options, send func(Message)) (Report, error) {
	if plan == "" {
		o.sendProgress(send)
		return ExploreBinary(ctx, s, o)
	}
	parsed, err := ParsePlan(plan)
	if err != nil {
		return Report{}, err
	}
	begin := time.Now()
	e, err := newWireExplorer(ctx, s)
	if err != nil {
		return Report{}, err
	}
	defer e.close()
	return e.replayTo(parsed, begin, o.Steps, send)
}

// DriveProgram does the same as DriveBinary for a scenario with a Program. It may be called once in
// a process: from then on, the process has one processor, and the random numbers of Kubernetes'
// libraries are not random. Its garbage is collected less often, because each run leaves some.
func DriveProgram(ctx context.Context, s Scenario, plan string, o Options, send func(Message)) {
	inProgramTest(ctx, func(e *explorer) error {
		report, err := e.driveProgram(s, plan, o, send)
		if err == nil {
			send(report.message("done"))
		}
		return err
	}, send)
}

// inProgramTest calls drive in a test that never ends, because the end of the test would end the
// process. It sends the error of drive, and the failure of a part of the test.
func inProgramTest(ctx context.Context, drive func(*explorer) error, send func(Message)) {
	debug.SetGCPercent(300)
	ended := make(chan struct{})
	go inside.InTest(func(t *testing.T) {
		defer func() {
			close(ended)
			select {}
		}()
		e := &explorer{t: t, ctx: ctx}
		defer func() {
			if e.failure != "" {
				send(Message{Kind: "error", Text: e.failure})
			}
		}()
		if err := drive(e); err != nil {
			send(Message{Kind: "error", Text: err.Error()})
		}
	})
	<-ended
}

// driveProgram explores a scenario, or replays the plan if it is not empty.
func (e *explorer) driveProgram(s Scenario, plan string, o Options, send func(Message)) (Report, error) {
	parsed, err := ParsePlan(plan)
	if err != nil {
		return Report{}, err
	}
	if plan == "" {
		o.sendProgress(send)
		return e.exploreProgram(s, o)
	}
	begin := time.Now()
	defer e.close()
	if _, err := e.start(s); err != nil {
		return Report{}, err
	}
	return e.replayTo(parsed, begin, o.Steps, send)
}

// exploreProgram explores a scenario with a Program.
func (e *explorer) exploreProgram(s Scenario, o Options) (Report, error) {
	begin := time.Now()
	defer e.close()
	if _, err := e.start(s); err != nil {
		return Report{}, err
	}
	return e.explore(o, begin)
}

func (a Alarm) message() Message {
	return Message{Kind: "alarm", Text: a.describe(""), Plan: a.Plan.String(), Finding: a.finding(),
		Failure: a.failure()}
}

func replayed(t *testing.T, s Scenario, text string, send func(Message)) (Report, error) {
	begin := time.Now()
	plan, err := ParsePlan(text)
	if err != nil {
		return Report{}, err
	}
	e, err := newExplorer(t, s)
	if err != nil {
		return Report{}, err
	}
	defer e.close()
	return e.replayTo(plan, begin, false, send)
}

// replayTo runs a plan, and sends its alarm or, if steps is true and there is none, its steps.
func (e *explorer) replayTo(plan Plan, begin time.Time, steps bool, send func(Message)) (Report, error) {
	r, alarms, base, err := e.replay(plan)
	if err != nil {
		return Report{}, err
	}
	alarms = alarms[:min(1, len(alarms))] // the other alarms follow from it
	for _, a := range alarms {
		send(a.message())
	}
	if steps && len(alarms) == 0 {
		send(Message{Kind: "steps", Text: strings.Join(r.steps, "\n")})
	}
	return Report{Plans: 1, States: len(r.states), Points: len(base.first.points), Unequal: base.unequal,
		Further: base.runs, Difference: base.difference, Warnings: e.scenario.warnings, External: e.external(),
		Unanswered: e.unanswered(),
		Took:       time.Since(begin), Alarms: alarms}, nil
}

// optionsOf reads the options in the environment.
func optionsOf(getenv func(string) string) (o Options, err error) {
	if text := getenv(ForVariable); text != "" {
		if o.For, err = time.ParseDuration(text); err != nil || o.For <= 0 {
			return o, fmt.Errorf("%s=%q is not a positive duration such as 2m", ForVariable, text)
		}
	}
	if text := getenv(PlansVariable); text != "" {
		if o.Plans, err = strconv.Atoi(text); err != nil || o.Plans <= 0 {
			return o, fmt.Errorf("%s=%q is not a positive number", PlansVariable, text)
		}
	}
	if text := getenv(SeedVariable); text != "" {
		if o.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			return o, fmt.Errorf("%s=%q is not a number", SeedVariable, text)
		}
	}
	return o, nil
}
