package causes

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// LoggedStep is a write in an audit log with its probable cause.
type LoggedStep struct {
	*LoggedWrite
	// Exact is the same write in the trace of the operator that made it. Its causes are recorded,
	// not concluded, so the other fields are empty.
	Exact *Step `json:"exact,omitempty"`
	// Probably is the write that most probably caused this one. It is nil if First contains the
	// reason, or if the cause is unknown.
	Probably *Inference `json:"probably,omitempty"`
	// First describes the first cause: a request of a person, a schedule, a node.
	First string `json:"first,omitempty"`
	// Repeated means that another place of the explanation has the causes, and Cut that the chain
	// is too long.
	Repeated bool `json:"repeated,omitempty"`
	Cut      bool `json:"cut,omitempty"`
}

// Inference is a conclusion from an audit log.
type Inference struct {
	Cause *LoggedStep `json:"cause"`
	// Earlier is the time between the server's receipt of the cause and of this write.
	Earlier metav1.Duration `json:"earlier"`
	// Evidence lists the reasons why the cause is probable.
	Evidence []string `json:"evidence"`
	// Others is the number of other writes that fit, but less well.
	Others int `json:"others,omitempty"`
}

const (
	// maxReaction is the longest time between a write and an operator's reaction to it.
	maxReaction = time.Minute
	// minScore is the least score of a cause.
	minScore = 45
)

// Attach connects l and a trace: for the writes in the trace, the answers of l become exact, and
// chains of the trace continue in l.
func (l *Log) Attach(t *Trace) {
	l.trace = t
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log = l
}

// Find returns the objects in the log with a kind or resource, and a name, as [Trace.Find].
func (l *Log) Find(kind, namespace, name string) []Object {
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
	found := map[Object]bool{}
	for _, w := range l.writes {
		if w.Name == name && (namespace == "" || w.Namespace == namespace) &&
			(isKind(kind, w.Kind) || isResource(kind, w.Resource)) {
			found[w.Object()] = true
		}
	}
	all := slices.Collect(maps.Keys(found))
	slices.SortFunc(all, func(x, y Object) int { return strings.Compare(x.String(), y.String()) })
	return all
}

// isResource reports whether a name is that of a resource, in singular or plural.
func isResource(name, resource string) bool {
	resource, _, _ = strings.Cut(resource, ".")
	return plural(name, resource)
}

// Explain returns the last writes of an object with their probable causes, the oldest first, and
// the number of earlier ones.
func (l *Log) Explain(o Object, last int) (steps []*LoggedStep, earlier int) {
	if l.trace != nil {
		l.trace.mu.RLock()
		defer l.trace.mu.RUnlock()
	}
	var writes []*LoggedWrite
	for _, w := range l.writes {
		if w.Object() == o {
			writes = append(writes, w)
		}
	}
	earlier = max(0, len(writes)-max(0, last))
	shown := map[*LoggedWrite]bool{}
	for _, w := range writes[earlier:] {
		steps = append(steps, l.step(w, shown, 1))
	}
	return steps, earlier
}

// wrote returns the write that made a version of an object.
func (l *Log) wrote(o Object, version string) *LoggedWrite {
	for _, w := range l.writes {
		if version != "" && w.ResourceVersion == version && w.Namespace == o.Namespace && w.Name == o.Name &&
			(w.Kind == o.Kind || isResource(strings.ToLower(o.Kind), w.Resource)) {
			return w
		}
	}
	return nil
}

func (l *Log) step(w *LoggedWrite, shown map[*LoggedWrite]bool, depth int) *LoggedStep {
	s := &LoggedStep{LoggedWrite: w}
	switch {
	case shown[w]:
		s.Repeated = true
		return s
	case depth > maxDepth:
		s.Cut = true
		return s
	}
	shown[w] = true
	if l.trace != nil && w.ResourceVersion != "" {
		if exact, ok := l.trace.writeOf(w.Object(), w.ResourceVersion); ok {
			s.Exact = &exact
			return s
		}
	}
	watching := l.watchesOf(w)
	if w.By.isTool() || len(watching) == 0 && !strings.HasPrefix(w.By.User, "system:") && !w.By.isKelson() {
		s.First = "a request of " + w.By.User
		return s
	}
	best, others := l.causeOf(w, watching)
	switch {
	case best != nil:
		s.Probably = &Inference{Earlier: metav1.Duration{Duration: earlierBy(best.write, w)}, Evidence: best.evidence,
			Others: others, Cause: l.step(best.write, shown, depth+1)}
	case strings.HasPrefix(w.By.User, "system:node:"):
		s.First = "node " + strings.TrimPrefix(w.By.User, "system:node:")
	default:
		s.First = l.scheduled(w)
	}
	return s
}

