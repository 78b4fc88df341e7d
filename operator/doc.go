// Package operator is the entry point for operators: pass [Main] a constructor for each reconciler.
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
//		// Server-side apply; at becomes the owner, and the next read sees the pod.
//		pod, err := operator.Apply(ctx, r.client, podFor(at))
//		if err != nil {
//			return operator.Result{}, err
//		}
//		at.Status.Phase = phaseOf(pod) // written once, after the return, if it changed
//		return operator.Result{}, nil
//	}
//
// # What the framework does
//
// It reads the object and passes a private copy to Reconcile. After Reconcile returns, it writes
// the status, once and only if it changed, and sets Status.ObservedGeneration. It adds and removes
// a finalizer if the reconciler has a method Finalize. It retries errors with backoff, and
// conflicts without logging an error. It turns [Invalid] into a condition and recovers panics.
// Reads come from a cache that is never older than the operator's own writes. A trace records what
// caused each reconcile and what the reconcile wrote.
//
// # Packages
//
//	operator    the most used names: Main, Run, For, Owns, Result, Apply …
//	reconcile   the Reconciler interfaces, plain and typed; conditions; Terminal, RetryOnConflict
//	client      reads and writes objects: Get, List, Create, Patch, Apply, Watch …
//	informer    local, indexed copies of kinds, with change handlers
//	controller  events → predicates → handlers → queue → reconciler
//	workqueue   the queue between event handlers and workers
//	events      Events about objects, as kubectl describe shows them
//	trace       the record of reconciles, causes and writes; hot loops; spans
//	webhook     admission and conversion, with certificates that the operator issues itself
//	leader      leader election and sharding among replicas
//	manager     the composition: lifecycle, clusters, probes, metrics
//	adapter     runs controller-runtime reconcilers; its own module
//
// Some packages are parts of the others that are also useful on their own: reflector, delta, store
// and discovery. Their documentation is their contract, as with the packages above. The file
// api.txt lists what the module exports; a test compares it with the code, so that reviews show
// every change.
//
// # Testing
//
// [Run] takes the same parts as Main and a rest.Config. It opens no ports by default, stops all its
// goroutines before it returns, and works inside a testing/synctest bubble if the transport of the
// rest.Config does.
package operator
