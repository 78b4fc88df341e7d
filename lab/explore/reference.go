package explore

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
)

// referenceRuns is the number of runs without faults. Differences between these runs are not caused
// by faults.
const referenceRuns = 4

// baseline holds the results of the runs without faults.
type baseline struct {
	*result           // result of the first run
	unequal    int    // how many of the other runs took different steps
	difference string // the first difference
}

// validate returns an error if a scenario cannot be explored. It compiles the invariants.
func (s *Scenario) validate() error {
	standard := defaultQuiet
	if s.Binary != nil {
		standard = wireQuiet
		binary := *s.Binary
		binary.Files = slices.Concat(binary.Files, s.files)
		s.Binary = &binary
		if err := s.Binary.validate(); err != nil {
			return err
		}
		for _, input := range s.Inputs {
			if input.wait > wireHorizon {
				return fmt.Errorf("the input %q is too long: the runs of a program take real time, so it may be at most %v", input, wireHorizon)
			}
		}
	}
	if s.Program != nil {
		program := *s.Program
		program.Files = slices.Concat(program.Files, s.files)
		s.Program = &program
		if err := s.Program.validate(); err != nil {
			return err
		}
	}
	switch {
	case s.Program != nil && (s.Operator != nil || s.Binary != nil):
		return errors.New("the scenario has both a Program and an Operator or a Binary")
	case s.Operator == nil && s.Binary == nil && s.Program == nil:
		return errors.New("the scenario has no Operator: set it to Parts(…), or to a function that runs a manager; or set Binary to a program")
	case s.Operator != nil && s.Binary != nil:
		return errors.New("the scenario has both an Operator and a Binary")
	case len(s.Inputs) == 0:
		return errors.New("the scenario has no Inputs, so the operator has nothing to do: add at least a Create of a sample")
	case s.Quiet < 0 || s.Horizon < 0:
		return fmt.Errorf("the scenario's Quiet (%v) and Horizon (%v) must not be negative", s.Quiet, s.Horizon)
	case s.Horizon > 0 && s.Horizon < orDefault(s.Quiet, standard):
		return fmt.Errorf("the scenario's Horizon (%v) is shorter than Quiet (%v), so the operator can never count as quiet", s.Horizon, orDefault(s.Quiet, standard))
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
	e.keepAll = true
	defer func() { e.keepAll = false }()
	first := e.run(nil)
	switch {
	case first.failed != nil:
		return nil, first.failed
	case len(first.alarms) > 0:
		return nil, fmt.Errorf("without any fault, the operator raises an alarm: %s\nlast steps:\n%s", first.alarms[0], tail(first.steps, 12))
	}
	base := &baseline{result: first}
	ends, example := 0, []string(nil)
	further := make([]*result, referenceRuns-1)
	var next atomic.Int64
	e.inParallel(func() {
		for i := next.Add(1) - 1; i < int64(len(further)); i = next.Add(1) - 1 {
			further[i] = e.run(nil)
		}
	})
	for _, again := range further {
		if again.failed != nil {
			return nil, again.failed
		}
		if e.wire != nil {
			base.merge(again)
		} else if again.digest != first.digest {
			if base.unequal++; base.difference == "" {
				base.difference = firstDifference(first, again)
			}
		}
		lines := again.end.Diff(first.end)
		if len(again.alarms) > 0 {
			lines = []string{again.alarms[0].String()}
		}
		if lines = withoutIgnored(e.scenario.Ignore, lines); len(lines) > 0 {
			ends++
			example = lines
		}
	}
	if ends > 0 {
		return nil, fmt.Errorf("the operator is not deterministic: %d of %d further runs without faults end differently, so faults cannot be judged. "+
			"Typical causes are random values and several workers; name fields that may differ in Ignore, which is ignore in "+ConfigFile+":\n%s",
			ends, referenceRuns-1, indent(strings.Join(example, "\n")))
	}
	return base, nil
}

// remaining returns the objects without an owner that the operator has created and that remain at
// the end. It returns none if others have also left such objects: not all inputs were deleted, and
// the operator's objects may belong to those.
func (r *result) remaining() (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(r.left.objects)) {
		for _, object := range r.left.objects[id] {
			meta, _ := object["metadata"].(map[string]any)
			switch {
			case meta == nil || meta["ownerReferences"] != nil || r.creates[id] == 0:
			case !r.ownObjects[id]:
				return nil
			case !slices.Contains(ids, id):
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// firstDifference returns the first step in which two runs differ, or else the first version.
func firstDifference(a, b *result) string {
	at := func(steps []string, i int) string {
		if i < len(steps) {
			return steps[i]
		}
		return "the end"
	}
	for i := range max(len(a.steps), len(b.steps)) {
		if at(a.steps, i) != at(b.steps, i) {
			return fmt.Sprintf("step %d is %q or %q", i+1, at(a.steps, i), at(b.steps, i))
		}
	}
	for i := range max(len(a.versions), len(b.versions)) {
		one, other := at(a.versions, i), at(b.versions, i)
		if one == other {
			continue
		}
		same := 0
		for same < min(len(one), len(other)) && one[same] == other[same] {
			same++
		}
		revision, _, _ := strings.Cut(one, "{")
		return fmt.Sprintf("the content of a version, %s: %q or %q", strings.TrimSpace(revision), excerpt(one, same), excerpt(other, same))
	}
	return "the content of a version"
}

// excerpt returns the part of a text around a position.
func excerpt(text string, at int) string {
	const before, after = 60, 40
	return text[max(0, at-before):min(len(text), at+after)]
}
