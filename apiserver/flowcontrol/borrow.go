package flowcontrol

import (
	"math"
	"slices"
	"time"

	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
)

// Busy levels borrow seats from idle ones. Kubernetes always divides the seats again every ten
// seconds. This package starts to do so when a level is busy (requests wait, or more than half of
// its seats are taken) and stops when no level was busy for a whole period. It treats the demand
// while it is stopped as zero, so it need not count anything then.

const (
	// adjustEvery is Kubernetes' borrowing adjustment period.
	adjustEvery = 10 * time.Second
	// smoothing is the factor by which the smoothed demand decays in a period. The demand halves in
	// five minutes.
	smoothing = 0.977
)

// stats describes the demand for a level's seats.
type stats struct {
	average, deviation float64
	highest            int     // in the last period
	smoothed           float64 // falls slowly after a peak
}

// update adds the observations of a period.
func (s *stats) update(seen fq.IntegratorResults) {
	s.highest = int(math.Round(seen.Max))
	if seen.Duration <= 0 {
		return
	}
	if math.IsNaN(seen.Deviation) {
		seen.Deviation = 0
	}
	s.average, s.deviation = seen.Average, seen.Deviation
	envelope := seen.Average + seen.Deviation
	s.smoothed = max(envelope, smoothing*s.smoothed+(1-smoothing)*envelope)
}

// beginAdjusting starts the periodic division of seats, unless it runs already.
func (c *Controller) beginAdjusting() {
	if c.adjusting.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped || c.adjusting.Load() {
		return
	}
	current := c.current.Load()
	if current == nil {
		return
	}
	for _, l := range current.levels {
		l.resume(time.Since(c.adjusted))
	}
	c.adjusting.Store(true)
	c.divide(current, false)
	if c.adjuster == nil {
		c.adjuster = time.AfterFunc(adjustEvery, c.adjust)
	} else {
		c.adjuster.Reset(adjustEvery)
	}
}

// resume starts to observe a level's demand after a period without observation.
func (l *level) resume(idle time.Duration) {
	demand := l.inDirect.Load() + l.inQueues.Load()
	l.demand.Set(float64(demand))
	l.demand.Reset()
	l.smoothed.highest = int(demand)
	l.smoothed.smoothed *= math.Pow(smoothing, idle.Seconds()/adjustEvery.Seconds())
}

// adjust divides the seats at the end of a period.
func (c *Controller) adjust() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	current := c.current.Load()
	for name := range current.draining {
		if current.levels[name].idle() { // a deleted level whose last request has ended
			current = c.read(current.changed)
			break
		}
	}
	busy := c.divide(current, true)
	c.current.Store(current)
	if busy {
		c.adjuster.Reset(adjustEvery)
		return
	}
	c.adjusting.Store(false)
}

// divide sets the limit of each level, from its share and the demand of all levels. It reports
// whether a level is busy. The caller holds mu.
func (c *Controller) divide(cfg *config, observed bool) (busy bool) {
	c.adjusted = time.Now()
	var items []wish
	var levels []*level
	rest, mins, leasts := cfg.nominals, 0, 0
	for _, l := range cfg.levels {
		if observed {
			l.smoothed.update(l.demand.Reset())
		}
		highest := l.smoothed.highest
		if l == c.exempt {
			rest -= max(l.bounds.min, highest)
			continue
		}
		busy = busy || 2*highest > l.limit
		least := max(l.bounds.min, min(l.bounds.nominal, highest))
		mins, leasts = mins+l.bounds.min, leasts+least
		levels = append(levels, l)
		items = append(items, wish{low: float64(least), high: float64(l.bounds.max),
			target: max(float64(least), l.smoothed.smoothed)})
	}
	limits := allocate(float64(cfg.nominals), items)
	for i, l := range levels {
		limit := int(math.Round(limits[i]))
		switch {
		case rest <= mins: // the exempt level leaves only the minimum
			limit = l.bounds.min
		case rest <= leasts:
			share := float64(rest-mins) / float64(leasts-mins)
			limit = l.bounds.min + int(math.Round((items[i].low-float64(l.bounds.min))*share))
		}
		l.setLimit(limit)
	}
	return busy
}

// wish is the number of seats that a level should get: a target and its bounds.
type wish struct{ low, high, target float64 }

// allocate divides sum seats. Each wish gets its target times a common factor, limited by its
// bounds. If no factor results in the sum, all wishes get their lower bounds, or all get their
// upper bounds.
func allocate(sum float64, wishes []wish) []float64 {
	const least = 0.001 // a target of zero would not grow
	at := func(factor float64) (all []float64, total float64) {
		for _, w := range wishes {
			seats := min(max(factor*max(w.target, least), w.low), w.high)
			all, total = append(all, seats), total+seats
		}
		return all, total
	}
	factors := []float64{0} // total is linear between adjacent factors
	for _, w := range wishes {
		factors = append(factors, w.low/max(w.target, least), w.high/max(w.target, least))
	}
	slices.Sort(factors)
	before, below := 0.0, 0.0
	for i, factor := range factors {
		all, total := at(factor)
		if total < sum {
			before, below = factor, total
			continue
		}
		if i == 0 || total == below {
			return all
		}
		all, _ = at(before + (sum-below)*(factor-before)/(total-below))
		return all
	}
	all, _ := at(before)
	return all
}
