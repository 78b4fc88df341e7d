package explore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/operator/client"
)

// Actions are faults of users, of other controllers and of nodes. They happen when the operator is
// quiet after an input.
const (
	// Recreate deletes an object of the inputs, and creates it again as soon as it no longer
	// exists. Batch creates two copies of it at once.
	Recreate Kind = "recreate"
	Batch    Kind = "batch"
	// SetField sets a field of an object of the inputs, waits until the operator is quiet, and sets
	// it back; Flicker sets it back immediately.
	SetField Kind = "set-field"
	Flicker  Kind = "flicker"
	// CreateWith creates an object of the inputs with another value of a field.
	CreateWith Kind = "create-with"
	// DeleteChild deletes an object that the operator has created, and EditChild changes a field of
	// it. Finalizer adds a finalizer to it. The explorer removes the finalizer after it has deleted
	// everything else.
	DeleteChild Kind = "delete-child"
	EditChild   Kind = "edit-child"
	Finalizer   Kind = "foreign-finalizer"
	// FailPod sets the status of a Pod to Failed, as after an eviction. DeletePod deletes it, as a
	// drain of its node does.
	FailPod   Kind = "fail-pod"
	DeletePod Kind = "delete-pod"
	// LoseNode deletes a Node, as after the loss of its machine: its Pods are evicted. When
	// everything is quiet, the Node is created again. In the runs of a Binary, the Pods are removed
	// immediately, not after the time that Kubernetes' garbage collector of Pods waits.
	LoseNode Kind = "lose-node"
	// SilenceNode cuts a Node's agent off from the server. The Node and its Pods become not ready,
	// and Kubernetes evicts the Pods, which keep terminating. When everything is quiet, the agent
	// is connected again. SilenceNode needs virtual time.
	SilenceNode Kind = "silence-node"
	// ClockJump lets time pass while the operator is stopped, like a suspended machine. When the
	// operator continues, its clock has jumped, and all its timers that have expired fire together.
	// A signal stops the process of a Binary for that long.
	ClockJump Kind = "clock-jump"
)

var (
	actions = []Kind{Recreate, Batch, SetField, Flicker, CreateWith, DeleteChild, EditChild, Finalizer, FailPod,
		DeletePod, LoseNode, SilenceNode, ClockJump, Upgrade, Rollback, TimeZone, StorageVersion}
	withField = []Kind{SetField, Flicker, CreateWith, EditChild, ForeignWrite}
	// ofMachines are the actions that happen to a machine, to the operator or to a definition, not
	// to an object of the run.
	ofMachines = []Kind{LoseNode, SilenceNode, ClockJump, Upgrade, Rollback, TimeZone, StorageVersion}
)

// after is the verb of points at which actions happen.
const after = "after"

// foreignFinalizer is the finalizer that Finalizer adds.
const foreignFinalizer = "explore.kelson.dev/foreign"

func (f Fault) isAction() bool { return f.At.Verb == after }

// actions returns the actions of a plan.
func (p Plan) actions() Plan {
	return slices.DeleteFunc(slices.Clone(p), func(f Fault) bool { return !f.isAction() })
}

// act performs the actions that the plan has after the n-th input, and reports whether the trial
// can continue.
func (t *trial) act(n int) bool {
	if t.probe != nil {
		t.probe.collect(t, n)
	}
	for i, f := range t.plan {
		if !f.isAction() || f.At.N != n || f.Kind == CreateWith || t.progress.done[i] {
			continue
		}
		obj := t.object(f.At)
		if obj == nil && !slices.Contains(ofMachines, f.Kind) {
			continue // unused
		}
		t.progress.done[i] = true
		t.log(fmt.Sprintf("FAULT %s", f))
		if !t.perform(f, obj) {
			return false
		}
	}
	return true
}

// object returns the current version of an object of the run; nil if there is none.
func (t *trial) object(at Point) *unstructured.Unstructured {
	for key, obj := range sortedKeys(t.history.now) {
		if obj != nil && t.history.names.id(key) == at.Resource+" "+at.Object {
			return obj.DeepCopy()
		}
	}
	return nil
}

