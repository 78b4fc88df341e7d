package explore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
)

// outage holds the faults of a trial that concern many requests for some time.
type outage struct {
	// revoked has the resources that the operator may not use, and exceeded those of which no more
	// objects may be created, until everything else is quiet.
	revoked, exceeded map[string]bool
	// up is the time at which a server that restarts responds again, and compacted the revision
	// from which it can continue watches.
	up        time.Time
	compacted uint64
}

// downFor is how long a server that restarts does not respond: less than the ten seconds after
// which a leader gives up. In runs of a Binary, time is real.
const (
	downFor     = 6 * time.Second
	wireDownFor = 500 * time.Millisecond
)

// errUnreachable is the error of a request to a server that does not listen.
var errUnreachable = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

// reachable reports whether the server responds to requests that are not steps. Any goroutine may
// call it.
func (d *delays) reachable() bool { return time.Now().UnixNano() >= d.down.Load() }

// cutWatches ends the watches whose next event waits.
func (g *gate) cutWatches(p *process) {
	g.mu.Lock()
	var steps []*step
	for _, s := range g.waiting {
		if s.process == p && s.phase == delivering {
			steps = append(steps, s)
		}
	}
	g.mu.Unlock()
	for _, s := range steps {
		g.release(s, cut)
	}
}

// endWatches ends the other watches.
func (p *process) endWatches() {
	p.mu.Lock()
	var open []*stream
	for s := range p.streams {
		open = append(open, s)
	}
	p.mu.Unlock()
	for _, s := range open {
		s.body.Close()
	}
}

// forbiddenMessage is the text of RBAC for a request.
func forbiddenMessage(r *http.Request, c call) error {
	user := r.Header.Get("Impersonate-User")
	if user == "" {
		user = "operator"
	}
	resource, group, _ := strings.Cut(c.base(), ".")
	text := fmt.Sprintf("User %q cannot %s resource %q in API group %q", user, infoVerb(c.verb), resource, group)
	if namespace, _, ok := strings.Cut(c.object, "/"); ok {
		text += fmt.Sprintf(" in the namespace %q", namespace)
	} else if c.write {
		text += " at the cluster scope"
	}
	return errors.New(text)
}

// exceededMessage is the text of a ResourceQuota for a creation.
func exceededMessage(c call) error {
	counted := "count/" + c.resource
	return fmt.Errorf("exceeded quota: explore, requested: %s=1, used: %s=1, limited: %s=1", counted, counted, counted)
}

// occupation is an object that another client has created with the name that the operator chose.
type occupation struct {
	// the operator's request that creates the object; nil when the other client's object was
	// created
	step    *step
	object  *unstructured.Unstructured
	id      string // RESOURCE NAMESPACE/NAME
	stays   bool   // the server has accepted the object, and it still exists
	deleted bool   // the operator has sent a request that deletes it
}

// has reports whether a plan has a fault of one of the kinds.
func (p Plan) has(kinds ...Kind) bool {
	return slices.ContainsFunc(p, func(f Fault) bool { return slices.Contains(kinds, f.Kind) })
}

// alone reports whether a plan has a fault that is not combined with others. Other faults would
// also change the runs or states with which the run is compared, or the state does not show what
// the fault has changed (Mutate).
func (p Plan) alone() bool {
	return p.foreign() || p.has(Occupied, Mutate, TimeZone, StorageVersion) || p.has(ofFormer...)
}

// decodeBody reads an object in the body of a request, in JSON or Kubernetes' protobuf.
func decodeBody(body []byte) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(body); err == nil {
		return obj, nil
	}
	typed, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	if obj.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed); err != nil {
		return nil, err
	}
	obj.SetGroupVersionKind(*kind)
	return obj, nil
}

// createFirst creates the object of another client, if the step that comes next is the creation
// before which it happens, and lets the operator's request continue. It reports whether the trial
// can continue.
func (a *actions) createFirst() bool {
	o := a.trial.injector.occupied
	if o == nil || o.step == nil {
		return true
	}
	s := o.step
	o.step = nil
	ok := a.users.try(func(ctx context.Context, c client.Client) error {
		err := c.Create(ctx, o.object)
		o.stays = err == nil
		return err
	})
	s.held = false
	if a.trial.latest = s; ok && !a.trial.gate.isDead(s.process) {
		a.trial.injector.execute(s)
	}
	return ok
}

// verdictOf returns the fate of a request during an outage, and pass if it is not affected.
func (in *injector) verdictOf(c call) verdict {
	switch o := &in.delays.outage; {
	case time.Now().Before(o.up):
		return unreachable
	case o.revoked[c.base()]:
		return forbidden
	case o.exceeded[c.resource] && in.setup.creates(c):
		return exceeded
	case c.watch && c.from > 0 && c.from < o.compacted:
		return cut
	}
	return pass
}

// restartServer ends all watches of the operator. For some time, no request reaches the server.
// Afterwards it has no events of before, so watches from earlier revisions get 410.
func (in *injector) restartServer() {
	wait := downFor
	if in.setup.wire != nil {
		wait = wireDownFor
	}
	in.delays.outage.up, in.delays.outage.compacted = time.Now().Add(wait),
		in.setup.env.Plane().Store().Snapshot().Revision()
	in.delays.down.Store(in.delays.outage.up.UnixNano())
	in.delays.denials = true // requests fail several times
	for _, op := range in.operator.operators() {
		for _, p := range op.all {
			if !in.gate.isDead(p) {
				in.gate.cutWatches(p)
				p.endWatches()
			}
		}
	}
}

// occupy prepares the creation of an object with the name in the operator's request.
func (in *injector) occupy(s *step) {
	obj, err := decodeBody(s.body)
	if err != nil {
		in.result.log("the body of the request is not an object that the explorer can read: " + err.Error())
		return
	}
	other := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(obj.Object)}
	delete(other.Object, "metadata")
	delete(other.Object, "status")
	namespace, name, namespaced := strings.Cut(s.call.object, "/")
	if !namespaced {
		namespace, name = "", namespace
	}
	other.SetNamespace(namespace)
	other.SetName(name)
	other.SetAnnotations(map[string]string{"explore.kelson.dev/foreign": "yes"})
	in.occupied, s.held = &occupation{step: s, object: other, id: s.call.resource + " " + s.call.object}, true
}

// checkOccupied raises an alarm (O13) if the operator has deleted the object of another client
// without having made it its own.
func (in *injector) checkOccupied(c Change) {
	o := in.occupied
	if o == nil || !o.stays || c.Type != "DELETED" || c.Object.GetUID() != o.object.GetUID() {
		return
	}
	o.stays = false
	if metav1.GetControllerOf(c.Object) == nil && o.deleted {
		in.result.alarm("O13", "an object of another client is deleted", fmt.Sprintf("%s: another client created it "+
			"before the operator could create an object of this name. It has no owner, and the operator deletes it",
			o.id))
	}
}

// endedInOutage reports whether the process has ended soon after the server did not respond. A
// program may do so, because it is started again. It must not panic.
func (op *processes) endedInOutage() bool {
	up := op.delays.outage.up
	return !up.IsZero() && time.Since(up) < time.Minute && !op.panicked()
}

// panicked reports whether the process has ended by a panic.
func (op *processes) panicked() bool {
	var inReconcile *reconcile.PanicError
	var inProgram *programPanic
	return errors.As(op.process.err, &inReconcile) || errors.As(op.process.err, &inProgram)
}
