package leader

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
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

	mu       sync.Mutex
	state    state
	next     view                      // what is about to be announced; nil if that is the announced one
	inFlight map[reconcile.Request]int // objects that are worked on
	left     chan struct{}             // has a value when one was put down that does not fall to us in next
	gained   map[int]func()
	ids      int
	over     bool

	// Of the goroutine that runs.
	own      *coordinationv1.Lease
	observed map[string]observation
}

// view is the replicas among which objects are divided, in order. Nothing falls to anybody in an empty one.
type view []string

// state is what the Leases say.
type state struct {
	announced view            // our own, as the watch has it
	peers     map[string]view // of the other living replicas
}

type observation struct {
	renewed metav1.MicroTime
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
		observed: map[string]observation{},
	}, nil
}

// Identity is that of this replica.
func (s *Shards) Identity() string { return s.cfg.Identity }

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

// mine, under the lock, says whether an object falls to this replica and to nobody else.
func (s *Shards) mine(req reconcile.Request) bool {
	me := s.cfg.Identity
	if s.over || s.state.announced.owner(req) != me || s.next != nil && s.next.owner(req) != me {
		return false
	}
	for peer, v := range s.state.peers {
		if v.owner(req) == peer {
			return false
		}
	}
	return true
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

// Run takes part until ctx ends, and then gives this replica's objects to the others at once: whatever works must have ended before. It
// returns ErrLost when the Lease could not be renewed in time: others take over then, and this replica must work no longer.
func (s *Shards) Run(ctx context.Context) error {
	watch, err := follow(ctx, s.cfg.Client, client.Key{Namespace: s.cfg.Group.Namespace}, labels.SelectorFromSet(labels.Set{groupLabel: s.cfg.Group.Name}),
		func(*coordinationv1.Lease) bool { return true }, s.cfg.Log)
	if err != nil {
		return err
	}
	defer watch.stop()
	inf, err := watch.leases.For(&coordinationv1.Lease{})
	if err != nil {
		return err
	}
	select {
	case <-inf.Synced():
	case <-ctx.Done():
		return nil
	}
	renewed := time.Now()
	if err := s.announce(ctx, view{}); err != nil {
		return fmt.Errorf("take part in shards: %w", err)
	}
	defer func() {
		s.mu.Lock()
		s.over = true
		s.mu.Unlock()
	}()
	for {
		target := s.look(inf)
		changed := s.turn(target) // from now on, nothing that falls to others is begun
		write := changed && s.clear() || time.Since(renewed) >= s.cfg.RetryPeriod
		if write {
			begin := time.Now()
			v := s.announcedView()
			if changed && s.clear() {
				v = target
			}
			attempt, cancel := context.WithDeadline(context.WithoutCancel(ctx), renewed.Add(s.cfg.RenewDeadline))
			err := s.announce(attempt, v)
			cancel()
			switch {
			case err == nil:
				renewed = begin
			case errors.Is(err, ErrLost) || time.Since(renewed) >= s.cfg.RenewDeadline:
				return fmt.Errorf("%w: this replica's part of the work: %w", ErrLost, err)
			default:
				s.cfg.Log.Warn("the Lease could not be renewed, and is tried again", "err", err)
			}
			if err != nil {
				if !pause(ctx, min(s.cfg.RetryPeriod, time.Second)) {
					break
				}
				continue
			}
		}
		timer := time.NewTimer(max(0, time.Until(renewed.Add(s.cfg.RetryPeriod))))
		select {
		case <-ctx.Done():
		case <-watch.changed:
		case <-s.left:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			break
		}
	}
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.RenewDeadline)
	defer cancel()
	if err := client.IgnoreNotFound(s.cfg.Client.Delete(ctx, s.own)); err != nil {
		s.cfg.Log.Warn("the Lease could not be given back: it has to expire", "err", err)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// look reads the Leases: whose views are in force, and who should be in ours.
func (s *Shards) look(inf informer.Informer) (target view) {
	now := time.Now()
	next := state{peers: map[string]view{}}
	seen := map[string]bool{}
	for _, obj := range inf.List(s.cfg.Group.Namespace) {
		lease := obj.(*coordinationv1.Lease)
		who := holderOf(lease)
		if lease.Labels[groupLabel] != s.cfg.Group.Name || who == "" {
			continue
		}
		seen[who] = true
		if who == s.cfg.Identity {
			next.announced = parseView(lease)
			target = append(target, who)
			continue
		}
		o, known := s.observed[who]
		if renewed := lease.Spec.RenewTime; !known || renewed != nil && !renewed.Equal(&o.renewed) {
			o = observation{at: now}
			if renewed != nil {
				o.renewed = *renewed
			}
			s.observed[who] = o
		}
		if now.Sub(o.at) < durationOf(lease, s.cfg.Duration) {
			next.peers[who] = parseView(lease)
			target = append(target, who)
		} else {
			s.bury(lease)
		}
	}
	for who := range s.observed {
		if !seen[who] {
			delete(s.observed, who)
		}
	}
	slices.Sort(target)
	if len(target) == 0 {
		target = view{} // our own Lease is not there yet
	}
	s.mu.Lock()
	changed := !s.state.equal(next)
	s.state = next
	if changed {
		s.tell()
	}
	s.mu.Unlock()
	if changed {
		s.cfg.Log.Debug("shards", "identity", s.cfg.Identity, "view", next.announced, "target", target)
	}
	return target
}

// tell, under the lock, says that objects may have come to this replica.
func (s *Shards) tell() {
	for _, f := range s.gained {
		f()
	}
}

// bury removes the Lease of a replica that died, so that they do not pile up.
func (s *Shards) bury(lease *coordinationv1.Lease) {
	uid, version := lease.UID, lease.ResourceVersion
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// Another replica may be doing the same.
	_ = s.cfg.Client.Delete(ctx, lease, client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
}

// turn has what does not fall to us in target begun no longer, and says whether that is another view than the announced.
func (s *Shards) turn(target view) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(target, s.state.announced) && (s.own == nil || slices.Equal(target, parseView(s.own))) {
		if s.next != nil {
			s.next = nil
			s.tell()
		}
		return false
	}
	s.next = target
	return !slices.Equal(target, parseView(s.own))
}

// clear says whether everything that is worked on falls to us in the next view, too.
func (s *Shards) clear() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for req := range s.inFlight {
		if s.next.owner(req) != s.cfg.Identity {
			return false
		}
	}
	return true
}

// announcedView is what was announced last, whether the watch has it or not.
func (s *Shards) announcedView() view { return parseView(s.own) }

// announce renews the Lease, with a view.
func (s *Shards) announce(ctx context.Context, v view) error {
	now, seconds := metav1.NowMicro(), int32(s.cfg.Duration/time.Second)
	if s.own == nil {
		sum := sha256.Sum256([]byte(s.cfg.Identity))
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.cfg.Group.Namespace, Name: s.cfg.Group.Name + "-" + hex.EncodeToString(sum[:6]),
				Labels: map[string]string{groupLabel: s.cfg.Group.Name}, Annotations: map[string]string{viewAnnotation: v.String()},
			},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &s.cfg.Identity, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
		}
		if err := s.cfg.Client.Create(ctx, lease); err != nil {
			return err
		}
		s.own = lease
		return nil
	}
	lease := s.own.DeepCopy()
	lease.Spec.RenewTime = &now
	lease.Annotations = map[string]string{viewAnnotation: v.String()}
	err := s.cfg.Client.Update(ctx, lease)
	switch {
	case err == nil:
		s.own = lease
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: %w", ErrLost, err) // somebody thought that we were dead
	case apierrors.IsConflict(err):
		// An answer of the server's may have been lost on its way.
		now := &coordinationv1.Lease{}
		if getErr := s.cfg.Client.Get(ctx, client.KeyOf(s.own), now); getErr != nil {
			return getErr
		}
		if now.UID != s.own.UID || holderOf(now) != s.cfg.Identity {
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
		s.own = now
	}
	return err
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
	if !slices.Equal(s.announced, o.announced) || len(s.peers) != len(o.peers) {
		return false
	}
	for who, v := range s.peers {
		if other, ok := o.peers[who]; !ok || !slices.Equal(v, other) {
			return false
		}
	}
	return true
}
