package explore

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/store"
	"kelson.dev/lab/agent"
)

// virtual holds the data that the trials of a Program share.
type virtual struct {
	program      *Binary
	dir          string // for the kubeconfig and certificates
	certificates string // the folder of the certificate of webhooks
	pool         *agent.Pool
	former       *agent.Pool // of the former version; nil for none
	zone         *agent.Pool // in another time zone; nil until a plan needs it
	// newPool starts processes of a program, with more variables of the environment.
	newPool  func(b *Binary, waiting int, env ...string) *agent.Pool
	closed   sync.Once
	external []agent.External // of all processes
}

// waitingProcesses is the number of processes that start in advance.
const waitingProcesses = 2

// newVirtual starts the first processes of a Program. Its Pod is in the namespace, in which
// operators create their Leases.
func newVirtual(b, former *Binary, namespace string) (_ *virtual, err error) {
	v := &virtual{program: b}
	if v.dir, err = os.MkdirTemp("", "kelson-explore-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(v.dir)
		}
	}()
	temp := filepath.Join(v.dir, "tmp")
	v.certificates = filepath.Join(temp, hookFolder)
	if err := os.Mkdir(temp, 0o700); err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(v.dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(agent.Kubeconfig), 0o600); err != nil {
		return nil, err
	}
	variables, err := newVariables(b, v.dir, kubeconfig, v.certificates)
	if err != nil {
		return nil, err
	}
	env := append(b.inherited(), "TMPDIR="+temp, "KUBECONFIG="+kubeconfig)
	if namespace != "" {
		env = append(env, "POD_NAMESPACE="+namespace)
	}
	v.newPool = func(b *Binary, waiting int, more ...string) *agent.Pool {
		return agent.NewPool(agent.Config{Path: b.Path, Dir: b.Dir, Args: variables.replace(b.Args),
			Env: variables.replace(slices.Concat(env, b.Env, more))}, waiting)
	}
	v.pool = v.newPool(b, waitingProcesses)
	if former != nil {
		v.former = v.newPool(former, 1)
	}
	return v, nil
}

func (v *virtual) close() {
	v.closed.Do(func() {
		for _, pool := range []*agent.Pool{v.pool, v.former, v.zone} {
			if pool != nil {
				pool.Close()
			}
		}
		os.RemoveAll(v.dir)
	})
}

// binary returns the program of an operator that is not in this process.
func (t *trial) binary() *Binary {
	if t.wire != nil {
		return t.wire.binary
	}
	return t.virtual.program
}

// startProgram connects a process to an operating system's process that waits.
func (t *trial) startProgram(p *process, config *rest.Config) {
	p.output.recovered = t.panickedInLog
	p.output.failed = func(id, text string) { t.failed(p, id, text) }
	pool := t.virtual.pool
	switch t.variant {
	case former:
		pool = t.virtual.former
	case abroad:
		pool = t.virtual.zone
	}
	program, err := pool.Get()
	if err != nil {
		t.result.failed = err
		close(p.ended)
		return
	}
	var requests http.RoundTripper = &transport{process: p, inner: config.Transport}
	if config.WrapTransport != nil { // kelson rights records requests
		requests = config.WrapTransport(requests)
	}
	user := config.Impersonate.UserName
	p.program = program
	p.link = agent.NewLink(program, p.number, asUser{user, requests}, asUser{user, &documents{p, config.Transport}})
}