// perform performs an action, and applies the oracles that compare the states before and after it.
func (t *trial) perform(f Fault, obj *unstructured.Unstructured) bool {
	before, complete := t.history.state(), !t.gate.holds()
	ok := true
	switch f.Kind {
	case Recreate:
		ok = t.try(func(ctx context.Context, c client.Client) error {
			return t.recreate(ctx, c, obj)
		}) && t.applyAgain(f.At.N, obj)
	case Batch:
		ok = t.try(func(ctx context.Context, c client.Client) error { return t.batch(ctx, c, obj) })
	case SetField, Flicker:
		return t.setAndBack(f, obj)
	case DeleteChild, DeletePod:
		ok = t.try(func(ctx context.Context, c client.Client) error {
			uid := obj.GetUID()
			return client.IgnoreNotFound(remove(ctx, c, obj, client.Preconditions{UID: uid}))
		})
	case EditChild:
		ok = t.try(func(ctx context.Context, c client.Client) error { return set(ctx, c, obj, f) })
	case Finalizer:
		t.finalized = append(t.finalized, obj)
		ok = t.try(func(ctx context.Context, c client.Client) error {
			obj.SetFinalizers(append(obj.GetFinalizers(), foreignFinalizer))
			return c.Update(ctx, obj)
		})
	case FailPod:
		ok = t.try(func(ctx context.Context, c client.Client) error { return failPod(ctx, c, obj) })
	case LoseNode:
		ok = t.loseNode(f.At.Object)
	case SilenceNode:
		ok = t.silenceNode(f.At.Object)
	case ClockJump:
		ok = t.jump(f.At.Object)
	case Upgrade, TimeZone:
		t.replace(newest)
		return t.settle()
	case Rollback:
		return t.rollBack(before)
	case StorageVersion:
		return t.changeStorage(f.At.Object, before)
	}
	if !ok || !t.settle() {
		return false
	}
	if !complete || t.gate.holds() {
		return true
	}
	if f.Kind == Recreate {
		t.checkRecreated(obj, before)
	}
	return t.checkRestart() && t.checkHealthy(before)
}

// try makes a change, which the server may refuse. A refused change has no effect.
func (t *trial) try(do func(context.Context, client.Client) error) bool {
	refused := error(nil)
	ok := t.do(Input{name: "action", do: func(ctx context.Context, c client.Client) error {
		if err := do(ctx, c); err != nil {
			if !isRefusal(err) {
				return err
			}
			refused = err
		}
		return nil
	}})
	if refused != nil {
		t.refusals++
		t.log("refused: " + refused.Error())
	}
	return ok
}

// checkRecreated raises an alarm if the state differs from the one before an object was deleted and
// created again. If an input let time pass after the first creation, the operator may have acted
// because of the time, such as a CronJob that starts a Job. It need not do that again for the new
// object. So each object and each field may also be as it was before that time.
func (t *trial) checkRecreated(obj *unstructured.Unstructured, before State) {
	found := t.changes(before)
	for _, w := range t.waits {
		if w.begin.Before(obj.GetCreationTimestamp().Time) {
			continue
		}
		earlier := t.changes(w.state)
		found = slices.DeleteFunc(found, func(d Difference) bool { return !slices.ContainsFunc(earlier, d.same) })
	}
	t.checkNone("O1", "an object that is created again leads to another state", found, "before")
}

func isRefusal(err error) bool { return apierrors.ReasonForError(err) != "" }

// checkSame raises an alarm if the state differs from the earlier state, and reports whether they
// are equal.
func (t *trial) checkSame(oracle, what string, earlier State, moment string) bool {
	return t.checkNone(oracle, what, t.changes(earlier), moment)
}

// checkNone raises an alarm with the differences from the state of a moment, if there are any, and
// reports whether there are none.
func (t *trial) checkNone(oracle, what string, found []Difference, moment string) bool {
	if len(found) > 0 {
		t.alarmAbout(different(oracle, what, found, moment))
	}
	return len(found) == 0
}

// changes returns the differences of the state from an earlier state, except for what also differs
// between runs without faults.
func (t *trial) changes(earlier State) []Difference {
	now := t.history.state()
	found := withoutIgnored(t.scenario.Ignore, now.Diff(earlier))
	if t.varying == nil {
		return found
	}
	x := t.varying.like(earlier)
	return slices.DeleteFunc(found, func(d Difference) bool { return x.mayDiffer(now, d) })
}

