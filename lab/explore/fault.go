package explore

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is the kind of a fault. Real API servers, networks and processes can have each of these
// faults.
type Kind string

const (
	// KillBefore kills the operator's process just before a write reaches the server; KillAfter
	// after the server has executed it and before the response arrives. The next process starts
	// with empty memory.
	KillBefore Kind = "kill-before"
	KillAfter  Kind = "kill-after"
	// KillStale is KillAfter, and the next process talks to a server whose cached reads (lists with
	// resourceVersion=0, and the watches that follow them) still show the state before the write.
	KillStale Kind = "kill-stale"
	// KillOld is KillStale with an older state: the one just before the last removal of an object
	// that precedes the write. The removals that follow that of an owner do not count.
	KillOld Kind = "kill-old"
	// Lose has the server execute a write and loses the response.
	Lose Kind = "lose-response"
	// Conflict, TooMany and Internal answer a write with 409, 429 or 500 without executing it.
	Conflict Kind = "conflict"
	TooMany  Kind = "too-many-requests"
	Internal Kind = "internal-error"
	// Hold delays a write until everything else is quiet. HoldInput delays it until the next input
	// has been made and everything else is quiet again.
	Hold      Kind = "hold"
	HoldInput Kind = "hold-past-input"
	// Freeze delays an event, and all later ones of its resource, until everything else is quiet;
	// FreezeAll delays those of all resources.
	Freeze    Kind = "freeze"
	FreezeAll Kind = "freeze-all"
	// Cut ends the watch before an event. The operator has to list again, and the list is delayed
	// until everything else is quiet, so the operator never gets the states in between.
	Cut Kind = "cut"
	// SlowResponse has the server execute a write and delays the response until everything else is
	// quiet, which is longer than the operator's own timeouts.
	SlowResponse Kind = "slow-response"
	// TwoLeaders delays a write until everything else is quiet, and meanwhile starts another
	// process of the operator, as if the first one had lost its lease without noticing. Then the
	// write reaches the server, and the first process ends.
	TwoLeaders Kind = "two-leaders"
	// Deny answers a write, and all later ones of its verb and resource, with 403 as an admission
	// webhook does, until everything else is quiet.
	Deny Kind = "deny"
	// ForeignWrite has another client change a field of the object just before an update or patch
	// of it reaches the server. In the field metadata.finalizers, it adds a finalizer. See O13.
	ForeignWrite Kind = "foreign-write"
	// Down kills the process, and starts the next one two seconds after the next input: users
	// change objects while the operator does not run.
	Down Kind = "down"
	// PendingClaim delays the creation of the volume for a claim until everything else is quiet.
	PendingClaim Kind = "pending-claim"
	// Revoke answers a write, and all later requests for its resource, reads included, with 403 as
	// RBAC does, until everything else is quiet. Watches that are open continue.
	Revoke Kind = "revoke"
	// Quota answers a creation, and all later ones of its resource, with 403 as an exceeded
	// ResourceQuota does, until everything else is quiet.
	Quota Kind = "quota"
	// ServerRestart restarts the server at a write, which it does not execute, or at an event: all
	// watches end, no request reaches it for some seconds, and it cannot continue watches from
	// earlier revisions.
	ServerRestart Kind = "server-restart"
	// Occupied has another client create an object, without an owner, just before the operator
	// creates one of the same name.
	Occupied Kind = "occupied"
	// Mutate has an admission policy of another party change the objects of a resource, from just
	// before the operator creates the first one until the end.
	Mutate Kind = "mutate"
	// Order runs the pending requests and events in a random order, by a seed. Priorities gives
	// each watch, and the requests for each object, a random priority, and sometimes lowers the
	// priority of the next one to the lowest. So some messages are delayed for long, which rarely
	// happens in random orders.
	Order      Kind = "order"
	Priorities Kind = "priorities"
)

// onWrites and onEvents are the kinds of faults at writes and at events of watches.
var (
	onWrites = []Kind{KillBefore, KillAfter, KillStale, KillOld, Lose, Conflict, TooMany, Internal, Hold, HoldInput,
		SlowResponse, TwoLeaders, Deny, ForeignWrite, Revoke, Quota, ServerRestart, Occupied, Mutate}
	onEvents = []Kind{Freeze, FreezeAll, Cut, ServerRestart}
	onClaims = []Kind{PendingClaim}
	onInputs = []Kind{Down}
)

// provision is the verb of the points at which the control plane creates a volume for a claim.
const provision = "provision"

// isOrder reports whether a kind determines the order of all steps of a run, by a seed.
func (k Kind) isOrder() bool { return k == Order || k == Priorities }

