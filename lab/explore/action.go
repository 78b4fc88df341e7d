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
	// A signal stops the process of a Binary for that long. A process that ends meanwhile, because
	// it could not renew its Lease, starts again.
	ClockJump Kind = "clock-jump"
)

var (
	actionKinds = []Kind{Recreate, Batch, SetField, Flicker, CreateWith, DeleteChild, EditChild, Finalizer, FailPod,
		DeletePod, LoseNode, SilenceNode, ClockJump, Upgrade, Rollback, Beside,
		UpgradeDefinitions, TimeZone, StorageVersion}
	withField = []Kind{SetField, Flicker, CreateWith, EditChild, ForeignWrite}
	// ofMachines are the actions that happen to a machine, to the operator or to a definition, not
	// to an object of the run.
	ofMachines = []Kind{LoseNode, SilenceNode, ClockJump, Upgrade, Rollback, Beside, UpgradeDefinitions, TimeZone,
		StorageVersion}
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
func (a *actions) act(n int) bool {
	if a.setup.probe != nil {
		a.setup.probe.collect(a.trial, n)
	}
	for i, f := range a.setup.plan {
		if !f.isAction() || f.At.N != n || f.Kind == CreateWith || a.trial.progress.done[i] {
			continue
		}
		obj := a.history.object(f.At)
		if obj == nil && !slices.Contains(ofMachines, f.Kind) {
			continue // unused
		}
		a.trial.progress.done[i] = true
		a.result.log(fmt.Sprintf("FAULT %s", f))
		if !a.perform(f, obj) {
			return false
		}
	}
	return true
}

// object returns the current version of an object of the run; nil if there is none.
func (h *history) object(at Point) *unstructured.Unstructured {
	for key, obj := range sortedKeys(h.now) {
		if obj != nil && h.names.id(key) == at.Resource+" "+at.Object {
			return obj.DeepCopy()
		}
	}
	return nil
}

// perform performs an action, and applies the oracles that compare the states before and after it.
func (a *actions) perform(f Fault, obj *unstructured.Unstructured) bool {
	before, complete := a.history.state(), !a.trial.gate.holds()
	ok := true
	switch f.Kind {
	case Recreate:
		ok = a.users.try(func(ctx context.Context, c client.Client) error {
			return a.recreate(ctx, c, obj)
		}) && a.users.applyAgain(f.At.N, obj)
	case Batch:
		ok = a.users.try(func(ctx context.Context, c client.Client) error { return a.batch(ctx, c, obj) })
	case SetField, Flicker:
		return a.setAndBack(f, obj)
	case DeleteChild, DeletePod:
		ok = a.users.try(func(ctx context.Context, c client.Client) error {
			uid := obj.GetUID()
			return client.IgnoreNotFound(remove(ctx, c, obj, client.Preconditions{UID: uid}))
		})
	case EditChild:
		ok = a.users.try(func(ctx context.Context, c client.Client) error { return set(ctx, c, obj, f) })
	case Finalizer:
		a.finalized = append(a.finalized, obj)
		ok = a.users.try(func(ctx context.Context, c client.Client) error {
			obj.SetFinalizers(append(obj.GetFinalizers(), foreignFinalizer))
			return c.Update(ctx, obj)
		})
	case FailPod:
		ok = a.users.try(func(ctx context.Context, c client.Client) error { return failPod(ctx, c, obj) })
	case LoseNode:
		ok = a.loseNode(f.At.Object)
	case SilenceNode:
		ok = a.silenceNode(f.At.Object)
	case ClockJump:
		ok = a.jump(f.At.Object)
	case Upgrade, TimeZone:
		a.trial.operator.replace(newest)
		return a.trial.settle()
	case Rollback:
		return a.rollBack(before)
	case Beside:
		a.trial.operator.endFormer()
		return a.trial.settle()
	case UpgradeDefinitions:
		return a.upgradeDefinitions()
	case StorageVersion:
		return a.changeStorage(f.At.Object, before)
	}
	if !ok || !a.trial.settle() {
		return false
	}
	if !complete || a.trial.gate.holds() {
		return true
	}
	if f.Kind == Recreate {
		a.trial.oracles.checkRecreated(obj, before)
	}
	return a.checkRestart() && a.trial.oracles.checkHealthy(before)
}

func isRefusal(err error) bool { return apierrors.ReasonForError(err) != "" }

// checkRestart restarts the operator. If the new process changes something although the old one was
// quiet, the old one did not react to the action, and checkRestart raises an alarm.
func (a *actions) checkRestart() bool {
	before := a.history.state()
	a.result.log("the operator restarts")
	a.trial.injector.crash(a.trial.operator)
	return a.trial.settle() && a.trial.oracles.checkSame("O4", "the operator does not repair this until it restarts",
		before,
		"before the restart")
}

// recreate deletes an object, and creates it again when it no longer exists.
func (a *actions) recreate(ctx context.Context, c client.Client, obj *unstructured.Unstructured) error {
	again := a.setup.manifest(obj)
	if err := remove(ctx, c, obj); err != nil {
		return err
	}
	pause := time.Second
	if a.setup.wire != nil {
		pause = 50 * time.Millisecond
	}
	return a.users.createWhile(ctx, c, again, pause, apierrors.IsAlreadyExists)
}

// batch creates two copies of an object.
func (a *actions) batch(ctx context.Context, c client.Client, obj *unstructured.Unstructured) error {
	for n := 2; n <= 3; n++ {
		duplicate := a.setup.manifest(obj)
		duplicate.SetName(fmt.Sprintf("%s-%d", obj.GetName(), n))
		if err := a.users.create(ctx, c, duplicate); err != nil {
			return err
		}
		a.trial.progress.copies = append(a.trial.progress.copies, duplicate)
	}
	return nil
}

// setAndBack sets a field, and sets it back (O8).
func (a *actions) setAndBack(f Fault, obj *unstructured.Unstructured) bool {
	before, complete := a.history.state(), !a.trial.gate.holds()
	if !a.users.try(func(ctx context.Context, c client.Client) error { return set(ctx, c, obj, f) }) {
		return false
	}
	if f.Kind == SetField {
		a.trial.oracles.unusual = true // an operator may return an error for the value
		ok := a.trial.settle()
		if a.trial.oracles.unusual = false; !ok {
			return false
		}
		object, field := f.At.Resource+" "+f.At.Object, fieldOf(obj.Object, f.Field)
		a.result.effect = slices.ContainsFunc(a.history.state().Diff(before), func(d Difference) bool {
			return !d.within(object, field)
		})
	}
	a.result.log("the field is set back")
	back := func(ctx context.Context, c client.Client) error { return restore(ctx, c, obj) }
	if !a.users.try(back) || !a.trial.settle() {
		return false
	}
	return !complete || !a.setup.scenario.Reversible ||
		a.trial.oracles.checkSame("O8", "a change and its reverse leave another state", before, "before")
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
func (a *actions) createWith(input Input) Input {
	for i, f := range a.setup.plan {
		if f.Kind != CreateWith || input.again == nil || a.trial.progress.done[i] ||
			f.At.N != a.trial.progress.inputs+1 {
			continue
		}
		changed, err := a.setup.unstructured(input.apply)
		if err == nil {
			err = setField(changed.Object, f.Field, f.Value)
		}
		if err != nil {
			a.result.failed = err
			return input
		}
		a.trial.progress.done[i], a.trial.oracles.unusual = true, true
		a.result.log(fmt.Sprintf("FAULT %s", f))
		input = input.again(changed)
	}
	return input
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
func (a *actions) removeFinalizers() bool {
	if len(a.finalized) == 0 {
		return true
	}
	for _, obj := range a.finalized {
		ok := a.users.try(func(ctx context.Context, c client.Client) error {
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
	a.result.log("the foreign finalizers are removed")
	return a.trial.settle()
}
