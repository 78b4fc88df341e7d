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

// ShardsConfig configures Shards.
type ShardsConfig struct {
	// Client accesses the Leases; it must read from the server. Required.
	Client client.Client
	// Group is the namespace of the Leases and a name that all replicas share; required.
	Group client.Key
	// Identity of this replica; by default NewIdentity(). It must be unique and never be reused,
	// and must not contain a comma.
	Identity string
	// Duration, RenewDeadline and RetryPeriod are as in Config.
	Duration, RenewDeadline, RetryPeriod time.Duration
	// Log receives changes of the members; slog.Default() if nil.
	Log *slog.Logger
}

const (
	groupLabel     = "kelson.dev/shards"
	viewAnnotation = "kelson.dev/shards-view"
	// separator is between the members of a view in the annotation.
	separator = ","
)

// Shards is the participation of one replica in sharded work. It implements the Gate of a
// controller.
//
// Every replica has a Lease, in which it announces its view: the replicas among which it divides
// the objects. A replica works on an object if its own view assigns the object to it, and no other
// live replica's view assigns the object to that other replica. To change its view, a replica first
// stops working on objects that the new view assigns to others; then it announces the new view, and
// uses it only after its watch has delivered the announcement. So of two replicas, the one that
// announces later has seen the other's announcement, and no object is assigned to both. Other
// replicas may act on an announcement before this replica's watch delivers it, even if the response
// was lost. So, as soon as it has sent the request, this replica does not work on objects that the
// announcement gives away, even if its view has changed since.
//
// If another client deletes a replica's Lease, that replica stops as soon as it notices that, and
// the others wait until the Lease would have expired. If all Leases are deleted, a new replica does
// not know the others: a replica that starts without others first waits for RetryPeriod.
type Shards struct {
	cfg ShardsConfig

	catchUp func(context.Context) error // may be nil; see CatchUpWith
	changed chan struct{}               // receives a value when catchUp must be called

	mu    sync.Mutex
	state state
	// earlier states that this replica has not caught up from, oldest first
	past []state
	// this replica must stop working at this time, unless it renews its Lease
	until    time.Time
	inFlight map[reconcile.Request]int // objects being worked on
	left     chan struct{}             // receives a value when work on an object ends
	gained   map[int]func()
	ids      int
	over     bool
	released map[string]bool // names of Leases that their replicas released

	// Used only by Run's goroutine.
	own    *coordinationv1.Lease
	unsure bool // the last announcement failed, and the server may have executed it
	wrote  view // the view in the last successful write; nil after a failure
	// from this resourceVersion on, the server has none of state.sent except the last; empty until
	// an announcement succeeds after the last was sent
	sentAt   string
	observed map[string]observation
	// whether the watch has delivered this replica's Lease, and has now delivered its deletion
	delivered, vanished bool
}

// view is the sorted list of replicas among which objects are divided. An empty view assigns no
// object.
type view []string

// state is the content of the Leases, with this replica's intentions.
type state struct {
	announced view            // our own view, as delivered by the watch
	next      view            // the view about to be announced; nil if none
	sent      []view          // announced views that the watch has not delivered yet
	peers     map[string]view // of the other live replicas
}

// observation is the newest record seen of a peer, with the time when it was first seen.
type observation struct {
	renewed metav1.MicroTime
	version uint64 // its resourceVersion, if that is a number
	at      time.Time

	view     view
	lease    string // the name of the Lease
	duration time.Duration
}

// NewShards returns a Shards for a group. It owns no objects before Run.
func NewShards(cfg ShardsConfig) (*Shards, error) {
	if strings.Contains(cfg.Identity, separator) {
		return nil, fmt.Errorf("new shards: Config.Identity %q must not contain %q", cfg.Identity, separator)
	}
	base, err := New(Config{
		Client: cfg.Client, Lease: cfg.Group, Identity: cfg.Identity, Duration: cfg.Duration,
		RenewDeadline: cfg.RenewDeadline,
		RetryPeriod:   cfg.RetryPeriod, Log: cfg.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("new shards: %w", err)
	}
	c := base.cfg
	cfg.Identity, cfg.Duration, cfg.RenewDeadline, cfg.RetryPeriod = c.Identity, c.Duration, c.RenewDeadline,
		c.RetryPeriod
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Shards{
		cfg: cfg, inFlight: map[reconcile.Request]int{}, left: make(chan struct{}, 1), gained: map[int]func(){},
		observed: map[string]observation{}, changed: make(chan struct{}, 1), released: map[string]bool{},
	}, nil
}

// Identity returns the identity of this replica.
func (s *Shards) Identity() string { return s.cfg.Identity }

// CatchUpWith sets a function that is called when this replica may have gained objects. Enter
// rejects gained objects until the function returns nil. When it does, reads must be at least as
// new as the writes of the previous owners. It is called again after an error. CatchUpWith must be
// called before Run.
func (s *Shards) CatchUpWith(catchUp func(context.Context) error) { s.catchUp = catchUp }

// Enter reports whether this replica may work on an object now. If so, the caller must call leave
// afterwards.
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

// mine reports whether an object is assigned only to this replica, which has caught up since it
// gained the object. The caller holds the lock.
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

// gives reports whether a state of replica me assigns an object to that replica and to no other.
func (s state) gives(req reconcile.Request, me string) bool {
	if s.announced.owner(req) != me || s.next != nil && s.next.owner(req) != me {
		return false
	}
	for _, v := range s.sent {
		if v.owner(req) != me {
			return false
		}
	}
	for peer, v := range s.peers {
		if v.owner(req) == peer {
			return false
		}
	}
	return true
}

// become sets the state. Newly gained objects wait until this replica has caught up. The caller
// holds the lock.
func (s *Shards) become(next state) {
	if s.state.equal(next) {
		return
	}
	s.past, s.state = append(s.past, s.state), next
	if s.catchUp == nil {
		s.past = nil
		s.callGained()
		return
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// catchUpLoop catches up whenever this replica may have gained objects, until ctx ends.
func (s *Shards) catchUpLoop(ctx context.Context) {
	for {
		select {
		case <-s.changed:
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
			s.cfg.Log.Error("catch up with the server failed; gained objects wait; retrying", "err", err)
			if !pause(ctx, time.Second) {
				return
			}
		}
		s.mu.Lock()
		// the next state is compared with the last removed one
		s.past = slices.Delete(s.past, 0, upTo)
		s.callGained()
		s.mu.Unlock()
	}
}

// Gained calls f whenever this replica may have gained objects, until stop is called. f must not
// block or call methods of Shards.
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

// owner returns the replica that an object is assigned to: the one with the highest hash of replica
// and object (rendezvous hashing).
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

// mix spreads the hash values of FNV (finalizer of MurmurHash3).
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

func (v view) String() string { return strings.Join(v, separator) }

func parseView(lease *coordinationv1.Lease) view {
	text := lease.Annotations[viewAnnotation]
	if text == "" {
		return view{}
	}
	return strings.Split(text, separator)
}

func (s state) equal(o state) bool {
	if !slices.Equal(s.announced, o.announced) || (s.next == nil) != (o.next == nil) || !slices.Equal(s.next, o.next) ||
		len(s.peers) != len(o.peers) ||
		!slices.EqualFunc(s.sent, o.sent, slices.Equal[view]) {
		return false
	}
	for identity, v := range s.peers {
		if other, ok := o.peers[identity]; !ok || !slices.Equal(v, other) {
			return false
		}
	}
	return true
}
