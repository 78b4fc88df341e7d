// Package controller runs a reconciler for the objects that need it.
//
// # Model
//
//	Source ──▶ Predicate ──▶ EventHandler ──▶ queue ──▶ worker ──▶ Reconciler
//	informer    wanted?       whose business?   once per    calls it, retries
//	of a kind                                   object      with backoff
//
// A [Source] turns what happens into events. Its predicates drop those that don't matter; its [EventHandler] names the objects to
// reconcile. The queue holds each name once, with the causes that put it there (package trace). A name is never with two workers at a
// time. Reconciling is triggered by events but looks at the present state only: events may be merged, and none is ever counted on.
//
// What happens after Reconcile returns:
//
//	nil error                 the backoff is forgotten; again after Result.RequeueAfter, if that is positive
//	conflict (409)            again with backoff, and nothing is logged: someone else wrote first, which is normal
//	terminal or invalid       the backoff is forgotten, the error logged; not again until something changes
//	other error, panic        logged, and again with backoff
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
// Run starts [Config].Concurrency workers when the sources of the manager's own cluster are synced and returns when they have ended.
// If there are several, a worker goes on with another object while the status of the last one is written (reconcile.Yielding). A
// single one is done with an object before it takes the next: then a reconcile sees the statuses of all those before it, as one
// that gives out numbers or addresses has to.
// Handlers and predicates are called from the sources' goroutines and must not block.
//
// # Clusters
//
// A request names the cluster of its object. Where clusters come and go ([Config].Clusters), what a controller has of one ends with
// [Controller.Disengage], and a request for one that is not there is dropped.
package controller
