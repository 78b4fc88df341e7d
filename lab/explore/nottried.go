package explore

import (
	"fmt"
	"slices"
	"strings"
)

// NotTried says why plans with a kind of fault were not tried.
type NotTried struct {
	Kind   Kind
	Reason string
	// Plans is the number of plans that would exist otherwise; 0 if there are none for this
	// operator.
	Plans int
}

// notTried records plans that were not tried.
func (c *campaign) notTried(kind Kind, reason string, plans int) {
	c.report.addNotTried(kind, reason, plans)
}

func (r *Report) addNotTried(kind Kind, reason string, plans int) {
	for i := range r.NotTried {
		if n := &r.NotTried[i]; n.Kind == kind && n.Reason == reason {
			n.Plans += plans
			return
		}
	}
	r.NotTried = append(r.NotTried, NotTried{kind, reason, plans})
}

// possible returns the plans whose faults can occur for the operator.
func (c *campaign) possible(plans []Plan) []Plan {
	return slices.DeleteFunc(plans, func(p Plan) bool {
		if !p.stale() {
			return false
		}
		reason := c.base.neverStale(c.scenario.WatchList, p[0])
		if reason != "" {
			c.notTried(p[0].Kind, reason, 1)
		}
		return reason != ""
	})
}

// neverStale returns why a stale restart cannot show an older state to the operator; "" if the runs
// without faults have a request that it can affect.
func (b *baseline) neverStale(mode WatchList, f Fault) string {
	run := b.first
	if b.stale != nil {
		run = b.stale
	}
	switch resource, _, _ := strings.Cut(f.At.Resource, "/"); {
	case b.noStale != "":
		return b.noStale
	case len(run.cached) == 0 && mode == WatchListServed && run.sentWatchLists:
		return "the server serves watch lists, as the scenario requires, and the operator has no other read that may be old"
	case len(run.cached) == 0:
		return "all reads of the operator are consistent, so none may be old"
	case f.Kind == KillStale && !run.cached[resource]:
		return "the operator does not read the resource of the write through a cache of the server"
	}
	return ""
}

// reasons has the reason for which no plan has a kind of fault, for each kind of which that may be
// the case.
var reasons = []struct {
	reason string
	kinds  []Kind
}{
	{"nothing is removed before a write of the operator", []Kind{KillOld}},
	{"the operator sends no such write", []Kind{Conflict, ForeignWrite}},
	{"no write comes before the last input", []Kind{HoldInput}},
	{"no volume is created for a claim", []Kind{PendingClaim}},
	{"the operator creates no objects", []Kind{Quota, Occupied, Mutate}},
	{"no object that the operator has created exists when it is quiet", []Kind{DeleteChild, Finalizer}},
	{"the operator creates no object with a field that can be changed", []Kind{EditChild}},
	{"no objects exist of a definition with several served versions", []Kind{StorageVersion}},
	{"no Pods run", []Kind{FailPod, DeletePod, LoseNode, SilenceNode}},
	{"no input creates an object of a custom kind", []Kind{SetField, Flicker}},
	{"no input creates an object", []Kind{Recreate, Batch}},
	{"the operator calls no service that explore.yaml describes", []Kind{Refuse, Unavailable}},
	{"the operator watches nothing that changes", onEvents},
}

// noteMissing records the kinds of faults without a plan, and why.
func (c *campaign) noteMissing(plans []Plan) {
	has := map[Kind]bool{}
	for _, p := range plans {
		has[p[0].Kind] = true
	}
	for _, n := range c.report.NotTried {
		has[n.Kind] = true
	}
	missing := func(reason string, kinds ...Kind) {
		for _, kind := range kinds {
			if !has[kind] {
				has[kind] = true
				c.notTried(kind, reason, 0)
			}
		}
	}
	if c.hasWebhooks() {
		missing("users cannot create objects while the operator's webhooks are down", Down)
	}
	if c.wire != nil {
		missing("it needs virtual time", append([]Kind{SilenceNode, TimeZone}, ofFormer...)...)
		missing("runs of a process differ, so the runs with which it is compared do, too", ForeignWrite)
	}
	if has[Quota] {
		missing("the server generates the names of the objects that the operator creates", Occupied)
	}
	if c.virtual == nil {
		missing("the operator is not a program of its own", TimeZone)
	}
	if !c.scenario.hasFormer() {
		missing("they need a former version of the operator (--former)", ofFormer...)
	} else if !c.definitionsDiffer {
		missing("the former version has the same definitions", UpgradeDefinitions)
	}
	for _, r := range reasons {
		missing(r.reason, r.kinds...)
	}
}

// notTriedText is the text of a summary, a line for each reason.
func notTriedText(all []NotTried) string {
	var b strings.Builder
	told := map[string]bool{}
	for _, n := range all {
		if told[n.Reason] {
			continue
		}
		told[n.Reason] = true
		var kinds []string
		for _, other := range all {
			if other.Reason != n.Reason {
				continue
			}
			kind := string(other.Kind)
			if other.Plans > 0 {
				kind = fmt.Sprintf("%s (%d plans)", kind, other.Plans)
			}
			kinds = append(kinds, kind)
		}
		fmt.Fprintf(&b, "\nnot tried: %s: %s", strings.Join(kinds, ", "), n.Reason)
	}
	return b.String()
}