// asUser sends requests as a user, unless they name another one.
type asUser struct {
	name  string
	inner http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (u asUser) RoundTrip(r *http.Request) (*http.Response, error) {
	if u.name != "" && r.Header.Get("Impersonate-User") == "" {
		r.Header.Set("Impersonate-User", u.name)
	}
	return u.inner.RoundTrip(r)
}

// documents serves requests for documents of the API, which are not steps.
type documents struct {
	process *process
	inner   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (d *documents) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(context.WithValue(r.Context(), processKey{}, d.process))
	acceptJSON(r)
	d.process.requests.Add(1)
	return d.inner.RoundTrip(r)
}

// running returns the process of a Program whose time passes; nil if there is none. The time of a
// suspended process stands still: it never gets another response.
func (t *trial) runningProgram() *process {
	p := t.process
	if p == nil || p.link == nil || t.gate.isDead(p) {
		return nil
	}
	select {
	case <-p.ended:
		return nil
	default:
		return p
	}
}

// flush passes the frames that wait to the process of a Program, and lets it run, until both sides
// are idle at the current time.
func (t *trial) flush() {
	for p := t.runningProgram(); p != nil && p.link.Pending(); p = t.runningProgram() {
		now := time.Now()
		t.exchange(p, now, now)
		synctest.Wait()
	}
}

// exchange lets the process of a Program run, at least until floor and at most until the time
// until, and then lets the control plane reach the same time. Before the time until, no timer of
// the control plane may fire.
func (t *trial) exchange(p *process, floor, until time.Time) {
	at, err := p.link.Exchange(floor, until, t.ownLeases(p))
	if text := p.program.Output(); len(text) > 0 {
		_, _ = p.output.Write(text) // returns no error
	}
	if err == nil {
		time.Sleep(time.Until(at))
		err = p.link.Deliver()
	}
	if err != nil {
		p.endProgram(err)
	}
}

// ownLeases reports whether only one process uses the Leases of the operator, and its requests are
// executed without delay and without faults.
func (t *trial) ownLeases(p *process) bool {
	if t.paused || t.delays.refusing() || !t.delays.reachable() || t.sharedLeases.Load() {
		return false
	}
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	for _, other := range t.all {
		if other != p && !other.dead {
			return false
		}
	}
	return true
}

// noteLeases records that another client than the operator writes Leases.
func (t *trial) noteLeases(ops []store.Op) {
	for _, op := range ops {
		if op.Key.Resource == "leases.coordination.k8s.io" && op.Key.Namespace != corev1.NamespaceNodeLease {
			t.sharedLeases.Store(true)
		}
	}
}

// endProgram ends the process of a Program, with the error of its link, or nil if it was killed.
func (p *process) endProgram(err error) {
	if p.link == nil {
		return
	}
	select {
	case <-p.ended:
		return
	default:
	}
	p.link.Close()
	for _, e := range p.link.External() {
		p.trial.virtual.external = agent.AddExternal(p.trial.virtual.external, e)
	}
	if err != nil {
		err = p.program.Ended()
		_, _ = p.output.Write(p.program.Output()) // returns no error
		if panicked := p.output.panicked(); panicked != "" {
			p.err = &programPanic{panicked}
		} else {
			p.err = fmt.Errorf("%w. The end of its output:\n%s", err, indent(p.output.tail()))
		}
		if p.program.Stuck() { // the operator has no bug, but does not run in virtual time
			p.trial.result.failed = fmt.Errorf("plan %q: %w", p.trial.plan, p.err)
		}
	}
	p.program.Kill()
	close(p.ended)
}

// sleep lets virtual time pass.
func (t *trial) sleep(d time.Duration) {
	if t.virtual == nil {
		time.Sleep(d)
		return
	}
	t.advance(d, false)
}

// await waits until a step arrives, or d has passed.
func (t *trial) await(d time.Duration) {
	if t.virtual == nil {
		t.gate.await(d)
		return
	}
	t.advance(d, true)
}

// advance lets virtual time pass in the control plane and in the process of a Program: neither
// passes the next event of the other. The process runs until the next timer of the control plane,
// or until it sends a frame, and then the control plane follows. If arrival is true, advance
// returns when a step arrives.
func (t *trial) advance(d time.Duration, arrival bool) {
	for end := time.Now().Add(d); ; {
		synctest.Wait()
		if arrival && t.gate.hasArrived() {
			return
		}
		now := time.Now()
		if !now.Before(end) {
			return
		}
		until := end
		if next, ok := t.clock.Next(); ok && next.Before(until) {
			until = next
			if !until.After(now) {
				until = now.Add(1)
			}
		}
		floor := now
		if !arrival {
			floor = until
		}
		if p := t.runningProgram(); p != nil {
			t.exchange(p, floor, until)
		} else {
			time.Sleep(until.Sub(now))
		}
	}
}

// hasArrived reports whether a step has arrived since the last call, as await does.
func (g *gate) hasArrived() bool {
	select {
	case <-g.arrived:
		return true
	default:
		return false
	}
}
