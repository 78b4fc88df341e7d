package explore

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/store"
	"kelson.dev/lab/agent"
	"kelson.dev/operator/reconcile"
)

// processes are those of an operator, one after the other. Only the newest one can run;
// earlier ones are dead or, for TwoLeaders, suspended. Only the goroutine of the trial uses this,
// except for the atomic fields, failed, noteLeases and passWebhook.
type processes struct {
	setup    *setup
	result   *result
	gate     *gate
	delays   *delays
	observed *observed
	outside  *outside

	other  *Other       // nil for the explored operator
	others []*processes // the other operators, if this is the explored one

	process *process
	newest  atomic.Pointer[process] // the same, for other goroutines
	all     []*process              // in the order of their starts
	former  *process                // that runs beside process, for Beside; nil for none
	variant variant                 // of the processes that start
	paused  bool                    // all steps of the operator are held
	stopped bool                    // no process of the operator runs
	// when the stopped operator starts again; zero if resume is called
	restartAt time.Time

	missed       atomic.Int64 // number of calls of webhooks while no process listened
	watchLists   atomic.Int64 // number of watches that begin with a list
	sharedLeases atomic.Bool  // another client than the operator has written a Lease
}

// start runs the operator until the process is killed.
func (op *processes) startProcess() {
	ctx, cancel := context.WithCancel(op.setup.env.OperatorContext(context.Background()))
	p := &process{operator: op, number: len(op.all) + 1, cancel: cancel, ended: make(chan struct{})}
	op.process = p
	op.newest.Store(p)
	op.all = append(op.all, p)
	config := op.setup.env.OperatorRESTConfig()
	if op.setup.allRights || op.other != nil {
		config.Impersonate.UserName = ""
	}
	if op.setup.wire != nil {
		p.output.recovered = op.observed.panickedInLog
		p.output.failed = func(id, text string) { op.failed(p, id, text) }
		go func() {
			defer close(p.ended)
			defer op.gate.wake()
			p.err = op.setup.wire.run(ctx, p, p.handler(config))
		}()
		return
	}
	if op.setup.virtual != nil {
		op.startProgram(p, config)
		return
	}
	run := op.setup.scenario.Operator
	switch {
	case op.other != nil:
		run = op.other.Operator
	case op.variant == former:
		run = op.setup.scenario.Former
	}
	config = rest.CopyConfig(config)
	inner := config.Transport
	config.Transport = &transport{process: p, inner: inner}
	go func() {
		defer close(p.ended)
		p.err = p.guard(ctx, func(ctx context.Context) error { return run(ctx, config) })
	}()
}

// running reports whether the operators run, and raises an alarm if one has ended by itself.
func (op *processes) running() bool {
	for _, each := range op.operators() {
		if !each.runs() {
			return false
		}
	}
	op.observed.mu.Lock()
	defer op.observed.mu.Unlock()
	if len(op.observed.panics) > 0 {
		op.result.alarm("O3", "a reconciler panics", op.observed.panics[0])
		return false
	}
	return true
}

// runs does the same as running for one operator, except for reconcilers that panic.
func (op *processes) runs() bool {
	select {
	case <-op.process.ended:
		if op.stopped {
			break
		}
		if op.result.failed != nil {
			return false
		}
		if op.endedInOutage() {
			op.result.log(op.prefix() + "the operator ended, because the server did not respond")
			op.stopped, op.restartAt = true, op.delays.outage.up
			return true
		}
		if op.paused && op.setup.wire == nil && !op.panicked() {
			op.result.log(op.prefix() + "the operator ended, because it got no responses while its clock jumped")
			op.stopped, op.restartAt = true, time.Now() // when the operator continues
			return true
		}
		if op.process.err == nil {
			op.process.err = errors.New("it returned without an error")
		}
		if p := (*reconcile.PanicError)(nil); errors.As(op.process.err, &p) {
			op.result.alarm("O3", operatorPanics, op.prefix()+panicDetail(p))
		} else if p := (*programPanic)(nil); errors.As(op.process.err, &p) {
			op.result.alarm("O3", operatorPanics, op.prefix()+p.detail)
		} else {
			op.result.alarm("O3", operatorEnded, op.prefix()+op.process.err.Error())
		}
		return false
	default:
	}
	if stack := op.waits(); stack != "" && len(op.setup.plan) == 0 {
		op.result.alarm("O4", "the operator waits for a lock", op.prefix()+"a goroutine has waited for a lock for "+
			"minutes of virtual time, without any fault. Either it is locked twice, or its owner waits for ever, such as "+
			"for a cache that cannot be filled. The goroutine:\n"+indent(stack))
		return false
	}
	return true
}