// Point is a moment in a run: the n-th write or event of its kind.
type Point struct {
	// Verb is create, update, patch, apply, delete or deletecollection for requests, the method in
	// upper case for calls of services, CALL or QUERY for those of gRPC, added, modified or deleted
	// for events, provision for the volume of a claim, after for the moment at which the operator
	// is quiet after the N-th input, and during for the N-th input itself. The input after the last
	// one is the deletion of the objects.
	Verb string
	// Resource is the group resource, with a subresource after a slash.
	Resource string
	// Object is NAMESPACE/NAME, or NAME for cluster-scoped objects. A generated name ends in "*".
	// It is empty for inputs.
	Object string
	// N counts from 1.
	N int
}

func (p Point) String() string {
	if p.Verb == during {
		return fmt.Sprintf("%s %s #%d", p.Verb, p.Resource, p.N)
	}
	return fmt.Sprintf("%s %s %s #%d", p.Verb, p.Resource, p.Object, p.N)
}

// isEvent reports whether the point is an event of a watch.
func (p Point) isEvent() bool {
	return p.Verb == "added" || p.Verb == "modified" || p.Verb == "deleted"
}

// kinds returns the kinds of faults at a point.
func (p Point) kinds() []Kind {
	switch {
	case p.isEvent():
		return onEvents
	case p.Verb == provision:
		return onClaims
	case p.Verb == after:
		return actionKinds
	case p.Verb == during:
		return onInputs
	case p.isCall() && queries.Has(p.Verb):
		return onQueries
	case p.isCall():
		return onCalls
	}
	return onWrites
}

// Fault is one difference from the run without faults.
type Fault struct {
	Kind Kind
	At   Point  // not for Order and Priorities
	Seed uint64 // for these
	// Field is a path of names and indexes such as spec.ports.0.name, and Value its value as JSON:
	// of SetField, Flicker, CreateWith, EditChild and ForeignWrite. The value null removes the
	// field.
	Field, Value string
}

func (f Fault) String() string {
	if f.Kind.isOrder() {
		return fmt.Sprintf("%s %d", f.Kind, f.Seed)
	}
	text := fmt.Sprintf("%s %s", f.Kind, f.At)
	if f.Field != "" {
		text += " " + f.Field + "=" + separators.Replace(f.Value)
	}
	return text
}

// separators escapes, within JSON, the characters that end a fault or an argument of a shell.
var separators = strings.NewReplacer(";", `\u003b`, "'", `\u0027`)

// Plan lists the faults of one run. The empty plan is the run without faults.
type Plan []Fault

// String returns the plan in the form that ParsePlan reads.
func (p Plan) String() string {
	if len(p) == 0 {
		return "no faults"
	}
	parts := make([]string, len(p))
	for i, f := range p {
		parts[i] = f.String()
	}
	return strings.Join(parts, "; ")
}

var faultForm = regexp.MustCompile(`^(\S+) (\S+) (\S+) (\S*) ?#([1-9]\d*)(?: ([^ =]+)=(.*))?$`)

// ParsePlan reads a plan, such as "kill-after create pods default/web #1; order 7".
func ParsePlan(text string) (Plan, error) {
	var plan Plan
	if text = strings.TrimSpace(text); text == "" || text == "no faults" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ";") {
		part = strings.TrimSpace(part)
		if kind, seed, _ := strings.Cut(part, " "); Kind(kind).isOrder() {
			n, err := strconv.ParseUint(seed, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("fault %q: the seed is not a number", part)
			}
			plan = append(plan, Fault{Kind: Kind(kind), Seed: n})
			continue
		}
		m := faultForm.FindStringSubmatch(part)
		if m == nil {
			return nil, fmt.Errorf("fault %q: want KIND VERB RESOURCE OBJECT #N [FIELD=VALUE], order SEED or priorities SEED", part)
		}
		n, err := strconv.Atoi(m[5])
		if err != nil {
			return nil, fmt.Errorf("fault %q: %w", part, err)
		}
		f := Fault{Kind: Kind(m[1]), At: Point{Verb: m[2], Resource: m[3], Object: m[4], N: n}, Field: m[6],
			Value: m[7]}
		kinds := f.At.kinds()
		switch {
		case f.Field != "" && !json.Valid([]byte(f.Value)):
			return nil, fmt.Errorf("fault %q: the value %s is not JSON", part, f.Value)
		case (f.Field != "") != slices.Contains(withField, f.Kind):
			return nil, fmt.Errorf("fault %q: only %v have a field, and must have one", part, withField)
		}
		if !slices.Contains(kinds, f.Kind) {
			return nil, fmt.Errorf("fault %q: kind %q is not one of %v", part, f.Kind, kinds)
		}
		if d, err := time.ParseDuration(f.At.Object); f.Kind == ClockJump && (err != nil || d <= 0) {
			return nil, fmt.Errorf("fault %q: %q is not a positive duration", part, f.At.Object)
		}
		plan = append(plan, f)
	}
	return plan, nil
}
