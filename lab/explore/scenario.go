package explore

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// Scenario describes an operator and the actions of its users.
type Scenario struct {
	// Env configures the control plane: definitions, RBAC of the operator, nodes, workloads.
	Env []testenv.Option
	// Prepare creates the objects that exist before the operator starts. It may be nil. It runs
	// once: every run begins with a fork of the result.
	Prepare func(context.Context, client.Client) error
	// Operator runs one process of the operator until its context ends. It is called again after
	// each crash, so it must create a new manager, with new caches and reconcilers. State in
	// package variables survives a crash, which it would not in a cluster. See Parts. With
	// testenv.Webhooks in Env, the function may call testenv.ServeWebhooks with ctx.
	Operator func(ctx context.Context, config *rest.Config) error
	// Binary is an operator that is a separate program, instead of Operator. Its runs take real
	// time, so Quiet and Horizon are real time, too: 0 means 250 milliseconds and 30 seconds.
	Binary *Binary
	// Program is an operator as a separate program, too, but in virtual time: package agent has
	// built its file, together with the part of the explorer that runs in its process. Parallel is
	// not used.
	Program *Binary
	// Former is the former version of the operator, for [Upgrade] and [Rollback], and FormerProgram
	// that of a Program. Both are optional.
	Former        func(ctx context.Context, config *rest.Config) error
	FormerProgram *Binary
	// FormerDefinitions are files and folders with the definitions of the former version, for
	// [UpgradeDefinitions]. They are optional.
	FormerDefinitions []string
	// Inputs are the actions of users, in order. Before each, the explorer waits until the operator
	// is quiet.
	Inputs []Input
	// Others are other operators that run, too.
	Others []Other
	// Simulated are other operators that the explored one needs.
	Simulated []Simulated
	// Services are systems outside of the cluster that a Program needs.
	Services []Service
	// Invariants must hold in every version of every object.
	Invariants []Invariant
	// Ignore names fields whose final values may depend on faults: RESOURCE FIELD.FIELD, such as
	// "jobs.batch status.failed".
	Ignore []string
	// Retained lists objects that the operator keeps deliberately when the objects of the inputs
	// are deleted: RESOURCE, or RESOURCE NAMESPACE/NAME, in which * matches any characters but a
	// slash.
	Retained []string
	// Failing lists reconciles that return errors deliberately, without any fault: CONTROLLER, or
	// CONTROLLER NAMESPACE/NAME of the object, in which * matches any characters but a slash.
	Failing []string
	// Quiet is how long nothing must change until the operator counts as quiet; 0 means five
	// minutes. Horizon is how long it may take to become quiet after an input; 0 means a day. Both
	// are virtual time.
	Quiet, Horizon time.Duration
	// Lag bounds how long the faults that delay events or lists do so, in virtual time; 0 means
	// four minutes. Controllers that expect their own writes in their caches act without them after
	// five minutes, as they must, because events may be lost. A longer lag shows what they do then.
	Lag time.Duration
	// WatchList says whether the control plane serves watches that begin with a list. The zero
	// value, WatchListAuto, is right for most operators.
	WatchList WatchList
	// Reversible means that users can undo each change of a field of an input. After the undo, the
	// operator must end in the same state as before the change (O8). It must also not ignore a
	// change of a field that has an effect when an object is created with it (O6). Leave it false
	// for operators that do something once, such as running a command. It applies to the values
	// that the explorer takes from schemas; Flip is always checked.
	Reversible bool
	// Keep leaves the created objects in place at the end. By default, the explorer deletes the
	// objects that the inputs have applied, and compares the remaining ones.
	Keep bool

	conversions []client.Object // definitions with spec.conversion, of a project
	webhookPort string          // of a Binary that was made for a project
	files       []string        // of such a Binary
	args, env   []string        // of such a Binary; they come before its own
	folders     []OtherFolder   // of the projects of other operators
	former      string          // the folder of a project's former version, or ""
	namespace   string          // of the operator's ServiceAccount in a project, or ""
	variables   []string        // of the environment of a project's manager
	warnings    []string        // about a project
	folder      string          // of the definitions of a project, or ""
}

// Parts returns a Scenario.Operator that runs the parts of an operator, as operator.Main does. It
// serves their webhooks if Scenario.Env has testenv.Webhooks with their configurations.
func Parts(parts ...operator.Part) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, config *rest.Config) error {
		return operator.Run(ctx, operator.Config{REST: config, Log: Log(ctx),
			Webhooks: testenv.ServiceWebhookConfig(ctx), NoWebhooks: !testenv.HasWebhooks(ctx)}, parts...)
	}
}

