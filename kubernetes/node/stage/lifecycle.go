package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Program is a compiled Stage.
type Program struct {
	// Name is the name of the Stage.
	Name string
	// Kind is the kind of the Stage's objects.
	Kind schema.GroupVersionKind
	// Immediate means that the controller looks for the next Stage without waiting for an event.
	Immediate bool

	selects     bool
	labels      labels.Selector
	annotations labels.Selector
	conditions  []condition
	weight      weightValue
	delay       *durationValue
	jitter      *durationValue
	steps       []step
}

// Compile checks a Stage and compiles it. The error is one line and names the Stage.
func Compile(s *Stage) (*Program, error) {
	p, err := compile(s)
	if err != nil {
		return nil, fmt.Errorf("stage %q: %s", s.Name, oneLine(err))
	}
	return p, nil
}

func compile(s *Stage) (_ *Program, err error) {
	if s.Spec.ResourceRef.Kind == "" {
		return nil, errors.New("spec.resourceRef.kind is missing")
	}
	version, err := schema.ParseGroupVersion(cmp.Or(s.Spec.ResourceRef.APIGroup, "v1"))
	if err != nil {
		return nil, fmt.Errorf("spec.resourceRef.apiGroup: %w", err)
	}
	p := &Program{Name: s.Name, Kind: version.WithKind(s.Spec.ResourceRef.Kind),
		weight:    weightValue{fixed: int64(s.Spec.Weight)},
		Immediate: s.Spec.ImmediateNextStage != nil && *s.Spec.ImmediateNextStage}
	if s.Spec.Weight < 0 {
		return nil, fmt.Errorf("spec.weight %d: must not be negative", s.Spec.Weight)
	}
	if s.Spec.Selector != nil {
		if err := p.compileSelector(s.Spec.Selector); err != nil {
			return nil, fmt.Errorf("spec.selector: %w", err)
		}
	}
	if from := s.Spec.WeightFrom; from != nil {
		if p.weight.from, err = newSource(from); err != nil {
			return nil, fmt.Errorf("spec.weightFrom: %w", err)
		}
	}
	if d := s.Spec.Delay; d != nil {
		if err := p.compileDelay(d); err != nil {
			return nil, fmt.Errorf("spec.delay: %w", err)
		}
	}
	for i, definition := range s.Spec.steps() {
		compiled, err := compileStep(definition)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i+1, err)
		}
		p.steps = append(p.steps, compiled)
	}
	return p, nil
}

func (p *Program) compileSelector(s *Selector) (err error) {
	p.selects = true
	if p.labels, err = labels.ValidatedSelectorFromSet(s.MatchLabels); err != nil {
		return err
	}
	p.annotations = labels.SelectorFromSet(s.MatchAnnotations) // their values need not be labels
	for _, e := range s.MatchExpressions {
		var c condition
		switch {
		case e.JQ != nil:
			c, err = newRequirement(*e.JQ)
		case e.CEL != nil:
			c, err = newCondition(e.CEL)
		case e.Key != "":
			c, err = newRequirement(Requirement{Key: e.Key, Operator: e.Operator, Values: e.Values})
		default:
			err = errors.New("an expression needs jq, cel or key")
		}
		if err != nil {
			return err
		}
		p.conditions = append(p.conditions, c)
	}
	return nil
}

func (p *Program) compileDelay(d *Delay) error {
	for _, milliseconds := range []*int64{d.DurationMilliseconds, d.JitterDurationMilliseconds} {
		if milliseconds != nil && *milliseconds < 0 {
			return fmt.Errorf("%d milliseconds: must not be negative", *milliseconds)
		}
	}
	milliseconds := d.DurationMilliseconds
	if milliseconds == nil {
		milliseconds = new(int64)
	}
	delay, err := newDuration(milliseconds, d.DurationFrom)
	if err != nil {
		return err
	}
	p.delay = &delay
	if d.JitterDurationMilliseconds != nil || d.JitterDurationFrom != nil {
		jitter, err := newDuration(d.JitterDurationMilliseconds, d.JitterDurationFrom)
		if err != nil {
			return err
		}
		p.jitter = &jitter
	}
	return nil
}

// Matches reports whether the Stage selects the object in its current state.
func (p *Program) Matches(ctx context.Context, o *Object) bool {
	if !p.selects || !p.labels.Matches(labels.Set(o.GetLabels())) ||
		!p.annotations.Matches(labels.Set(o.GetAnnotations())) {
		return false
	}
	for _, holds := range p.conditions {
		if !holds(ctx, o) {
			return false
		}
	}
	return true
}

// Weight returns the weight of the Stage for an object; ok is false if the object excludes the
// Stage from the choice.
func (p *Program) Weight(ctx context.Context, o *Object) (_ int64, ok bool) {
	return p.weight.get(ctx, o)
}

// DelayRange returns the shortest and the longest delay from now; ok is false if the Stage has
// none. Both can be negative, for times in the past.
func (p *Program) DelayRange(ctx context.Context, o *Object, now time.Time) (shortest, longest time.Duration, ok bool) {
	if p.delay == nil {
		return 0, 0, false
	}
	if shortest, ok = p.delay.get(ctx, o, now); !ok {
		return 0, 0, false
	}
	if p.jitter == nil {
		return shortest, shortest, true
	}
	longest, ok = p.jitter.get(ctx, o, now)
	switch {
	case !ok:
		return shortest, shortest, true
	case longest <= shortest: // the jitter is an upper bound, as in KWOK
		return longest, longest, true
	}
	return shortest, longest, true
}

// Delay returns how long from now the object stays in its state. random(n) returns a number in
// [0,n).
func (p *Program) Delay(ctx context.Context, o *Object, now time.Time, random func(int64) int64) time.Duration {
	shortest, longest, _ := p.DelayRange(ctx, o, now)
	if longest > shortest {
		shortest += time.Duration(random(int64(longest - shortest)))
	}
	return max(shortest, 0)
}

// Lifecycle is the Stages of one kind.
type Lifecycle []*Program

// Candidates returns the Stages among which one is chosen for an object in its current state, and
// their weights. If all weights are 0, the Stages are equally likely.
func (l Lifecycle) Candidates(ctx context.Context, o *Object) (candidates []*Program, weights []int64) {
	var withoutWeight, zero []*Program
	for _, p := range l {
		if !p.Matches(ctx, o) {
			continue
		}
		switch w, ok := p.Weight(ctx, o); {
		case !ok:
			withoutWeight = append(withoutWeight, p)
		case w <= 0:
			zero = append(zero, p)
		default:
			candidates, weights = append(candidates, p), append(weights, w)
		}
	}
	switch {
	case len(candidates) > 0:
		return candidates, weights
	case len(zero) > 0:
		return zero, make([]int64, len(zero))
	}
	return withoutWeight, make([]int64, len(withoutWeight))
}

// Choose returns the Stage that applies to an object in its current state, or nil. random(n)
// returns a number in [0,n).
func (l Lifecycle) Choose(ctx context.Context, o *Object, random func(int64) int64) *Program {
	candidates, weights := l.Candidates(ctx, o)
	switch len(candidates) {
	case 0:
		return nil
	case 1:
		return candidates[0]
	}
	var total int64
	for _, w := range weights {
		total += w
	}
	if total == 0 {
		return candidates[random(int64(len(candidates)))]
	}
	at := random(total)
	for i, w := range weights {
		if at -= w; at < 0 {
			return candidates[i]
		}
	}
	return candidates[len(candidates)-1]
}