// waits returns the stack of a goroutine that has waited for a lock for minutes; "" for none.
func (op *processes) waits() string {
	if op.process.link == nil {
		return ""
	}
	return op.process.link.Waits()
}

// startNext starts another process of the operator. It releases delayed lists first: otherwise the
// new process would time out before everything else is quiet.
func (op *processes) startNext() {
	op.delays.serveLists()
	op.releaseLeases()
	op.startProcess()
}

// startProgram connects a process to an operating system's process that waits.
func (op *processes) startProgram(p *process, config *rest.Config) {
	p.output.recovered = op.observed.panickedInLog
	p.output.failed = func(id, text string) { op.failed(p, id, text) }
	pool := op.setup.virtual.pool
	switch {
	case op.other != nil:
		pool = op.setup.virtual.others[op.other.Name]
	case op.variant == former:
		pool = op.setup.virtual.former
	case op.variant == abroad:
		pool = op.setup.virtual.zone
	}
	program, err := pool.Get()
	if err == nil {
		op.setup.virtual.runs(program, true)
		if err = op.setup.ctx.Err(); err != nil { // the interrupt may have come before
			op.setup.virtual.runs(program, false)
			program.Kill()
		}
	}
	if err != nil {
		op.result.failed = err
		close(p.ended)
		return
	}
	var requests http.RoundTripper = &transport{process: p, inner: config.Transport}
	if config.WrapTransport != nil { // kelson rights records requests
		requests = config.WrapTransport(requests)
	}
	user := config.Impersonate.UserName
	p.program = program
	p.link = agent.NewLink(program, p.number+op.setup.numbers, asUser{user, requests}, asUser{user, &documents{p, config.Transport}})
	p.link.SetOutside(calling{p})
}

// runningPrograms returns the processes of Programs whose time passes, in the order of their
// starts. The time of a suspended process stands still: it never gets another response.
func (op *processes) runningPrograms() (running []*process) {
	for _, each := range op.operators() {
		for _, p := range each.all {
			if p.link == nil || op.gate.stands(p) {
				continue
			}
			select {
			case <-p.ended:
			default:
				running = append(running, p)
			}
		}
	}
	return running
}

// ownLeases reports whether only one process uses the Leases of the operator, and its requests are
// executed without delay and without faults.
func (op *processes) ownLeases(p *process) bool {
	if op.paused || op.delays.refusing() || !op.delays.reachable() || op.sharedLeases.Load() {
		return false
	}
	op.gate.mu.Lock()
	defer op.gate.mu.Unlock()
	for _, other := range op.all {
		if other != p && !other.dead {
			return false
		}
	}
	return true
}

// noteLeases records that another client than the operator writes Leases.
func (op *processes) noteLeases(ops []store.Op) {
	for _, write := range ops {
		if write.Key.Resource == "leases.coordination.k8s.io" && write.Key.Namespace != corev1.NamespaceNodeLease {
			op.sharedLeases.Store(true)
		}
	}
}

// started records which resources the operator watches after its very first start.
func (op *processes) started() {
	if op.setup.wire == nil || op.setup.wire.watches != nil {
		return
	}
	op.process.mu.Lock()
	defer op.process.mu.Unlock()
	op.setup.wire.watches = map[string]int{}
	maps.Copy(op.setup.wire.watches, op.process.watches)
}

// releaseLeases deletes the Leases of a Binary that has ended, so that the next process does not
// have to wait, in real time, until they expire.
func (op *processes) releaseLeases() {
	if op.setup.wire == nil {
		return
	}
	op.observed.mu.Lock()
	defer op.observed.mu.Unlock()
	for key := range op.observed.leases {
		lease := &unstructured.Unstructured{}
		lease.SetGroupVersionKind(schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"})
		lease.SetNamespace(key.Namespace)
		lease.SetName(key.Name)
		// The trial lets the write pass, so it must not wait for it. If it fails, the next process
		// waits until the lease expires.
		go func() { _ = op.setup.env.Client().Delete(op.setup.t.Context(), lease) }()
	}
	clear(op.observed.leases)
}
