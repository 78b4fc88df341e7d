package controller

import (
	"context"
	"time"

	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
	"kelson.dev/operator/workqueue"
)

// Queue is the queue of a controller: the names of the objects to reconcile, with their causes. Its
// methods are those of workqueue.Queue, and are safe for concurrent use.
//
// It is an interface because the go command compiles the methods of a generic struct again in each
// package that imports a type that leads to it, even in every package of an operator.
type Queue interface {
	Add(r reconcile.Request, causes trace.Causes)
	AddAfter(r reconcile.Request, causes trace.Causes, d time.Duration)
	AddRateLimited(r reconcile.Request, causes trace.Causes)
	AddWith(r reconcile.Request, causes trace.Causes, opts workqueue.Options)
	Forget(r reconcile.Request)
	NumRequeues(r reconcile.Request) int
	Delay(r reconcile.Request) time.Duration
	Len() int
	Stats() workqueue.Stats
	ShuttingDown() bool
}

// workQueue is the whole queue, with the methods for workers.
type workQueue interface {
	Queue
	Get(ctx context.Context) (workItem, error)
	Done(item workItem)
	Drop(match func(r reconcile.Request) bool) (dropped int)
	ShutDown()
}

type workItem = workqueue.Item[reconcile.Request, trace.Causes]

func newQueue(cfg *Config) workQueue {
	return workqueue.New(workqueue.Config[reconcile.Request, trace.Causes]{
		Merge:   trace.Causes.Merge,
		Limiter: cfg.Limiter,
		Aging:   aging,
		Metrics: cfg.QueueMetrics,
	})
}