// checkRestart restarts the operator. If the new process changes something although the old one was
// quiet, the old one did not react to the action, and checkRestart raises an alarm.
func (t *trial) checkRestart() bool {
	before := t.history.state()
	t.log("the operator restarts")
	t.crash()
	return t.settle() && t.checkSame("O4", "the operator does not repair this until it restarts", before,
		"before the restart")
}

// recreate deletes an object, and creates it again when it no longer exists.
func (t *trial) recreate(ctx context.Context, c client.Client, obj *unstructured.Unstructured) error {
	again := t.manifest(obj)
	if err := remove(ctx, c, obj); err != nil {
		return err
	}
	pause := time.Second
	if t.wire != nil {
		pause = 50 * time.Millisecond
	}
	return t.createWhile(ctx, c, again, pause, apierrors.IsAlreadyExists)
}

// batch creates two copies of an object.
func (t *trial) batch(ctx context.Context, c client.Client, obj *unstructured.Unstructured) error {
	for n := 2; n <= 3; n++ {
		duplicate := t.manifest(obj)
		duplicate.SetName(fmt.Sprintf("%s-%d", obj.GetName(), n))
		if err := t.create(ctx, c, duplicate); err != nil {
			return err
		}
		t.copies = append(t.copies, duplicate)
	}
	return nil
}

// create creates an object. If the operator's process was killed or suspended meanwhile, its
// webhooks refuse or do not answer, and the user tries again.
func (t *trial) create(ctx context.Context, c client.Client, obj *unstructured.Unstructured) error {
	p := t.newest.Load()
	return t.createWhile(ctx, c, obj, time.Second, func(error) bool { return t.newest.Load() != p })
}

// createWhile creates an object. It repeats the attempt after a pause if again returns true for the
// error, until the time patience is over.
func (t *trial) createWhile(ctx context.Context, c client.Client, obj *unstructured.Unstructured, pause time.Duration,
	again func(error) bool) error {
	for begin := time.Now(); ; time.Sleep(pause) {
		err := c.Create(ctx, obj.DeepCopy())
		if err == nil || !again(err) || time.Since(begin) > t.patience() {
			return err
		}
	}
}

// manifest returns an object as a user would create it: with its current fields, and the labels and
// annotations of the input that has created it.
func (t *trial) manifest(obj *unstructured.Unstructured) *unstructured.Unstructured {
	m := &unstructured.Unstructured{Object: map[string]any{}}
	for field, value := range runtime.DeepCopyJSON(obj.Object) {
		if field != "metadata" && field != "status" {
			m.Object[field] = value
		}
	}
	m.SetNamespace(obj.GetNamespace())
	m.SetName(obj.GetName())
	for _, input := range t.scenario.Inputs {
		if input.apply != nil && client.KeyOf(input.apply) == client.KeyOf(obj) &&
			t.kindOf(input.apply) == obj.GetKind() {
			m.SetLabels(input.apply.GetLabels())
			m.SetAnnotations(input.apply.GetAnnotations())
		}
	}
	return m
}

func (t *trial) kindOf(obj client.Object) string {
	kind, err := client.KindOf(obj, t.env.Client().Scheme())
	if err != nil {
		return ""
	}
	return kind.Kind
}

// setAndBack sets a field, and sets it back (O8).
func (t *trial) setAndBack(f Fault, obj *unstructured.Unstructured) bool {
	before, complete := t.history.state(), !t.gate.holds()
	if !t.try(func(ctx context.Context, c client.Client) error { return set(ctx, c, obj, f) }) {
		return false
	}
	if f.Kind == SetField {
		t.unusual = true // an operator may return an error for the value
		ok := t.settle()
		if t.unusual = false; !ok {
			return false
		}
		object, field := f.At.Resource+" "+f.At.Object, fieldOf(obj.Object, f.Field)
		t.result.effect = slices.ContainsFunc(t.history.state().Diff(before), func(d Difference) bool {
			return !d.within(object, field)
		})
	}
	t.log("the field is set back")
	back := func(ctx context.Context, c client.Client) error { return restore(ctx, c, obj) }
	if !t.try(back) || !t.settle() {
		return false
	}
	return !complete || !t.scenario.Reversible ||
		t.checkSame("O8", "a change and its reverse leave another state", before, "before")
}

