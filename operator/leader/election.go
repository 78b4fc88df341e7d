package leader

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
)

// ErrLost means that another replica may be leading, because the Lease could not be renewed in
// time.
var ErrLost = errors.New("leadership lost")

// ErrStillWorking marks the error of a lead function that returned although some of its work has
// not stopped. The Lease is then not released but expires, and the process should exit before that.
var ErrStillWorking = errors.New("some work did not stop in time")

// Config configures an Election.
type Config struct {
	// Client accesses the Lease; it must read from the server. Required.
	Client client.Client
	// Lease is the namespace and name of the Lease; required. It is created if it does not exist.
	Lease client.Key
	// Identity of this replica; by default NewIdentity().
	Identity string
	// Duration is how long an unrenewed Lease keeps other replicas from leading; 15 s if zero. It
	// is truncated to seconds, as a Lease requires.
	Duration time.Duration
	// RenewDeadline is how long a leader continues without a successful renewal; two thirds of
	// Duration if zero. It must be shorter than Duration.
	RenewDeadline time.Duration
	// RetryPeriod is the time between renewals; a fifth of RenewDeadline if zero.
	RetryPeriod time.Duration
	// Leading, if not nil, is called when this replica starts and stops leading.
	Leading func(bool)
	// Log receives changes of the leader; slog.Default() if nil.
	Log *slog.Logger
}

// Election is the participation of one replica in a leader election.
type Election struct {
	cfg     Config
	leading atomic.Bool

	// Used only by Run's goroutine.
	seen     *coordinationv1.Lease // the newest known state
	seenAt   time.Time             // when its record was first seen, by the local clock
	signed   time.Time             // just before the last request to acquire the Lease
	announce string                // the leader logged last

	mu        sync.Mutex
	watched   *coordinationv1.Lease // the last state from the watch, and when it arrived
	watchedAt time.Time
}

// New returns an Election. It sends no requests before Run.
func New(cfg Config) (*Election, error) {
	if cfg.Client == nil || cfg.Lease.Name == "" || cfg.Lease.Namespace == "" {
		return nil, errors.New("new election: Config.Client and Config.Lease, with a namespace, are required")
	}
	if cfg.Identity == "" {
		cfg.Identity = NewIdentity()
	}
	cfg.Duration = cmp.Or(cfg.Duration, 15*time.Second)
	cfg.Duration = cfg.Duration.Truncate(time.Second)
	cfg.RenewDeadline = cmp.Or(cfg.RenewDeadline, cfg.Duration*2/3)
	cfg.RetryPeriod = cmp.Or(cfg.RetryPeriod, cfg.RenewDeadline/5)
	if cfg.Duration < time.Second || cfg.RenewDeadline >= cfg.Duration || cfg.RetryPeriod >= cfg.RenewDeadline ||
		cfg.RetryPeriod <= 0 {
		return nil, fmt.Errorf("new election: want 0 < RetryPeriod (%v) < RenewDeadline (%v) < Duration (%v), and Duration of at least a second",
			cfg.RetryPeriod, cfg.RenewDeadline, cfg.Duration)
	}
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	cfg.Log = cfg.Log.With("lease", cfg.Lease.String())
	return &Election{cfg: cfg}, nil
}

// NewIdentity returns the host name with a random suffix.
func NewIdentity() string {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "_" + hex.EncodeToString(random)
}

// Identity returns the identity of this replica.
func (e *Election) Identity() string { return e.cfg.Identity }

// Leads reports whether this replica leads.
func (e *Election) Leads() bool { return e.leading.Load() }

// Run waits until this replica leads, and calls lead with a context that ends when it must stop
// leading. After lead returns, Run releases the Lease, so that another replica can lead
// immediately, unless the error of lead is ErrStillWorking. Run returns the error of lead, nil if
// ctx ended before this replica led, and ErrLost if the Lease could not be renewed; it does not
// release the Lease then. Run can be called only once.
//
// A term starts when the request that acquires or renews the Lease is sent, not when the response
// arrives: other replicas count from when the server processed it, which is later. lead's context
// ends RenewDeadline after that, regardless of a request in progress.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context) error) error {
	watch, err := follow(ctx, e.cfg.Client, e.cfg.Lease, nil, e.onWatch, e.cfg.Log)
	if err != nil {
		return err
	}
	defer watch.stop()
	if !e.acquire(ctx, watch) {
		return nil
	}
	e.setLeading(true)
	defer e.setLeading(false)

	leadCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() { ended <- lead(leadCtx) }()
	// Run renews the Lease until lead has returned, even after the end of ctx: the shutdown of lead
	// is still the leader's work.
	renewCtx := context.WithoutCancel(ctx)
	err = e.renew(renewCtx, watch, ended, e.signed)
	if errors.Is(err, ErrLost) {
		cancel(err)
		e.setLeading(false)
		<-ended
		return err
	}
	e.setLeading(false)
	if errors.Is(err, ErrStillWorking) {
		e.cfg.Log.Warn("not releasing the Lease, because some work did not stop in time; it will expire", "leader",
			e.cfg.Identity, "err", err)
		return err
	}
	e.release(renewCtx)
	return err
}

