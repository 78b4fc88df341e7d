// Package controller runs a reconciler for the objects that need it.
//
// # Model
//
//	Source ──▶ Predicate ──▶ EventHandler ──▶ queue ──▶ worker ──▶ Reconciler
//	informer    relevant?     which objects?    once per    calls it, retries
//	of a kind                                   object      with backoff
//
// A [Source] produces events. Its predicates drop irrelevant ones; its [EventHandler] names the
// objects to reconcile. The queue holds each name once, with the causes that queued it (package
// trace). No two workers process the same name at the same time. Events trigger reconciles, but a
// reconcile acts only on the current state: events may be merged, and each of them may be missed.
//
// What happens after Reconcile returns:
//
//	nil error                 resets the backoff; requeues after Result.RequeueAfter if not zero
//	conflict (409)            requeues with backoff, without an error log: another writer was first, which is normal;
//	                          ten in a row for one object are not, and are logged as a warning
//	terminal or invalid       resets the backoff and logs the error; does not requeue until something changes
//	other error, panic        logs it and requeues with backoff
//
// # Use
//
//	c, err := controller.New(controller.Config{
//		Name:       "at",
//		Reconciler: reconciler,
//		Sources: []controller.Source{
//			&controller.Kind{Informers: informers, Object: &cnat.At{}},
//			&controller.Kind{Informers: informers, Object: &corev1.Pod{}, Handler: controller.EnqueueOwner(&cnat.At{}, c)},
//		},
//	})
//	err = c.Run(ctx)
//
// # Concurrency
//
// Run starts [Config].Concurrency workers when the sources of the manager's own cluster are synced,
// and returns after they have ended. With several workers, a worker starts another object while the
// status of the last one is being written (reconcile.Yielding). A single worker finishes an object
// before it takes the next one, so that each reconcile sees the statuses of all earlier ones, as
// reconcilers that allocate numbers or addresses require. Handlers and predicates run in the
// sources' goroutines and must not block.
//
// # Clusters
//
// A request names the cluster of its object. If clusters join and leave at run time
// ([Config].Clusters), [Controller.Disengage] removes what the controller has of a cluster, and
// requests for clusters that are not engaged are dropped.
package controller
