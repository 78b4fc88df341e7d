package explore

import "math/rand/v2"

// order chooses the step that comes next. The zero value is the default order. Faults set it before
// the first step, and a branch during the run.
type order struct {
	random     *rand.Rand  // nil for another order
	priorities *priorities // nil for another order; they come before random
}

// fixed reports whether the order is the default one.
func (o *order) fixed() bool { return o.random == nil && o.priorities == nil }

// choose returns the step that comes next: the first, a random one, or that of the highest
// priority.
func (o *order) choose(steps []*step) *step {
	switch {
	case o.priorities != nil:
		return o.priorities.choose(steps)
	case o.random != nil:
		return steps[o.random.IntN(len(steps))]
	}
	return steps[0]
}

// demotions is the average number of steps between two demotions, in which the lane of the next
// step gets the lowest priority.
const demotions = 40

// priorities implements the order of Priorities.
type priorities struct {
	random *rand.Rand
	byLane map[string]int // the priority of each lane
	lowest int
}

func newPriorities(seed uint64) *priorities {
	return &priorities{random: rand.New(rand.NewPCG(seed, 3)), byLane: map[string]int{}}
}

// lane returns the key of a step's priority: its watch, or the object of its request.
func (s *step) lane() string {
	if s.phase == delivering {
		return "watch " + s.call.resource
	}
	return s.call.resource + " " + s.call.object
}

func (p *priorities) choose(steps []*step) *step {
	best, highest := steps[0], 0
	for i, s := range steps {
		priority, ok := p.byLane[s.lane()]
		if !ok {
			priority = p.random.IntN(1 << 20)
			p.byLane[s.lane()] = priority
		}
		if i == 0 || priority > highest {
			best, highest = s, priority
		}
	}
	if p.random.IntN(demotions) == 0 {
		p.lowest--
		p.byLane[best.lane()] = p.lowest
	}
	return best
}
