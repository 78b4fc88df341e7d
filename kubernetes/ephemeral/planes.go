package ephemeral

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/controllers/simulatednodes"
	"kelson.dev/kubernetes/node/stage"
)

// Plane is a running control plane.
type Plane interface {
	Handler() http.Handler
	Store() *store.Store
	// Kubeconfig returns a kubeconfig of the plane's administrator for the URL under which clients
	// reach the plane. The credentials must be valid only for this plane.
	Kubeconfig(url string) (string, error)
	// Drain refuses new requests, ends watches, and returns when no request is in flight or ctx
	// ends.
	Drain(ctx context.Context) error
	// Stop ends the plane.
	Stop()
}

// Start describes a plane to start.
type Start struct {
	ID string
	// From is the initial state; nil means empty.
	From *store.Snapshot
	// Node selects what runs pods, as defined by the server; "" means the server's default.
	Node string
	// Nodes are simulated nodes, and Stages script them and their pods. Both are valid.
	Nodes  []simulatednodes.Group
	Stages []*stage.Stage
	// Workloads runs the controllers of workloads, such as Deployments.
	Workloads bool
}

// Config configures Planes.
type Config struct {
	// Start starts a plane. If it returns an error that wraps ErrInvalid, the client gets 400.
	Start func(ctx context.Context, start Start) (Plane, error)
	// Max limits the number of planes and of bases. It must be positive.
	Max int
	// Idle is how long a plane is kept without requests; 0 means forever.
	Idle time.Duration
}

// Planes manages control planes and serves them over HTTP. Create it with New.
type Planes struct {
	cfg Config

	mu     sync.Mutex
	closed bool
	making int // planes being started
	all    map[string]*plane
	bases  map[string]*base
}

// plane is a running control plane. Planes.mu guards inFlight and the fields below it.
type plane struct {
	Plane
	id      string
	base    string
	created time.Time
	handler http.Handler // serves the paths below /planes/<id>

	inFlight int // requests
	used     time.Time
	expiry   *time.Timer // nil: no expiry
	dropped  bool
}

// base is a saved state.
type base struct {
	name  string
	saved time.Time
	state *store.Snapshot
}

// drainTime limits how long a deleted plane waits for short requests in flight.
const drainTime = 5 * time.Second

// New returns the handler. Call Close to end all planes.
func New(cfg Config) *Planes {
	return &Planes{cfg: cfg, all: map[string]*plane{}, bases: map[string]*base{}}
}