// scheduled returns the schedule that caused a write: that of an owner which is a CronJob.
func (l *Log) scheduled(w *LoggedWrite) string {
	for _, owner := range l.ownersOf(w.object()) {
		if owner.Kind == "CronJob" {
			return fmt.Sprintf("the schedule of CronJob %s", qualified(w.Namespace, owner.Name))
		}
	}
	return ""
}

func (l *Log) ownersOf(o resourceName) []metav1.OwnerReference {
	if known := l.objects[o]; known != nil {
		return known.owners
	}
	return nil
}

// watchesOf returns the watches of the process that made a write: those of the same user, program
// and address or, if there are none, those of the same program and address, because a process may
// act as several users.
func (l *Log) watchesOf(w *LoggedWrite) []*loggedWatch {
	var same, process []*loggedWatch
	for _, watch := range l.watches {
		switch {
		case watch.begin.After(w.Begin) || !watch.end.IsZero() && watch.end.Add(maxReaction).Before(w.Begin):
		case watch.by == w.By:
			same = append(same, watch)
		case watch.by.program() == w.By.program() && watch.by.Address == w.By.Address:
			process = append(process, watch)
		}
	}
	if len(same) > 0 {
		return same
	}
	return process
}

// candidate is a write that may have caused another.
type candidate struct {
	write    *LoggedWrite
	score    int
	evidence []string
}

// causeOf returns the most probable cause of a write, and how many other writes fit too.
func (l *Log) causeOf(w *LoggedWrite, watching []*loggedWatch) (*candidate, int) {
	var all []candidate
	until, _ := slices.BinarySearchFunc(l.writes, w.Begin, func(v *LoggedWrite, at time.Time) int {
		return v.Begin.Compare(at)
	})
	for i := until - 1; i >= 0 && earlierBy(l.writes[i], w) <= maxReaction; i-- {
		if v := l.writes[i]; v != w {
			if c := l.judge(w, v, watching); c.score >= minScore {
				all = append(all, c)
			}
		}
	}
	// The newest of equally good writes comes first: the sort is stable.
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	if len(all) == 0 {
		return nil, 0
	}
	return &all[0], len(all) - 1
}

// judge returns a score for how well v explains w.
func (l *Log) judge(w, v *LoggedWrite, watching []*loggedWatch) candidate {
	c := candidate{write: v}
	because := func(score int, format string, args ...any) {
		c.score += score
		c.evidence = append(c.evidence, fmt.Sprintf(format, args...))
	}
	wo, vo := w.object(), v.object()
	collection := v.Name == "" // of deletecollection, or a generated name that is not logged
	collected := !collection && isDelete(v.Verb) && isDelete(w.Verb) && l.ownsIndirectly(vo, wo, 5)
	received := slices.IndexFunc(watching, func(watch *loggedWatch) bool { return watch.receives(v) })
	switch {
	case received >= 0:
		where := ""
		if in := watching[received].namespace; in != "" {
			where = " in namespace " + in
		}
		because(20, "%s received it: it watches %s%s", w.By.program(), v.Resource, where)
	case collected:
		because(20, "garbage collectors delete what deleted objects own")
	case len(watching) > 0:
		return c // the process has not seen the write
	default:
		c.evidence = append(c.evidence, "the log does not have the watches of "+w.By.program())
	}
	switch {
	case !collection && wo == vo && w.Subresource == "binding":
		because(60, "the scheduler binds new pods")
	case !collection && wo == vo:
		because(40, "both are writes of the same object")
	case collected && l.owns(vo, wo):
		because(50, "%v is the owner of %v", v.Object(), w.Object())
	case collected:
		because(45, "%v owns %v through other objects", v.Object(), w.Object())
	case !collection && l.owns(vo, wo):
		because(40, "%v is the owner of %v", v.Object(), w.Object())
	case !collection && l.owns(wo, vo):
		because(30, "%v is owned by %v", v.Object(), w.Object())
	case v.Resource == "namespaces" && isDelete(v.Verb) && isDelete(w.Verb) && v.Name == w.Namespace:
		because(50, "%v is in the namespace", w.Object())
	case !collection && l.siblings(wo, vo):
		because(15, "both have the same owner")
	}
	if !collection && w.actsFor(v.Resource) {
		because(25, "Kubernetes' controllers create and delete %s for %s", w.Resource, v.Resource)
	}
	inBody := func(uid types.UID) bool { return bytes.Contains(w.body, []byte(`"`+uid+`"`)) }
	if wo != vo && slices.ContainsFunc(l.uidsOf(vo), inBody) {
		because(15, "the request contains its UID")
	} else if wo != vo && !collection && bytes.Contains(w.body, []byte(`"`+v.Name+`"`)) {
		because(15, "the request contains its name")
	}
	if wo != vo && !collection && w.Namespace == v.Namespace &&
		(strings.HasPrefix(w.Name, v.Name+"-") || w.Name == v.Name) {
		because(12, "the names are alike")
	}
	if c.score == 0 || len(c.evidence) < 2 {
		return candidate{write: v} // the time alone is not evidence
	}
	if v.By == w.By {
		c.score -= 8 // another client is a better explanation than the operator itself
	}
	switch d := earlierBy(v, w); {
	case d <= time.Second:
		c.score += 20
	case d <= 5*time.Second:
		c.score += 14
	case d <= 20*time.Second:
		c.score += 7
	}
	return c
}