func (e *Election) setLeading(leading bool) {
	if e.leading.Swap(leading) != leading && e.cfg.Leading != nil {
		e.cfg.Leading(leading)
	}
}

// acquire waits until this replica holds the Lease. It returns false if ctx ended first.
func (e *Election) acquire(ctx context.Context, watch *following) bool {
	for {
		wait, err := e.try(ctx)
		if err == nil && wait == 0 {
			if time.Since(e.signed) < e.cfg.RenewDeadline {
				return true
			}
			continue // the response came so late that the Lease must be renewed first
		}
		if err != nil && ctx.Err() == nil {
			e.cfg.Log.Error("cannot read or acquire the Lease; retrying", "err", err)
			wait = e.cfg.RetryPeriod
		}
		if !watch.works() {
			wait = min(wait, e.cfg.RetryPeriod)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-watch.changed:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// try acquires the Lease if it is free. Otherwise it returns how long the Lease stays held if it
// does not change.
func (e *Election) try(ctx context.Context) (wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.RenewDeadline)
	defer cancel()
	lease := &coordinationv1.Lease{}
	e.recall()
	err = e.cfg.Client.Get(ctx, e.cfg.Lease, lease)
	if apierrors.IsNotFound(err) {
		// Its holder may not have noticed yet that the Lease was deleted, and leads until it
		// notices.
		if e.seen != nil {
			if left := e.left(e.seen); left > 0 {
				return left, nil
			}
		}
		lease.ObjectMeta = metav1.ObjectMeta{Namespace: e.cfg.Lease.Namespace, Name: e.cfg.Lease.Name}
		e.sign(lease, true)
		if err = e.cfg.Client.Create(ctx, lease); apierrors.IsAlreadyExists(err) {
			return e.cfg.RetryPeriod, nil // the watch reports the change
		}
		e.observe(lease)
		return 0, err
	}
	if err != nil {
		return 0, err
	}
	e.observe(lease)
	if left := e.left(lease); left > 0 {
		if holder := holderOf(lease); holder != e.announce {
			e.announce = holder
			e.cfg.Log.Info("following another leader", "leader", holder)
		}
		return left, nil
	}
	e.sign(lease, true)
	if err = e.cfg.Client.Update(ctx, lease); apierrors.IsConflict(err) {
		return e.cfg.RetryPeriod, nil // another replica was first
	}
	if err == nil {
		e.observe(lease)
	}
	return 0, err
}

// left returns the remaining time in which a Lease with the last seen record prevents this replica
// from leading.
func (e *Election) left(lease *coordinationv1.Lease) time.Duration {
	if holder := holderOf(lease); holder == "" || holder == e.cfg.Identity {
		return 0
	}
	return max(0, durationOf(lease, e.cfg.Duration)-time.Since(e.seenAt))
}

// onWatch records a state of the Lease from the watch, and reports whether another replica may have
// written it.
func (e *Election) onWatch(lease *coordinationv1.Lease) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watched, e.watchedAt = lease, time.Now()
	return holderOf(lease) != e.cfg.Identity
}

// recall uses the last state from the watch, with the time of its arrival, so that a Lease that was
// seen earlier can expire while the server is unreachable.
func (e *Election) recall() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watched != nil && (e.seen == nil || !sameRecord(e.seen, e.watched)) && e.watchedAt.After(e.seenAt) {
		e.seen, e.seenAt = e.watched, e.watchedAt
	}
}

// observe records a state of the Lease.
func (e *Election) observe(lease *coordinationv1.Lease) {
	if e.seen == nil || !sameRecord(e.seen, lease) {
		e.seenAt = time.Now()
	}
	e.seen = lease
}

// sign sets this replica as the holder, as of now. begin is true if the replica did not lead
// before; sign then records the time in e.signed.
func (e *Election) sign(lease *coordinationv1.Lease, begin bool) {
	now := metav1.NowMicro()
	seconds := int32(e.cfg.Duration / time.Second)
	spec := &lease.Spec
	if begin {
		transitions := int32(0)
		if spec.LeaseTransitions != nil {
			transitions = *spec.LeaseTransitions
			if holderOf(lease) != e.cfg.Identity {
				transitions++
			}
		}
		spec.AcquireTime, spec.LeaseTransitions = &now, &transitions
		e.signed = time.Now()
	}
	spec.HolderIdentity, spec.LeaseDurationSeconds, spec.RenewTime = &e.cfg.Identity, &seconds, &now
}