// set sets the field of an action.
func set(ctx context.Context, c client.Client, obj *unstructured.Unstructured, f Fault,
	opts ...client.WriteOption) error {
	current, err := read(ctx, c, obj.GroupVersionKind(), client.KeyOf(obj))
	if err != nil {
		return err
	}
	if err := setField(current.Object, f.Field, f.Value); err != nil {
		return err
	}
	return c.Update(ctx, current, opts...)
}

// setField sets a field to a value in JSON.
func setField(object map[string]any, path, value string) error {
	var v any
	if err := json.Unmarshal([]byte(value), &v); err != nil {
		return err
	}
	put(object, strings.Split(path, "."), integers(v))
	return nil
}

// integers converts numbers without a fraction to int64, as in decoded objects.
func integers(v any) any {
	switch v := v.(type) {
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case map[string]any:
		for key := range v {
			v[key] = integers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = integers(v[i])
		}
	}
	return v
}

// put sets a member of a tree. A member that does not exist is created; nil removes it.
func put(tree any, path []string, v any) {
	switch tree := tree.(type) {
	case map[string]any:
		switch {
		case len(path) == 1 && v == nil:
			delete(tree, path[0])
		case len(path) == 1:
			tree[path[0]] = v
		default:
			if tree[path[0]] == nil {
				tree[path[0]] = map[string]any{}
			}
			put(tree[path[0]], path[1:], v)
		}
	case []any:
		var i int
		if _, err := fmt.Sscan(path[0], &i); err != nil || i >= len(tree) {
			return
		}
		if len(path) == 1 {
			tree[i] = v
			return
		}
		put(tree[i], path[1:], v)
	}
}

// createWith returns the input that CreateWith derives from another.
func (t *trial) createWith(input Input) Input {
	for i, f := range t.plan {
		if f.Kind != CreateWith || input.again == nil || t.progress.done[i] || f.At.N != t.inputs+1 {
			continue
		}
		changed, err := t.unstructured(input.apply)
		if err == nil {
			err = setField(changed.Object, f.Field, f.Value)
		}
		if err != nil {
			t.result.failed = err
			return input
		}
		t.progress.done[i], t.unusual = true, true
		t.log(fmt.Sprintf("FAULT %s", f))
		input = input.again(changed)
	}
	return input
}

// unstructured returns a copy of an object with its kind.
func (t *trial) unstructured(obj client.Object) (*unstructured.Unstructured, error) {
	kind, err := client.KindOf(obj, t.env.Client().Scheme())
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj.DeepCopyObject())
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kind)
	return u, nil
}

// failPod sets the status of a Pod that its node has evicted.
func failPod(ctx context.Context, c client.Client, obj *unstructured.Unstructured) error {
	var pod corev1.Pod
	if err := c.Get(ctx, client.KeyOf(obj), &pod); err != nil {
		return err
	}
	pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "Evicted",
		"The node was low on resource: memory."
	for i := range pod.Status.Conditions {
		if typ := pod.Status.Conditions[i].Type; typ == corev1.PodReady || typ == corev1.ContainersReady {
			pod.Status.Conditions[i].Status = corev1.ConditionFalse
		}
	}
	return c.Subresource("status").Update(ctx, &pod, nil)
}

// removeFinalizers removes the foreign finalizers, and waits until the operator is quiet.
func (t *trial) removeFinalizers() bool {
	if len(t.finalized) == 0 {
		return true
	}
	for _, obj := range t.finalized {
		ok := t.try(func(ctx context.Context, c client.Client) error {
			current, err := read(ctx, c, obj.GroupVersionKind(), client.KeyOf(obj))
			if err != nil {
				return client.IgnoreNotFound(err)
			}
			current.SetFinalizers(slices.DeleteFunc(current.GetFinalizers(), func(f string) bool {
				return f == foreignFinalizer
			}))
			return c.Update(ctx, current)
		})
		if !ok {
			return false
		}
	}
	t.log("the foreign finalizers are removed")
	return t.settle()
}