// create starts a plane that is empty or has the state of a base or another plane.
func (p *Planes) create(ctx context.Context, req createRequest) (*plane, error) {
	if _, err := simulatednodes.Nodes(req.Nodes...); err != nil {
		return nil, fmt.Errorf("%w: nodes: %w", ErrInvalid, err)
	}
	for _, s := range req.Stages {
		if s == nil || s.Name == "" {
			return nil, fmt.Errorf("%w: stages: a Stage has no name", ErrInvalid)
		}
		if _, err := stage.Compile(s); err != nil {
			return nil, fmt.Errorf("%w: stages: %w", ErrInvalid, err)
		}
	}
	from, err := p.reserve(req)
	if err != nil {
		return nil, err
	}
	created := &plane{id: newID(), base: req.Base, created: time.Now()}
	// The plane outlives the request.
	created.Plane, err = p.cfg.Start(context.WithoutCancel(ctx), Start{
		ID: created.id, From: from, Node: req.Node, Nodes: req.Nodes, Stages: req.Stages, Workloads: req.Workloads,
	})
	p.mu.Lock()
	p.making--
	if err == nil && p.closed {
		err = ErrClosed
		defer created.Stop()
	}
	if err != nil {
		p.mu.Unlock()
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	defer p.mu.Unlock()
	created.handler = below(prefix+created.id, created.Plane.Handler())
	p.all[created.id] = created
	p.becomeIdle(created)
	return created, nil
}

// reserve finds the initial state and increments p.making. If it succeeds, the caller must
// decrement p.making.
func (p *Planes) reserve(req createRequest) (*store.Snapshot, error) {
	if req.Base != "" && req.Fork != "" {
		return nil, fmt.Errorf("%w: base and fork exclude each other", ErrInvalid)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	var from *store.Snapshot
	switch {
	case req.Base != "":
		b := p.bases[req.Base]
		if b == nil {
			return nil, fmt.Errorf("base %q: %w", req.Base, ErrNotFound)
		}
		from = b.state
	case req.Fork != "":
		other := p.all[req.Fork]
		if other == nil {
			return nil, fmt.Errorf("control plane %q: %w", req.Fork, ErrNotFound)
		}
		from = other.Store().Snapshot()
	}
	if len(p.all)+p.making >= p.cfg.Max {
		return nil, fmt.Errorf("%w: there are %d control planes", ErrTooMany, p.cfg.Max)
	}
	p.making++
	return from, nil
}

// save saves a plane's state under a name, and replaces an existing base of that name.
func (p *Planes) save(name, id string) (*base, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := p.all[id]
	if from == nil {
		return nil, fmt.Errorf("control plane %q: %w", id, ErrNotFound)
	}
	if p.bases[name] == nil && len(p.bases) >= p.cfg.Max {
		return nil, fmt.Errorf("%w: there are %d bases", ErrTooMany, p.cfg.Max)
	}
	b := &base{name: name, saved: time.Now(), state: from.Store().Snapshot()}
	p.bases[name] = b
	return b, nil
}

// forget deletes a base. Planes that were created from it are not affected.
func (p *Planes) forget(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bases[name] == nil {
		return fmt.Errorf("base %q: %w", name, ErrNotFound)
	}
	delete(p.bases, name)
	return nil
}

// drop deletes a plane and returns when it has ended.
func (p *Planes) drop(ctx context.Context, id string) error {
	p.mu.Lock()
	found := p.all[id]
	if found == nil {
		p.mu.Unlock()
		return fmt.Errorf("control plane %q: %w", id, ErrNotFound)
	}
	p.remove(found)
	p.mu.Unlock()
	found.end(ctx)
	return nil
}

// remove removes a plane from p.all. The caller holds p.mu and must end the plane.
func (p *Planes) remove(dropped *plane) {
	dropped.dropped = true
	if dropped.expiry != nil {
		dropped.expiry.Stop()
	}
	delete(p.all, dropped.id)
}

func (pl *plane) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	_ = pl.Drain(ctx) // Stop aborts the requests that remain
	pl.Stop()
}

// begin returns the plane of a request, or nil; the caller must call done at the end of the
// request.
func (p *Planes) begin(id string) (_ *plane, done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.all[id]
	if found == nil {
		return nil, nil
	}
	found.inFlight++
	if found.expiry != nil {
		found.expiry.Stop()
	}
	return found, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if found.inFlight--; found.inFlight == 0 && !found.dropped {
			p.becomeIdle(found)
		}
	}
}

// becomeIdle starts the expiry timer of an idle plane. The caller holds p.mu.
func (p *Planes) becomeIdle(idle *plane) {
	idle.used = time.Now()
	switch {
	case p.cfg.Idle == 0:
	case idle.expiry != nil:
		idle.expiry.Reset(p.cfg.Idle)
	default:
		idle.expiry = time.AfterFunc(p.cfg.Idle, func() { p.expire(idle) })
	}
}

func (p *Planes) expire(idle *plane) {
	p.mu.Lock()
	// A request or a DELETE may have come first.
	gone := idle.dropped || idle.inFlight > 0 || time.Since(idle.used) < p.cfg.Idle
	if !gone {
		p.remove(idle)
	}
	p.mu.Unlock()
	if !gone {
		idle.end(context.Background())
	}
}

// Drain ends the watches of all planes, and returns when their short requests are answered or ctx
// ends. No plane can be created afterwards.
func (p *Planes) Drain(ctx context.Context) error {
	var errs []error
	for _, pl := range p.close() {
		errs = append(errs, pl.Drain(ctx))
	}
	return errors.Join(errs...)
}

// Close ends all planes and returns when they have ended. It aborts requests in flight; see Drain.
func (p *Planes) Close() {
	p.close()
	p.mu.Lock()
	var left []*plane
	for _, pl := range p.all {
		p.remove(pl)
		left = append(left, pl)
	}
	clear(p.bases)
	p.mu.Unlock()
	for _, pl := range left {
		pl.Stop()
	}
}

// close prevents the creation of planes, and returns the existing ones.
func (p *Planes) close() []*plane {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return p.sorted()
}

// sorted returns the planes by age. The caller holds p.mu.
func (p *Planes) sorted() []*plane {
	all := slices.Collect(maps.Values(p.all))
	slices.SortFunc(all, func(a, b *plane) int {
		if c := a.created.Compare(b.created); c != 0 {
			return c
		}
		return strings.Compare(a.id, b.id)
	})
	return all
}

func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
