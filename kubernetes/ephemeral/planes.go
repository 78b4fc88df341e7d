package ephemeral

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"

	"kelson.dev/apiserver/store"
)

// Plane is a running control plane.
type Plane interface {
	Handler() http.Handler
	Store() *store.Store
	// Kubeconfig returns the content of a kubeconfig of its administrator, for the URL under which it is reached. The credential must
	// be valid for this plane alone.
	Kubeconfig(url string) (string, error)
	// Drain refuses new requests, ends watches, and returns when no request is in hand or ctx ends.
	Drain(ctx context.Context) error
	// Stop ends everything.
	Stop()
}

// Start makes a Plane.
type Start struct {
	ID string
	// From is the state that it begins with; nil: an empty one.
	From *store.Snapshot
	// Node says what runs pods, in the server's terms; "" leaves that to the server.
	Node string
}

// Config says what is handed out to whom.
type Config struct {
	// Start makes a plane. An error that wraps ErrInvalid is the client's.
	Start func(ctx context.Context, start Start) (Plane, error)
	// Authenticator knows who asks.
	Authenticator authenticator.Request
	// Max bounds the planes, and the bases. It must be positive.
	Max int
	// Idle is how long a plane lives without requests; 0: for ever.
	Idle time.Duration
}

// Planes are the control planes handed out. Make it with New.
type Planes struct {
	cfg Config

	mu     sync.Mutex
	closed bool
	making int // planes being started
	all    map[string]*plane
	bases  map[string]*base
}

// plane is one control plane that was handed out. Planes.mu guards its fields below.
type plane struct {
	Plane
	id      string
	base    string
	created time.Time
	handler http.Handler // of the paths below /planes/<id>

	inHand  int // requests
	used    time.Time
	expiry  *time.Timer // nil: it does not expire
	dropped bool
}

// base is a saved state.
type base struct {
	name  string
	saved time.Time
	state *store.Snapshot
}

// drainTime bounds how long a dropped plane waits for short requests in hand.
const drainTime = 5 * time.Second

// New makes the handler. Close ends all planes.
func New(cfg Config) *Planes {
	return &Planes{cfg: cfg, all: map[string]*plane{}, bases: map[string]*base{}}
}

// create starts a plane that begins with a base, as a fork of another one, or empty.
func (p *Planes) create(ctx context.Context, req createRequest) (*plane, error) {
	from, err := p.reserve(req)
	if err != nil {
		return nil, err
	}
	made := &plane{id: newID(), base: req.Base, created: time.Now()}
	// The request ends before the plane.
	made.Plane, err = p.cfg.Start(context.WithoutCancel(ctx), Start{ID: made.id, From: from, Node: req.Node})
	p.mu.Lock()
	p.making--
	if err == nil && p.closed {
		err = ErrClosed
		defer made.Stop()
	}
	if err != nil {
		p.mu.Unlock()
		return nil, fmt.Errorf("start a control plane: %w", err)
	}
	defer p.mu.Unlock()
	made.handler = below(prefix+made.id, made.Plane.Handler())
	p.all[made.id] = made
	p.rest(made)
	return made, nil
}

// reserve takes a place, to be given back by the caller, and finds the state to begin with.
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

// save keeps a plane's state under a name; a base of that name is replaced.
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

// forget drops a base. Planes that began with it go on.
func (p *Planes) forget(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bases[name] == nil {
		return fmt.Errorf("base %q: %w", name, ErrNotFound)
	}
	delete(p.bases, name)
	return nil
}

// drop ends a plane and returns when it has ended.
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

// remove takes a plane out; p.mu is held. Its end is the caller's.
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
	_ = pl.Drain(ctx) // what is in hand after that is cut
	pl.Stop()
}

// begin finds a plane for a request; done ends the request. nil when there is none.
func (p *Planes) begin(id string) (_ *plane, done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.all[id]
	if found == nil {
		return nil, nil
	}
	found.inHand++
	if found.expiry != nil {
		found.expiry.Stop()
	}
	return found, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if found.inHand--; found.inHand == 0 && !found.dropped {
			p.rest(found)
		}
	}
}

// rest lets an idle plane expire; p.mu is held.
func (p *Planes) rest(idle *plane) {
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
	// A request, or DELETE, may have come between the timer and here.
	gone := idle.dropped || idle.inHand > 0 || time.Since(idle.used) < p.cfg.Idle
	if !gone {
		p.remove(idle)
	}
	p.mu.Unlock()
	if !gone {
		idle.end(context.Background())
	}
}

// Drain ends the watches of all planes and returns when their short requests are answered or ctx ends. No plane can be made afterwards.
func (p *Planes) Drain(ctx context.Context) error {
	var errs []error
	for _, pl := range p.close() {
		errs = append(errs, pl.Drain(ctx))
	}
	return errors.Join(errs...)
}

// Close ends all planes and returns when they have ended. Requests in hand are cut; see Drain.
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

// close lets no more planes be made, and gives those there are.
func (p *Planes) close() []*plane {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return p.sorted()
}

// sorted gives the planes by age; p.mu is held.
func (p *Planes) sorted() []*plane {
	var all []*plane
	for _, pl := range p.all {
		all = append(all, pl)
	}
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
