package explore

import (
	"context"
	"encoding/json"
	"io"

	"kelson.dev/lab/explored"
)

// An exploration of a Program can be divided among processes. Each of them explores a share of the
// plans: it prepares its own base, makes its own runs without faults, and runs plans one after the
// other on one processor, as an exploration in a single process does. DriveShares divides the plans
// and joins the results. Before each plan, a share asks which one is next. Runs are deterministic,
// so all shares have the same plans with one fault. If the operator is not deterministic, they may
// differ, so a plan is identified by its text.

// fromShare is a line of JSON from a share. Its kind is that of a Message, or
//
//	begin   the runs without faults have ended; Plans are the plans with one fault
//	next    the share asks for a plan
//
// The Report of these is that of the share so far.
type fromShare struct {
	Message
	Plans  []string     `json:",omitempty"`
	States [][]byte     `json:",omitempty"` // reached since the last message
	Shared *sharedAlarm `json:",omitempty"` // of an alarm
}

// toShare is the answer to a question for the next plan.
type toShare struct {
	// Plan is the index of the plan with one fault that the share must run; -1 if another share has
	// begun each. Then the share runs plans with several faults, if Options allow them.
	Plan int
	Over bool // the exploration ends
	// Alarms were found by other shares since the last answer.
	Alarms []sharedAlarm `json:",omitempty"`
}

// sharedAlarm is an alarm with what other processes need of it.
type sharedAlarm struct {
	Alarm
	Subjects, Effects []string // JSON keeps the difference between nil and empty
	Passing, Failing  *explored.Run
}

func newSharedAlarm(a Alarm) *sharedAlarm {
	return &sharedAlarm{a, a.subjects, a.effects, a.passing, a.failing}
}

// withoutRuns returns what is needed to compare alarms.
func (s sharedAlarm) withoutRuns() sharedAlarm {
	s.Steps, s.Curve, s.Passing, s.Failing = nil, nil, nil, nil
	return s
}

func (s sharedAlarm) alarm() Alarm {
	a := s.Alarm
	a.subjects, a.effects, a.passing, a.failing = s.Subjects, s.Effects, s.Passing, s.Failing
	return a
}

// share connects the exploration of a share with the process that divides the plans.
type share struct {
	number  int
	out     *json.Encoder
	answers chan toShare
	states  [][]byte // not yet sent
	over    bool
}

// DriveShare explores a share of the plans of a scenario with a Program, for DriveShares in another
// process, whose pipes are in and out. It ends early if in ends. As DriveProgram, it may be called
// once in a process.
func DriveShare(ctx context.Context, s Scenario, o Options, number int, in io.Reader, out io.Writer) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sh := &share{number: number, out: json.NewEncoder(out), answers: make(chan toShare, 1)}
	go func() {
		defer cancel()
		for decoder := json.NewDecoder(in); ; {
			var answer toShare
			if decoder.Decode(&answer) != nil {
				return
			}
			sh.answers <- answer
		}
	}()
	o.share = sh
	o.Found = func(a Alarm) { sh.send(fromShare{Message: Message{Kind: "alarm"}, Shared: newSharedAlarm(a)}) }
	inProgramTest(ctx, func(e *explorer) error {
		report, err := e.exploreProgram(s, o)
		if err == nil {
			sh.send(fromShare{Message: report.message("done")})
		}
		return err
	}, func(m Message) { sh.send(fromShare{Message: m}) })
}

// send sends a message, with the new states. A failure means that the other process has ended, and
// with it the answers.
func (s *share) send(m fromShare) {
	m.States, s.states = s.states, nil
	if s.out.Encode(m) != nil {
		s.over = true
	}
}

// begin tells which plans with one fault exist.
func (s *share) begin(r Report, plans []Plan) {
	m := fromShare{Message: r.message("begin")}
	for _, p := range plans {
		m.Plans = append(m.Plans, p.String())
	}
	s.send(m)
}

// next returns the index of the plan with one fault that is next, or -1. If the exploration ends,
// it sets over.
func (s *share) next(ctx context.Context, r Report) (plan int, found []Alarm) {
	s.send(fromShare{Message: r.message("next")})
	select {
	case answer := <-s.answers:
		for _, a := range answer.Alarms {
			found = append(found, a.alarm())
		}
		s.over = s.over || answer.Over
		return answer.Plan, found
	case <-ctx.Done():
		s.over = true
		return -1, nil
	}
}
