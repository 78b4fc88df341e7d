package flowcontrol

import (
	"math"
	"sort"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/apihelpers"
	"k8s.io/apiserver/pkg/util/shufflesharding"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// The resources of the configuration, as in store.Key.
const (
	flowSchemas    = "flowschemas.flowcontrol.apiserver.k8s.io"
	priorityLevels = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io"
)

// config is the configuration at one state of the store. It is immutable, except for its levels.
type config struct {
	changed  uint64
	schemas  []*schema // in the order of matching; the last one matches every request
	levels   map[string]*level
	draining map[string]bool // deleted levels that still have requests
	nominals int             // the sum of the nominal seats of all levels
}

// classify returns the FlowSchema of a request.
func (c *config) classify(info *request.RequestInfo, u user.Info) *schema {
	last := len(c.schemas) - 1
	for _, s := range c.schemas[:last] {
		if matches(s.fs, info, u) {
			return s
		}
	}
	return c.schemas[last]
}

// read returns the configuration of the newest state. It keeps existing levels, by name. Deleted
// levels remain until their last request has ended, because the requests still need a share of the
// seats. The caller holds mu.
func (c *Controller) read(changed uint64) *config {
	sn, before := c.store.Snapshot(), c.current.Load()
	next := &config{changed: changed, levels: map[string]*level{}, draining: map[string]bool{}}
	uids := map[string]string{}
	var shares float64
	add := func(pl *flowcontrolv1.PriorityLevelConfiguration) {
		l := c.level(before, pl.Name)
		l.mu.Lock()
		l.spec = pl
		l.mu.Unlock()
		next.levels[pl.Name], uids[pl.Name] = l, string(pl.UID)
		shares += float64(sharesOf(pl).nominal)
	}
	for pl, err := range derived.List[flowcontrolv1.PriorityLevelConfiguration](sn, priorityLevels, "") {
		if err == nil && usable(pl) {
			add(pl)
		}
	}
	for _, pl := range bootstrap.MandatoryPriorityLevelConfigurations {
		if next.levels[pl.Name] == nil {
			add(pl)
		}
	}
	next.schemas = c.schemas(sn, next, uids)
	if before != nil {
		for name, l := range before.levels {
			if next.levels[name] == nil && !l.idle() {
				next.levels[name], next.draining[name] = l, true
				shares += float64(sharesOf(l.spec).nominal)
			}
		}
	}
	c.forget(next)
	waiting := 0
	for name, l := range next.levels {
		levelShares := sharesOf(l.spec)
		waiting += l.capacity()
		nominal := int(math.Ceil(float64(c.seats) * float64(levelShares.nominal) / shares))
		lendable := int(math.Round(float64(nominal) * float64(levelShares.lendable) / 100))
		l.bounds = bounds{nominal: nominal, min: nominal - lendable,
			max: nominal + levelShares.borrowable(nominal, c.seats)}
		next.nominals += nominal
		if q := l.queuing(); q != nil {
			// Kubernetes' rule: a request takes at most 15 % of its level's seats, and leaves at
			// least one seat for each queue of a hand.
			c.maxSeats.SetMaxSeats(name, uint64(max(1,
				min(math.Ceil(float64(nominal)*0.15), float64(int32(nominal)/q.HandSize)))))
		} else {
			c.maxSeats.ForgetPriorityLevel(name)
		}
	}
	c.kinds.limit(next.nominals, waiting)
	return next
}

// forget removes the counts of FlowSchemas that no longer apply and have no requests. The caller
// holds mu.
func (c *Controller) forget(next *config) {
	used := map[*counts]bool{c.counted[countsKey{exemptName, exemptName}]: true}
	for _, s := range next.schemas {
		used[s.counts] = true
	}
	for key, n := range c.counted {
		if !used[n] && n.executing.Load() == 0 && n.queued.Load() == 0 {
			delete(c.counted, key)
		}
	}
}

// level returns the existing level with a name, or a new one.
func (c *Controller) level(before *config, name string) *level {
	switch {
	case name == exemptName:
		return c.exempt
	case before != nil && before.levels[name] != nil:
		return before.levels[name]
	}
	return newLevel(name, c)
}

// schemas returns the FlowSchemas whose level exists, in order of precedence, with the mandatory
// ones.
func (c *Controller) schemas(sn *store.Snapshot, next *config, uids map[string]string) []*schema {
	var all apihelpers.FlowSchemaSequence
	have := map[string]bool{}
	for fs, err := range derived.List[flowcontrolv1.FlowSchema](sn, flowSchemas, "") {
		if err == nil && next.levels[fs.Spec.PriorityLevelConfiguration.Name] != nil {
			all = append(all, fs)
			have[fs.Name] = true
		}
	}
	sort.Sort(all)
	if fs := bootstrap.MandatoryFlowSchemaExempt; !have[fs.Name] {
		all = append(apihelpers.FlowSchemaSequence{fs}, all...)
	}
	if fs := bootstrap.MandatoryFlowSchemaCatchAll; !have[fs.Name] {
		all = append(all, fs)
	}
	schemas := make([]*schema, 0, len(all)+1)
	for _, fs := range all {
		level := fs.Spec.PriorityLevelConfiguration.Name
		schemas = append(schemas, &schema{
			fs: fs, level: next.levels[level], uid: []string{string(fs.UID)}, levelUID: []string{uids[level]},
			counts: c.countsOf(fs.Name, level),
		})
	}
	// Requests that match no FlowSchema use catch-all, regardless of its position in the order.
	for _, s := range schemas {
		if s.fs.Name == flowcontrolv1.FlowSchemaNameCatchAll {
			return append(schemas, s)
		}
	}
	return schemas
}

// usable reports whether this package supports a level. Validation rejects all other levels.
func usable(pl *flowcontrolv1.PriorityLevelConfiguration) bool {
	exempt := pl.Spec.Type == flowcontrolv1.PriorityLevelEnablementExempt
	switch {
	case exempt != (pl.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt),
		exempt != (pl.Spec.Exempt != nil), exempt == (pl.Spec.Limited != nil):
		return false
	case exempt:
		return true
	}
	response := pl.Spec.Limited.LimitResponse
	switch {
	case (response.Type == flowcontrolv1.LimitResponseTypeQueue) != (response.Queuing != nil):
		return false
	case response.Queuing == nil:
		return true
	}
	_, err := shufflesharding.NewDealer(int(response.Queuing.Queues), int(response.Queuing.HandSize))
	return err == nil && response.Queuing.HandSize > 0
}

// shares are a level's share of all seats, and the percentages of this share that the level lends
// and borrows.
type shares struct {
	nominal, lendable int32
	borrowing         *int32 // nil: no limit
}

func sharesOf(pl *flowcontrolv1.PriorityLevelConfiguration) shares {
	value := func(p *int32) int32 {
		if p == nil {
			return 0
		}
		return *p
	}
	if limited := pl.Spec.Limited; limited != nil {
		return shares{value(limited.NominalConcurrencyShares), value(limited.LendablePercent),
			limited.BorrowingLimitPercent}
	}
	return shares{value(pl.Spec.Exempt.NominalConcurrencyShares), value(pl.Spec.Exempt.LendablePercent), nil}
}

// borrowable returns how many seats a level may have beyond its nominal ones.
func (s shares) borrowable(nominal, all int) int {
	if s.borrowing == nil {
		return all
	}
	return int(math.Round(float64(nominal) * float64(*s.borrowing) / 100))
}
