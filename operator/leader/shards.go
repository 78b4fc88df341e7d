package leader

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
)

// ShardsConfig describes Shards.
type ShardsConfig struct {
	// Client reaches the Leases; it must ask the server. Required.
	Client client.Client
	// Group is the namespace of the Leases and the name that all replicas share; required.
	Group client.Key
	// Identity of this replica; by default the host's name and a random part. It must be unique, and never used again.
	Identity string
	// Duration, RenewDeadline and RetryPeriod are as in Config.
	Duration, RenewDeadline, RetryPeriod time.Duration
	// Log is where it tells who takes part; slog.Default() if nil.
	Log *slog.Logger
}

const (
	groupLabel     = "kelson.dev/shards"
	viewAnnotation = "kelson.dev/shards-view"
)

// Shards is one replica's part of the work that several share. It is the Gate of a controller.
//
// Every replica has a Lease. On it stands its view: the replicas among which it divides the objects. A replica works on an object if
// that falls to it in its own view, and in no other living replica's view to that one. Before a replica changes its view it puts
// down what no longer falls to it; then it announces the new one, and goes by it only when its watch has brought the announcement back.
// Of two announcements the later one was therefore made with the earlier one in sight, so no object falls to both.
type Shards struct {
	cfg ShardsConfig

	catchUp  func(context.Context) error // may be nil; see CatchUpWith
	unsettle chan struct{}               // has a value when there is something to catch up with

	mu       sync.Mutex
	state    state
	past     []state                   // what came before state and this replica has not caught up with, and the state before that; empty if there is nothing
	until    time.Time                 // when this replica must work no longer, unless its Lease is renewed
	inFlight map[reconcile.Request]int // objects that are worked on
	left     chan struct{}             // has a value when one was put down that does not fall to us in state.next
	gained   map[int]func()
	ids      int
	over     bool

	// Of the goroutine that runs.
	own      *coordinationv1.Lease
	observed map[string]observation
}

// view is the replicas among which objects are divided, in order. Nothing falls to anybody in an empty one.
type view []string

// state is what the Leases say, and what this replica makes of it.
type state struct {
	announced view            // our own, as the watch has it
	next      view            // what is about to be announced; nil if that is the announced one
	peers     map[string]view // of the other living replicas
}

// observation is the newest record of a peer that was seen, and when it was seen first.
type observation struct {
	renewed metav1.MicroTime
	version uint64 // its resourceVersion, if that is a number
	at      time.Time
}

// NewShards takes part in a group. Nothing is ours before it runs.
func NewShards(cfg ShardsConfig) (*Shards, error) {
	base, err := New(Config{
		Client: cfg.Client, Lease: cfg.Group, Identity: cfg.Identity, Duration: cfg.Duration, RenewDeadline: cfg.RenewDeadline,
		RetryPeriod: cfg.RetryPeriod, Log: cfg.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("new shards: %w", err)
	}
	c := base.cfg
	cfg.Identity, cfg.Duration, cfg.RenewDeadline, cfg.RetryPeriod = c.Identity, c.Duration, c.RenewDeadline, c.RetryPeriod
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Shards{
		cfg: cfg, inFlight: map[reconcile.Request]int{}, left: make(chan struct{}, 1), gained: map[int]func(){},
		observed: map[string]observation{}, unsettle: make(chan struct{}, 1),
	}, nil
}

// Identity is that of this replica.
func (s *Shards) Identity() string { return s.cfg.Identity }

// CatchUpWith has catchUp called when objects may have come to this replica. They are let through when it has returned without an error: by then, what
// is read must be at least as new as what the replica that had them before has written. It is called again after an error. CatchUpWith must be called
// before Run.
func (s *Shards) CatchUpWith(catchUp func(context.Context) error) { s.catchUp = catchUp }

// Enter says whether an object may be worked on now; then leave is to be called when that is done.
func (s *Shards) Enter(req reconcile.Request) (leave func(), ours bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mine(req) {
		return nil, false
	}
	s.inFlight[req]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.inFlight[req]--; s.inFlight[req] == 0 {
			delete(s.inFlight, req)
		}
		select {
		case s.left <- struct{}{}:
		default:
		}
	}, true
}

// mine, under the lock, says whether an object falls to this replica and to nobody else, and this replica has caught up since it came.
func (s *Shards) mine(req reconcile.Request) bool {
	if s.over || !time.Now().Before(s.until) || !s.state.gives(req, s.cfg.Identity) {
		return false
	}
	for _, before := range s.past {
		if !before.gives(req, s.cfg.Identity) {
			return false
		}
	}
	return true
}

// gives says whether an object falls to a replica, which is the one that has the state, and to nobody else.
func (s state) gives(req reconcile.Request, me string) bool {
	if s.announced.owner(req) != me || s.next != nil && s.next.owner(req) != me {
		return false
	}
	for peer, v := range s.peers {
		if v.owner(req) == peer {
			return false
		}
	}
	return true
}

// become, under the lock, changes the state. What falls to this replica only now has to wait until it has caught up.
func (s *Shards) become(next state) {
	if s.state.equal(next) {
		return
	}
	s.past, s.state = append(s.past, s.state), next
	if s.catchUp == nil {
		s.past = nil
		s.tell()
		return
	}
	select {
	case s.unsettle <- struct{}{}:
	default:
	}
}

// settle catches up whenever objects may have come to this replica, until ctx ends.
func (s *Shards) settle(ctx context.Context) {
	for {
		select {
		case <-s.unsettle:
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		upTo := len(s.past)
		s.mu.Unlock()
		for upTo > 0 {
			err := s.catchUp(ctx)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return
			}
			s.cfg.Log.Error("objects that come to this replica wait: it could not catch up with the server, and tries again", "err", err)
			if !pause(ctx, time.Second) {
				return
			}
		}
		s.mu.Lock()
		s.past = slices.Delete(s.past, 0, upTo) // what was the state then is what the following ones are compared with
		s.tell()
		s.mu.Unlock()
	}
}

// Gained has f called whenever objects may have come to this replica, until stop is called. f must neither block nor call
// the Shards.
func (s *Shards) Gained(f func()) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids++
	id := s.ids
	s.gained[id] = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.gained, id)
	}
}

// owner is who an object falls to: the one with the highest hash of both (rendezvous hashing).
func (v view) owner(req reconcile.Request) string {
	var owner string
	var best uint64
	for _, member := range v {
		h := fnv.New64a()
		for _, part := range []string{req.Cluster, req.Namespace, req.Name, member} {
			_, _ = h.Write([]byte(part))
			_, _ = h.Write([]byte{0})
		}
		if score := mix(h.Sum64()); owner == "" || score > best {
			owner, best = member, score
		}
	}
	return owner
}

// mix spreads what FNV leaves close together (the finalizer of MurmurHash3).
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

func (v view) String() string { return strings.Join(v, ",") }

func parseView(lease *coordinationv1.Lease) view {
	text := lease.Annotations[viewAnnotation]
	if text == "" {
		return view{}
	}
	return strings.Split(text, ",")
}

func (s state) equal(o state) bool {
	if !slices.Equal(s.announced, o.announced) || (s.next == nil) != (o.next == nil) || !slices.Equal(s.next, o.next) || len(s.peers) != len(o.peers) {
		return false
	}
	for who, v := range s.peers {
		if other, ok := o.peers[who]; !ok || !slices.Equal(v, other) {
			return false
		}
	}
	return true
}
