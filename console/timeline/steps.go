package timeline

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"kelson.dev/console/compare"
	"kelson.dev/console/internal/web"
	"kelson.dev/lab/causes"
	"kelson.dev/lab/explored"
	"kelson.dev/operator/trace"
)

// stepTime is the distance between two steps on the axis.
const stepTime = time.Millisecond

// steps returns a run of the failure: passing or failing.
func (s *Server) steps(run string) (Marks, error) {
	if s.Failure == "" {
		return Marks{}, web.Errorf(http.StatusNotFound, "no failure is connected")
	}
	f, err := compare.ReadFailure(s.Failure)
	if err != nil {
		return Marks{}, err
	}
	shown := map[string]*explored.Run{"passing": f.Passing, "failing": f.Failing}[run]
	if shown == nil {
		return Marks{}, web.Errorf(http.StatusNotFound, "the failure has no run %q", run)
	}
	m := ofSteps(shown.Steps)
	m.Times = shown.Times
	return m, nil
}

// ofSteps returns the marks of the steps of a run. Step i is at i times stepTime.
func ofSteps(steps []string) Marks {
	t := &lanes{numbers: map[causes.Object]int{}, sent: map[*trace.LineRecord]bool{}, traced: true}
	m := t.empty()
	m.Steps, m.Complete, m.Origin = true, true, time.Unix(0, 0).UTC()
	for i, step := range steps {
		at := time.Duration(i+1) * stepTime
		line := func(kind string) { m.Lines = append(m.Lines, Line{at.Microseconds(), kind, step}) }
		phase, rest, _ := strings.Cut(step, ": ")
		switch {
		case strings.HasPrefix(step, "FAULT "):
			line("fault")
			continue
		case strings.HasPrefix(step, "ALARM "):
			line("alarm")
			continue
		case step == "the operator restarts":
			line("restart")
			continue
		case phase == "input":
			line("input")
			continue
		}
		words := strings.Fields(rest)
		if len(words) < 2 {
			line("input") // such as "the held requests continue"
			continue
		}
		object := causes.Object{Kind: words[1]}
		if len(words) > 2 && !strings.HasPrefix(words[2], "(") {
			object.Name = words[2]
			if namespace, name, ok := strings.Cut(words[2], "/"); ok {
				object.Namespace, object.Name = namespace, name
			}
		}
		kind := Event
		switch failed := strings.HasSuffix(step, ")"); {
		case failed:
			kind = Refused
		case phase == "request":
			kind = Request
		case phase == "server", phase == "response" && isWrite(words[0]):
			kind = Write
		}
		m.add(t.lane(&m, object, ""), at, 0, kind, "step/"+strconv.Itoa(i+1))
		m.say(step)
	}
	return m
}

// isWrite reports whether a verb of a step changes objects.
func isWrite(verb string) bool {
	switch verb {
	case "get", "list", "watch":
		return false
	}
	return true
}
