package explore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// referenceRuns is how often the scenario runs without faults. Differences between these runs say
// nothing about faults.
const referenceRuns = 4

// baseline is what the runs without faults have shown.
type baseline struct {
	*result        // of the first run
	unequal int    // how many of the others took other steps
	where   string // the first difference
}

// validate returns an error if a scenario cannot be explored. It compiles the invariants.
func (s *Scenario) validate() error {
	switch {
	case s.Operator == nil:
		return errors.New("the scenario has no Operator: set it to Parts(…), or to a function that runs a manager")
	case len(s.Inputs) == 0:
		return errors.New("the scenario has no Inputs, so the operator has nothing to do: add at least a Create of a sample")
	case s.Quiet < 0 || s.Horizon < 0:
		return fmt.Errorf("the scenario's Quiet (%v) and Horizon (%v) must not be negative", s.Quiet, s.Horizon)
	case s.Horizon > 0 && s.Horizon < orDefault(s.Quiet, defaultQuiet):
		return fmt.Errorf("the scenario's Horizon (%v) is shorter than Quiet (%v), so the operator can never count as quiet", s.Horizon, orDefault(s.Quiet, defaultQuiet))
	}
	for _, field := range s.Ignore {
		if resource, path, _ := strings.Cut(field, " "); resource == "" || path == "" {
			return fmt.Errorf("the scenario's Ignore has %q: want RESOURCE FIELD.FIELD, such as \"jobs.batch status.failed\"", field)
		}
	}
	s.Invariants = slices.Clone(s.Invariants)
	for i := range s.Invariants {
		if err := s.Invariants[i].compile(); err != nil {
			return err
		}
	}
	return nil
}

// reference runs the scenario without faults several times.
func (e *explorer) reference() (*baseline, error) {
	first := e.run(nil)
	switch {
	case first.failed != nil:
		return nil, first.failed
	case len(first.alarms) > 0:
		return nil, fmt.Errorf("without any fault, the operator raises an alarm: %s\nlast steps:\n%s", first.alarms[0], tail(first.steps, 12))
	}
	base := &baseline{result: first}
	ends, example := 0, []string(nil)
	for range referenceRuns - 1 {
		again := e.run(nil)
		if again.failed != nil {
			return nil, again.failed
		}
		if again.digest != first.digest {
			if base.unequal++; base.where == "" {
				base.where = firstDifference(first.steps, again.steps)
			}
		}
		lines := again.end.Diff(first.end)
		if len(again.alarms) > 0 {
			lines = []string{again.alarms[0].String()}
		}
		if lines = without(e.scenario.Ignore, lines); len(lines) > 0 {
			ends++
			example = lines
		}
	}
	if ends > 0 {
		return nil, fmt.Errorf("the operator is not deterministic: %d of %d further runs without faults end differently, so faults cannot be judged. "+
			"Typical causes are random values and several workers; name fields that may differ in Ignore:\n%s",
			ends, referenceRuns-1, indent(strings.Join(example, "\n")))
	}
	return base, nil
}

// firstDifference returns the first step in which two runs differ.
func firstDifference(a, b []string) string {
	at := func(steps []string, i int) string {
		if i < len(steps) {
			return steps[i]
		}
		return "the end"
	}
	for i := range max(len(a), len(b)) {
		if at(a, i) != at(b, i) {
			return fmt.Sprintf("step %d is %q or %q", i+1, at(a, i), at(b, i))
		}
	}
	return "the content of a version"
}