// Input is one action of a user.
type Input struct {
	name  string
	do    func(context.Context, client.Client) error
	apply client.Object // object to delete at the end; nil if none
	gone  client.Object // of Delete
	wait  time.Duration
	back  func(context.Context, client.Client) error // the reverse of do, for Flip
	again func(client.Object) Input                  // Create or Apply
	// fields is the object of Fields, on that of ApplySubresource, and as the user of As.
	fields client.Object
	on     client.Object
	as     string
	simple bool // it needs nothing from the operator
	// together means that it follows the input before at once.
	together bool
}

// Together returns an input that follows the one before at once: the operator need not be quiet in
// between, as if a user creates several objects by one command.
func (i Input) Together() Input {
	i.together = true
	return i
}

func (i Input) String() string { return i.name }

// Create creates an object. If it is namespaced and names no namespace, that becomes "default", as
// for Apply. While a former object of its name is being deleted, Create tries again, for up to ten
// minutes.
func Create(obj client.Object) Input {
	return Input{name: "create " + naming(obj), simple: true, apply: obj, again: Create,
		do: func(ctx context.Context, c client.Client) error {
			for begin := time.Now(); ; time.Sleep(time.Second) {
				err := c.Create(ctx, obj.DeepCopyObject().(client.Object))
				if !isBeingDeleted(err) || time.Since(begin) > 10*time.Minute {
					return err
				}
			}
		}}
}

// isBeingDeleted reports whether a creation failed because the former object still exists.
func isBeingDeleted(err error) bool {
	return apierrors.IsAlreadyExists(err) && strings.Contains(err.Error(), "object is being deleted")
}

// Apply creates or changes an object by server-side apply.
func Apply(obj client.Object) Input {
	return Input{name: "apply " + naming(obj), simple: true, apply: obj, again: Apply,
		do: func(ctx context.Context, c client.Client) error {
			return c.Apply(ctx, obj.DeepCopyObject().(client.Object))
		}}
}

// Edit reads an object, changes it and writes it back.
func Edit[T client.Object](obj T, change func(T)) Input {
	return Input{name: "edit " + naming(obj), do: func(ctx context.Context, c client.Client) error {
		current := obj.DeepCopyObject().(T)
		if err := c.Get(ctx, client.KeyOf(obj), current); err != nil {
			return err
		}
		change(current)
		return c.Update(ctx, current)
	}}
}

// Delete deletes an object, if it exists. Its namespace is that of Create.
func Delete(obj client.Object) Input {
	return Input{name: "delete " + naming(obj), gone: obj, do: func(ctx context.Context, c client.Client) error {
		return client.IgnoreNotFound(remove(ctx, c, obj.DeepCopyObject().(client.Object)))
	}}
}

// remove deletes an object and its dependents, as kubectl does. Without a policy, the Pods of a Job
// would remain.
func remove(ctx context.Context, c client.Client, obj client.Object, opts ...client.DeleteOption) error {
	return c.Delete(ctx, obj, append(opts, client.PropagationPolicy(metav1.DeletePropagationBackground))...)
}

// Wait lets virtual time pass.
func Wait(d time.Duration) Input { return Input{name: "wait " + d.String(), wait: d} }

// Do is any other action.
func Do(name string, do func(context.Context, client.Client) error) Input {
	return Input{name: name, do: do}
}

func naming(obj client.Object) string {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = strings.TrimPrefix(fmt.Sprintf("%T", runtime.Object(obj)), "*")
		kind = kind[strings.LastIndex(kind, ".")+1:]
	}
	return kind + " " + qualified(obj.GetNamespace(), obj.GetName())
}

// Invariant is a rule that every version of every object must satisfy. It has either Check or Rule.
type Invariant struct {
	Name string
	// Kind, if not empty, restricts the invariant to versions of objects of this kind.
	Kind string
	// Check returns an error if a change violates the rule. It is called with every version, in
	// order; view has the objects at that moment.
	Check func(view View, change Change) error
	// Rule is a CEL expression that must be true. It has Kubernetes' CEL functions and these
	// variables:
	//   - object: the version; null if the object was deleted
	//   - oldObject: the version before; null if the object is new
	//   - all.KIND: the objects of a kind at that moment, as View.List returns them
	Rule string

	rule *rule // compiled by validate
}