// parents has the resources for which Kubernetes' controllers create and delete objects of another
// resource.
var parents = map[string][]string{
	"pods": {"replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch",
		"replicationcontrollers"},
	"replicasets.apps":                {"deployments.apps"},
	"jobs.batch":                      {"cronjobs.batch"},
	"controllerrevisions.apps":        {"statefulsets.apps", "daemonsets.apps"},
	"persistentvolumeclaims":          {"statefulsets.apps", "pods"},
	"endpoints":                       {"services"},
	"endpointslices.discovery.k8s.io": {"services", "endpoints"},
}

// actsFor reports whether a write is one that Kubernetes' controllers make because of objects of a
// resource. An audit log at level Metadata does not have the owners of objects.
func (w *LoggedWrite) actsFor(resource string) bool {
	return (w.By.User == "system:kube-controller-manager" || strings.HasPrefix(w.By.User, controllerAccounts)) &&
		(w.Verb == "create" || isDelete(w.Verb)) && slices.Contains(parents[w.Resource], resource)
}

// controllerAccounts begins the names of the users of Kubernetes' controllers.
const controllerAccounts = "system:serviceaccount:kube-system:"

func isDelete(verb string) bool { return verb == "delete" || verb == "deletecollection" }

// earlierBy returns how long before w the server received v.
func earlierBy(v, w *LoggedWrite) time.Duration { return w.Begin.Sub(v.Begin) }

// owns reports whether an object is an owner of another.
func (l *Log) owns(owner, owned resourceName) bool {
	for _, ref := range l.ownersOf(owned) {
		if l.refersTo(ref, owner, owned.namespace) {
			return true
		}
	}
	return false
}

// ownsIndirectly reports whether an object is an owner of another, or of one of its owners, up to
// the given number of steps.
func (l *Log) ownsIndirectly(owner, owned resourceName, steps int) bool {
	if l.owns(owner, owned) {
		return true
	}
	if steps == 0 {
		return false
	}
	for o := range l.objects {
		if o != owned && (o.namespace == "" || o.namespace == owned.namespace) && l.owns(o, owned) &&
			l.ownsIndirectly(owner, o, steps-1) {
			return true
		}
	}
	return false
}

// refersTo reports whether an owner reference of an object in a namespace refers to an object.
func (l *Log) refersTo(ref metav1.OwnerReference, o resourceName, namespace string) bool {
	if uids := l.uidsOf(o); len(uids) > 0 {
		return slices.Contains(uids, ref.UID)
	}
	return ref.Name == o.name && (o.namespace == "" || o.namespace == namespace) &&
		(ref.Kind == l.kinds[o.resource] || isResource(strings.ToLower(ref.Kind), o.resource))
}

func (l *Log) siblings(a, b resourceName) bool {
	for _, owner := range l.ownersOf(a) {
		for _, other := range l.ownersOf(b) {
			if owner.UID == other.UID {
				return true
			}
		}
	}
	return false
}

func (l *Log) uidsOf(o resourceName) []types.UID {
	if known := l.objects[o]; known != nil {
		return known.uids
	}
	return nil
}

func qualified(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
