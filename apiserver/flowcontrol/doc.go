// Package flowcontrol decides when a request may execute: Kubernetes' API Priority and Fairness.
//
// FlowSchemas classify each request into a flow and a priority level. A priority level owns a
// number of seats. A request takes as many seats as its estimated work needs. While too few seats
// are free, it waits in one of the level's queues. It is rejected if its queue is full or it has
// waited too long. Flows share the seats of their level fairly, and idle levels lend seats to busy
// ones.
//
//	request ─ config.classify ─▶ level ─┬─ seats are free and no request waits ──▶ executes
//	                                    └─ otherwise ─▶ Kubernetes' fair queues ──▶ executes, or 429
//
// Kubernetes' library provides the fair queues (fairqueuing/queueset), the work estimator, the
// tracking of watches and of dropped requests, and the mandatory and suggested objects. This
// package replaces Kubernetes' configuration controller, for three reasons:
//
//   - The controller reads the configuration from the store when it has changed. A change applies
//     to the first request after the write, without informers.
//   - No timer runs while no level is busy, so that months of virtual time cost nothing: see
//     [Controller.Run] and borrow.go.
//   - Metrics belong to one control plane instead of to the process.
//
// While no request of a level waits, a request costs a lookup and two short critical sections: see
// level.go. BenchmarkBegin measures 0.5 to 0.75 µs for this, 0.16 µs of which are for the metrics
// that are ratios over time (ratio.go), by six alternating runs with and without them on a busy
// machine.
//
//	controller := flowcontrol.New(flowcontrol.Config{Store: st, Seats: 600})
//	…
//	var ticket flowcontrol.Ticket
//	if err := controller.Begin(&ticket, req, info, user); err != nil { … 429 … }
//	defer ticket.Release()
//
// The package is safe for concurrent use and works inside a testing/synctest bubble.
package flowcontrol