// renew renews the Lease, which was last renewed at a time, until lead has ended or the Lease is
// lost. It returns the error of lead, or ErrLost.
func (e *Election) renew(ctx context.Context, watch *following, ended <-chan error, renewed time.Time) error {
	e.cfg.Log.Info("started leading", "leader", e.cfg.Identity)
	wait := e.cfg.RetryPeriod - time.Since(renewed)
	for {
		deadline := renewed.Add(e.cfg.RenewDeadline)
		timer := time.NewTimer(max(0, min(wait, time.Until(deadline))))
		select {
		case err := <-ended:
			timer.Stop()
			return err
		case <-watch.changed:
			timer.Stop()
		case <-timer.C:
		}
		// Limit the rate of writes, however often the Lease changes.
		if time.Since(renewed) < e.cfg.RetryPeriod && e.unchanged(ctx, deadline) {
			wait = e.cfg.RetryPeriod - time.Since(renewed)
			continue
		}
		begin := time.Now()
		lease, err := within(ctx, deadline, e.seen, e.renewOnce)
		switch {
		case err == nil:
			e.seen, renewed = lease, begin
			wait = e.cfg.RetryPeriod - time.Since(begin)
		case errors.Is(err, ErrLost):
			return err
		case !time.Now().Before(deadline):
			return fmt.Errorf("%w: not renewed within %v: %w", ErrLost, e.cfg.RenewDeadline, err)
		default:
			wait = e.cfg.RetryPeriod
			e.cfg.Log.Warn("renew Lease; retrying", "err", err)
		}
	}
}

// within calls a function that sends requests until a deadline, with a copy of a Lease. It returns
// at the deadline even if the function ignores its context, as requests do while a credential
// plugin runs.
func within(ctx context.Context, deadline time.Time, lease *coordinationv1.Lease,
	ask func(context.Context, *coordinationv1.Lease) (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	type answer struct {
		lease *coordinationv1.Lease
		err   error
	}
	answers := make(chan answer, 1)
	leaseCopy := lease.DeepCopy()
	go func() {
		lease, err := ask(ctx, leaseCopy)
		answers <- answer{lease, err}
	}()
	select {
	case a := <-answers:
		return a.lease, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// unchanged reports whether this replica still holds the Lease after an event. It also returns true
// if it can't find out, because the next renewal will.
func (e *Election) unchanged(ctx context.Context, deadline time.Time) bool {
	if soon := time.Now().Add(e.cfg.RetryPeriod); soon.Before(deadline) {
		deadline = soon
	}
	lease, err := within(ctx, deadline, e.seen,
		func(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
			return lease, e.cfg.Client.Get(ctx, e.cfg.Lease, lease)
		})
	if err != nil {
		return !apierrors.IsNotFound(err)
	}
	if holderOf(lease) != e.cfg.Identity {
		return false
	}
	e.seen = lease
	return true
}

// renewOnce renews the Lease and returns its new state.
func (e *Election) renewOnce(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	e.sign(lease, false)
	err := e.cfg.Client.Update(ctx, lease)
	if err == nil {
		return lease, nil
	}
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return nil, err
	}
	// The other writer need not be a rival: it may have added labels.
	lease = &coordinationv1.Lease{}
	if err := e.cfg.Client.Get(ctx, e.cfg.Lease, lease); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("%w: the Lease was deleted", ErrLost)
		}
		return nil, err
	}
	if holder := holderOf(lease); holder != e.cfg.Identity {
		return nil, fmt.Errorf("%w to %q", ErrLost, holder)
	}
	e.sign(lease, false)
	if err := e.cfg.Client.Update(ctx, lease); err != nil {
		return nil, err
	}
	return lease, nil
}

// release releases the Lease if this replica still holds it.
func (e *Election) release(ctx context.Context) {
	_, err := within(ctx, time.Now().Add(e.cfg.RenewDeadline), e.seen,
		func(ctx context.Context, _ *coordinationv1.Lease) (*coordinationv1.Lease, error) {
			return nil, e.releaseOnce(ctx)
		})
	if err != nil {
		e.cfg.Log.Warn("cannot release the Lease; it will expire", "err", err)
		return
	}
	e.cfg.Log.Info("stopped leading", "leader", e.cfg.Identity)
}

func (e *Election) releaseOnce(ctx context.Context) error {
	return reconcile.RetryOnConflict(ctx, func(ctx context.Context) error {
		lease := &coordinationv1.Lease{}
		if err := e.cfg.Client.Get(ctx, e.cfg.Lease, lease); err != nil {
			return client.IgnoreNotFound(err)
		}
		if holderOf(lease) != e.cfg.Identity {
			return nil
		}
		noHolder, second, now := "", int32(1), metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &noHolder, &second
		lease.Spec.RenewTime, lease.Spec.AcquireTime = &now, &now
		return e.cfg.Client.Update(ctx, lease)
	})
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func durationOf(lease *coordinationv1.Lease, otherwise time.Duration) time.Duration {
	if s := lease.Spec.LeaseDurationSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return otherwise
}

// sameRecord reports whether two states of the Lease have the same record.
func sameRecord(a, b *coordinationv1.Lease) bool {
	return holderOf(a) == holderOf(b) && a.UID == b.UID && a.Spec.RenewTime.Equal(b.Spec.RenewTime) &&
		a.Spec.AcquireTime.Equal(b.Spec.AcquireTime)
}
