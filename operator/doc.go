// Package operator is where operators begin: they hand [Main] a constructor of each reconciler, and the rest follows.
//
//	func main() {
//		operator.Main(
//			operator.AddToScheme(cnat.AddToScheme),
//			operator.For(NewAtReconciler, // the kind is that of Reconcile's parameter
//				operator.Owns[corev1.Pod](),
//				operator.Concurrency(4)),
//		)
//	}
//
//	type AtReconciler struct{ client operator.Client }
//
//	func NewAtReconciler(c operator.Client) *AtReconciler { return &AtReconciler{client: c} }
//
//	func (r *AtReconciler) Reconcile(ctx context.Context, at *cnat.At) (operator.Result, error) {
//		due, err := time.Parse(time.RFC3339, at.Spec.Schedule)
//		if err != nil {
//			return operator.Invalid("spec.schedule", err) // a condition, not a retry
//		}
//		if wait := time.Until(due); wait > 0 {
//			at.Status.Phase = cnat.Pending
//			return operator.After(wait), nil
//		}
//		pod, err := operator.Apply(ctx, r.client, podFor(at)) // owned by at, server-side, visible to the next read
//		if err != nil {
//			return operator.Result{}, err
//		}
//		at.Status.Phase = phaseOf(pod) // written once, after the return, if it changed
//		return operator.Result{}, nil
//	}
//
// # What the framework does
//
// It reads the object and hands over a private copy; writes its status when Reconcile has returned, once and only if it changed; keeps
// Status.ObservedGeneration; adds and removes a finalizer for reconcilers that have a method Finalize; retries errors with backoff and
// conflicts quietly; makes a condition of [Invalid]; recovers panics; gives reads from a cache that never is behind the operator's own
// writes; and keeps the account of what caused each reconcile and what it wrote.
//
// # Where things are
//
//	operator    the everyday names: Main, Run, For, Owns, Result, Apply …
//	reconcile   what a reconciler is, plain and typed; conditions; Terminal, RetryOnConflict
//	client      reading and writing objects: Get, List, Create, Patch, Apply, Watch …
//	informer    local, indexed copies of kinds, and who is told of changes
//	controller  events → predicates → handlers → queue → reconciler
//	workqueue   the queue between them
//	events      Events about objects, as kubectl describe shows them
//	trace       the account of reconciles, causes and writes; hot loops; spans
//	webhook     admission and conversion, with certificates of the operator's own
//	leader      which replica leads, or which does what
//	manager     the composition: lifecycle, clusters, probes, metrics
//	adapter     reconcilers of controller-runtime, run here; a module of its own
//
// # Testing
//
// [Run] takes the same parts as Main with a given rest.Config. It opens no ports unless told to, leaves nothing behind when its context
// has ended, and runs inside a testing/synctest bubble when the transport of the rest.Config does.
package operator
