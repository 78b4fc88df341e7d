package explore

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/sets"

	recording "kelson.dev/lab/history"
)

// referenceRuns is the number of runs without faults. Differences between these runs are not caused
// by faults.
const referenceRuns = 4

// variedRuns is that number if the ends of these runs differ, so that more of what differs is
// found.
const variedRuns = 12

// baseline holds the results of the runs without faults.
type baseline struct {
	first      *result   // the result of the first run
	outcomes   *outcomes // of all
	runs       int       // number of further runs
	unequal    int       // how many of these took different steps
	difference string    // the first difference
	alarms     []Alarm   // of the runs without faults
	// stale is the result of a run against a server without watch lists. It is nil if all plans run
	// against the same server, or if such a run is not possible, for the reason noStale.
	stale   *result
	noStale string
}

// configured returns a copy of a program of the operator with the settings of a project.
func (s *Scenario) configured(b *Binary) *Binary {
	program := *b
	program.Files = slices.Concat(b.Files, s.files)
	program.Args = slices.Concat(s.args, b.Args)
	program.Env = slices.Concat(s.variables, s.env, b.Env)
	return &program
}

// validate returns an error if a scenario cannot be explored. It compiles the invariants.
func (s *Scenario) validate() error {
	standard := defaultQuiet
	if s.Binary != nil {
		standard = wireQuiet
		s.Binary = s.configured(s.Binary)
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
		s.Program = s.configured(s.Program)
		if err := s.Program.validate(); err != nil {
			return err
		}
	}
	if s.FormerProgram != nil {
		s.FormerProgram = s.configured(s.FormerProgram)
		s.FormerProgram.Files = nil // it gets the files of this version
		if err := s.FormerProgram.validate(); err != nil {
			return fmt.Errorf("the former version: %w", err)
		}
	}
	switch {
	case s.Former != nil && s.Operator == nil || s.FormerProgram != nil && s.Program == nil:
		return errors.New("the scenario has a Former without an Operator, or a FormerProgram without a Program")
	case s.Program != nil && (s.Operator != nil || s.Binary != nil):
		return errors.New("the scenario has both a Program and an Operator or a Binary")
	case s.Operator == nil && s.Binary == nil && s.Program == nil:
		return errors.New("the scenario has no Operator: set it to Parts(…), or to a function that runs a manager; or set Binary to a program")
	case s.Operator != nil && s.Binary != nil:
		return errors.New("the scenario has both an Operator and a Binary")
	case len(s.Inputs) == 0:
		return errors.New("the scenario has no Inputs, so the operator has nothing to do: add at least a Create of a sample")
	case s.Inputs[0].together:
		return errors.New("the first of the scenario's Inputs is Together, but follows no other")
	case s.Quiet < 0 || s.Horizon < 0 || s.Lag < 0:
		return fmt.Errorf("the scenario's Quiet (%v), Horizon (%v) and Lag (%v) must not be negative", s.Quiet, s.Horizon,
			s.Lag)
	case s.Horizon > 0 && s.Horizon < orDefault(s.Quiet, standard):
		return fmt.Errorf("the scenario's Horizon (%v) is shorter than Quiet (%v), so the operator can never count as quiet", s.Horizon, orDefault(s.Quiet, standard))
	}
	s.Others = slices.Clone(s.Others)
	if err := s.validateOthers(); err != nil {
		return err
	}
	if err := s.WatchList.validate(); err != nil {
		return fmt.Errorf("the scenario's WatchList: %w", err)
	}
	for _, field := range s.Ignore {
		if resource, path, _ := strings.Cut(field, " "); resource == "" || path == "" {
			return fmt.Errorf("the scenario's Ignore has %q: want RESOURCE FIELD.FIELD, such as \"jobs.batch status.failed\"", field)
		}
	}
	if len(s.Services) > 0 && s.Program == nil {
		return errors.New("the scenario has Services, which need a Program in virtual time")
	}
	s.Services = slices.Clone(s.Services)
	for i := range s.Services {
		if err := s.Services[i].validate(); err != nil {
			return fmt.Errorf("the scenario's Services: %w", err)
		}
	}
	s.Simulated = slices.Clone(s.Simulated)
	for i := range s.Simulated {
		if err := s.Simulated[i].compile(); err != nil {
			return err
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
	base := &baseline{}
	first := e.run(nil)
	if e.lacksRights(base, first) {
		if e.periodic == nil && e.wire == nil {
			e.learn() // it has now written what it could not write before
		}
		first = e.run(nil)
	}
	switch {
	case first.failed != nil:
		return nil, first.failed
	case len(first.alarms) > 0:
		return nil, newAlarmed(first, base.alarms...)
	}
	base.first = first
	runs := []*result{first}
	for _, number := range []int{referenceRuns, variedRuns} {
		further, err := e.further(base, number-1-base.runs)
		if err != nil {
			return nil, err
		}
		runs = append(runs, further...)
		base.outcomes = newOutcomes(e.scenario.Ignore, runs...)
		if !base.outcomes.end.varies() && !base.outcomes.left.varies() {
			break
		}
	}
	if err := e.staleReference(base); err != nil {
		return nil, err
	}
	e.varying = base.outcomes.end
	base.alarms = append(append(base.alarms, base.failures(e.scenario.Failing)...), base.leaks(e.scenario.Retained)...)
	return base, nil
}

// lacksRights reports whether RBAC has refused requests of the operator without any fault. It adds
// this to the alarms of the baseline, and gives the operator all rights in later runs: otherwise,
// these would explore little of it.
func (e *explorer) lacksRights(base *baseline, r *result) bool {
	i := slices.IndexFunc(r.alarms, func(a Alarm) bool { return a.Oracle == "O12" })
	if i < 0 || e.allRights {
		return false
	}
	alarm := r.alarms[i]
	alarm.Detail += "\nMarkers that allow this:\n" +
		strings.Join(markersFor(strings.Split(alarm.Detail, "\n")), "\n") + "\nThe other runs give the operator all rights, as roles: [] in " + ConfigFile + " does."
	alarm.complete(nil, r, nil, 1, 1)
	base.alarms = append(base.alarms, alarm)
	e.allRights = true
	return true
}

// further makes further runs without faults, and compares their steps with those of the first one.
// It returns those without alarms.
func (e *explorer) further(base *baseline, n int) (runs []*result, err error) {
	all := make([]*result, n)
	var next atomic.Int64
	e.inParallel(func() {
		for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
			all[i] = e.run(nil)
		}
	})
	for _, r := range all {
		switch base.runs++; {
		case r.failed != nil:
			return nil, r.failed
		case len(r.alarms) > 0:
			base.sometimes(r)
			continue
		case e.wire == nil && r.digest != base.first.digest:
			if base.unequal++; base.difference == "" {
				base.difference = firstDifference(base.first, r)
			}
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// sometimes adds the alarm of a run without faults, which the first run has not raised.
func (b *baseline) sometimes(r *result) {
	alarm := r.alarms[0]
	for i := range b.alarms {
		if b.alarms[i].signature() == alarm.signature() {
			b.alarms[i].Seen++
			return
		}
	}
	alarm.complete(nil, r, b.first, 1, 0)
	b.alarms = append(b.alarms, alarm)
}

// staleReference makes the run without faults for plans with stale restarts, if these run against
// another server than the other plans.
func (e *explorer) staleReference(base *baseline) error {
	if e.scenario.WatchList != WatchListAuto || !base.first.sentWatchLists {
		return nil
	}
	e.withoutWatchLists = true
	defer func() { e.withoutWatchLists = false }()
	switch r := e.run(nil); {
	case r.failed != nil:
		return r.failed
	case len(r.alarms) > 0:
		base.noStale = fmt.Sprintf("against a server that refuses watch lists, the operator raises an alarm without any fault: %s", r.alarms[0])
	default:
		base.stale = r
		base.outcomes = newOutcomes(e.scenario.Ignore, append(base.outcomes.runs, r)...)
	}
	return nil
}

// leaks returns an alarm (O9) for objects without an owner that the operator has created, and that
// remain, without any fault, after the objects of the inputs were deleted.
func (b *baseline) leaks(retained []string) []Alarm {
	seen := map[string]int{}
	for _, r := range b.outcomes.runs {
		for _, id := range r.remaining() {
			if !slices.ContainsFunc(retained, func(pattern string) bool { return matches(pattern, id) }) {
				seen[id]++
			}
		}
	}
	var lines []string
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		line := id + ": exists after the inputs were deleted, and has no owner"
		if seen[id] < len(b.outcomes.runs) {
			line += fmt.Sprintf(" (in %d of %d runs)", seen[id], len(b.outcomes.runs))
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return nil
	}
	lines = append(lines, "If the operator keeps an object deliberately, list it in Retained, which is retained in "+
		ConfigFile+".")
	a := Alarm{Oracle: "O9", What: "left behind without any fault", Detail: strings.Join(lines, "\n")}
	a.complete(nil, b.first, nil, len(b.outcomes.runs), len(b.outcomes.runs))
	return []Alarm{a}
}

// matches reports whether a pattern, RESOURCE or RESOURCE NAMESPACE/NAME with *, selects an object.
func matches(pattern, id string) bool {
	resource, object, found := strings.Cut(pattern, " ")
	if of, name, _ := strings.Cut(id, " "); of != resource || !found {
		return of == resource
	} else if ok, err := path.Match(object, name); err == nil {
		return ok
	}
	return pattern == id
}

// ofServices are the resources whose objects the control plane creates for a Service, without an
// owner, and deletes with it.
var ofServices = sets.New("endpoints", "ipaddresses.networking.k8s.io")

// remaining returns the objects without an owner that the operator has created and that remain at
// the end. It returns none if others have also left such objects: not all inputs were deleted, and
// the operator's objects may belong to those.
func (r *result) remaining() (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(r.left.objects)) {
		resource, _, _ := strings.Cut(id, " ")
		if !r.ownObjects[id] && ofServices.Has(resource) {
			continue
		}
		for _, object := range r.left.objects[id] {
			meta, _ := object["metadata"].(map[string]any)
			switch {
			case meta == nil || meta["ownerReferences"] != nil || r.counts[created+id] == 0:
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
		if one, other := at(a.versions, i), at(b.versions, i); one != other {
			return "the content of a version, " + versionDifference(one, other)
		}
	}
	return "the content of a version"
}

// versionDifference returns all fields in which two versions differ, in the form of history.all.
func versionDifference(one, other string) string {
	whose, a := splitVersion(one)
	otherwise, b := splitVersion(other)
	if whose != otherwise {
		return fmt.Sprintf("%q or %q", whose, otherwise)
	}
	changes, err := recording.Diff([]byte(a), []byte(b), recording.DiffOptions{Secrets: true, Metadata: true})
	if fields := reordered(a, b); len(changes) == 0 && len(fields) > 0 {
		return whose + ": " + strings.Join(fields, "; ")
	}
	if err != nil || len(changes) == 0 {
		return fmt.Sprintf("%s: %s or %s", whose, a, b)
	}
	var fields []string
	for _, c := range changes {
		x, y := excerpts(c.From, c.To)
		fields = append(fields, fmt.Sprintf("%s: %s or %s", c.Path, x, y))
	}
	return whose + ": " + strings.Join(fields, "; ")
}

// splitVersion divides a text of history.all into the description and the JSON of a version.
func splitVersion(text string) (whose, data string) {
	if at := strings.IndexByte(text, '{'); at >= 0 {
		return strings.TrimSpace(text[:at]), text[at:]
	}
	return text, ""
}
