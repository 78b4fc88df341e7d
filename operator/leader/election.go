package leader

import (
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

// ErrLost says that somebody else may lead by now, since the Lease could not be renewed in time.
var ErrLost = errors.New("the leadership was lost")

// ErrStillWorking marks the error of a lead function that returned although some of its work has not stopped. The Lease is not released then: it
// expires, and the process should end before that.
var ErrStillWorking = errors.New("some work did not stop in time")

// Config describes an Election.
type Config struct {
	// Client reaches the Lease; it must ask the server. Required.
	Client client.Client
	// Lease is its namespace and name; required. It is made if it does not exist.
	Lease client.Key
	// Identity of this replica; by default the host's name and a random part.
	Identity string
	// Duration is how long a Lease that is not renewed keeps others out; 15 s if zero. A Lease has whole seconds: a fraction is dropped.
	Duration time.Duration
	// RenewDeadline is how long a leader that cannot renew goes on; two thirds of Duration if zero. It must be shorter than that.
	RenewDeadline time.Duration
	// RetryPeriod is the time between renewals; a fifth of RenewDeadline if zero.
	RetryPeriod time.Duration
	// Leading, if any, is told when this replica begins and ceases to lead.
	Leading func(bool)
	// Log is where it tells who leads; slog.Default() if nil.
	Log *slog.Logger
}

// Election is one replica's part in the election of a leader.
type Election struct {
	cfg     Config
	leading atomic.Bool

	// Of the goroutine that runs.
	seen     *coordinationv1.Lease // the newest state known
	seenAt   time.Time             // when its record was first seen, by this machine's clock
	signed   time.Time             // just before the last request to acquire the Lease was sent
	announce string                // the leader that was logged

	mu      sync.Mutex
	heard   *coordinationv1.Lease // what the watch brought last, and when
	heardAt time.Time
}

// New makes an election. Nothing happens before it runs.
func New(cfg Config) (*Election, error) {
	if cfg.Client == nil || cfg.Lease.Name == "" || cfg.Lease.Namespace == "" {
		return nil, errors.New("new election: Config.Client and Config.Lease, with a namespace, are required")
	}
	if cfg.Identity == "" {
		cfg.Identity = NewIdentity()
	}
	if cfg.Duration == 0 {
		cfg.Duration = 15 * time.Second
	}
	cfg.Duration = cfg.Duration.Truncate(time.Second)
	if cfg.RenewDeadline == 0 {
		cfg.RenewDeadline = cfg.Duration * 2 / 3
	}
	if cfg.RetryPeriod == 0 {
		cfg.RetryPeriod = cfg.RenewDeadline / 5
	}
	if cfg.Duration < time.Second || cfg.RenewDeadline >= cfg.Duration || cfg.RetryPeriod >= cfg.RenewDeadline {
		return nil, fmt.Errorf("new election: want RetryPeriod (%v) < RenewDeadline (%v) < Duration (%v), and that a second at least",
			cfg.RetryPeriod, cfg.RenewDeadline, cfg.Duration)
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	cfg.Log = cfg.Log.With("lease", cfg.Lease.String())
	return &Election{cfg: cfg}, nil
}

// NewIdentity is the host's name and a random part: unique, and known to people.
func NewIdentity() string {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "_" + hex.EncodeToString(random)
}

// Identity is that of this replica.
func (e *Election) Identity() string { return e.cfg.Identity }

// Leads says whether this replica leads.
func (e *Election) Leads() bool { return e.leading.Load() }

// Run waits until this replica leads, and calls lead with a context that ends when it must lead no longer. When lead has returned, the
// Lease is given back, and somebody else leads at once; unless the error of lead is ErrStillWorking: then the Lease must expire. Run returns the
// error of lead, nil if ctx ended before this replica led, and ErrLost when the Lease could not be renewed; it is not given back then. It can be
// called once.
//
// A term begins when the request that acquires or renews the Lease is sent, not when its answer arrives: others count from when the server has
// served it, which is later. lead's context ends RenewDeadline after that, whatever a request that is under way does.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context) error) error {
	watch, err := follow(ctx, e.cfg.Client, e.cfg.Lease, nil, e.hear, e.cfg.Log)
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
	// The Lease is renewed until lead has returned, also after the end of ctx: what lead ends with is still the leader's work.
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
		e.cfg.Log.Warn("the Lease is not released, because some work did not stop in time: it expires", "leader", e.cfg.Identity, "err", err)
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

// acquire waits until the Lease is this replica's; false when ctx ended first.
func (e *Election) acquire(ctx context.Context, watch *following) bool {
	for {
		wait, err := e.try(ctx)
		if err == nil && wait == 0 {
			if time.Since(e.signed) < e.cfg.RenewDeadline {
				return true
			}
			continue // the answer came so late that the Lease must be renewed first
		}
		if err != nil && ctx.Err() == nil {
			e.cfg.Log.Error("the Lease can't be looked at", "err", err)
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

// try takes the Lease if it is to be had, and else says for how long it will not, if nothing changes.
func (e *Election) try(ctx context.Context) (wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.RenewDeadline)
	defer cancel()
	lease := &coordinationv1.Lease{}
	e.recall()
	err = e.cfg.Client.Get(ctx, e.cfg.Lease, lease)
	if apierrors.IsNotFound(err) {
		// Its holder may not know yet that the Lease was deleted, and leads until then.
		if e.seen != nil {
			if left := e.left(e.seen); left > 0 {
				return left, nil
			}
		}
		lease.ObjectMeta = metav1.ObjectMeta{Namespace: e.cfg.Lease.Namespace, Name: e.cfg.Lease.Name}
		e.sign(lease, true)
		if err = e.cfg.Client.Create(ctx, lease); apierrors.IsAlreadyExists(err) {
			return e.cfg.RetryPeriod, nil // the watch will tell
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
			e.cfg.Log.Info("another replica leads", "leader", holder)
		}
		return left, nil
	}
	e.sign(lease, true)
	if err = e.cfg.Client.Update(ctx, lease); apierrors.IsConflict(err) {
		return e.cfg.RetryPeriod, nil // somebody else was faster
	}
	if err == nil {
		e.observe(lease)
	}
	return 0, err
}

// left is for how long a Lease with the record that was seen last keeps this replica out.
func (e *Election) left(lease *coordinationv1.Lease) time.Duration {
	if holder := holderOf(lease); holder == "" || holder == e.cfg.Identity {
		return 0
	}
	return max(0, durationOf(lease, e.cfg.Duration)-time.Since(e.seenAt))
}

// hear is told by the watch of each state of the Lease, and says whether that is news.
func (e *Election) hear(lease *coordinationv1.Lease) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard, e.heardAt = lease, time.Now()
	return holderOf(lease) != e.cfg.Identity
}

// recall notes what the watch told, as of when it did: while the server can't be asked, a Lease may expire that was seen before.
func (e *Election) recall() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.heard != nil && (e.seen == nil || !sameRecord(e.seen, e.heard)) && e.heardAt.After(e.seenAt) {
		e.seen, e.seenAt = e.heard, e.heardAt
	}
}

// observe notes a state of the Lease.
func (e *Election) observe(lease *coordinationv1.Lease) {
	if e.seen == nil || !sameRecord(e.seen, lease) {
		e.seenAt = time.Now()
	}
	e.seen = lease
}

// sign makes the Lease this replica's, as of now. begin says that the replica did not lead before; then it notes the time in e.signed.
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

// renew keeps the Lease, which was signed at a time, until lead has ended, whose error it returns, or until it is lost.
func (e *Election) renew(ctx context.Context, watch *following, ended <-chan error, renewed time.Time) error {
	e.cfg.Log.Info("this replica leads", "leader", e.cfg.Identity)
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
		// Nothing is written more often than it must be, however often the Lease changes.
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
			e.cfg.Log.Warn("the Lease could not be renewed, and is tried again", "err", err)
		}
	}
}

// within calls a function that asks the server until a deadline, with a copy of a Lease. It does not wait longer for a function that ignores its
// context, as requests do while the program runs that gets their credentials.
func within(ctx context.Context, deadline time.Time, lease *coordinationv1.Lease,
	ask func(context.Context, *coordinationv1.Lease) (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	type answer struct {
		lease *coordinationv1.Lease
		err   error
	}
	answers := make(chan answer, 1)
	own := lease.DeepCopy()
	go func() {
		lease, err := ask(ctx, own)
		answers <- answer{lease, err}
	}()
	select {
	case a := <-answers:
		return a.lease, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// unchanged says whether a change that the watch told of is none of somebody else's. If that can't be found out, it says so, too: the renewal will.
func (e *Election) unchanged(ctx context.Context, deadline time.Time) bool {
	if soon := time.Now().Add(e.cfg.RetryPeriod); soon.Before(deadline) {
		deadline = soon
	}
	lease, err := within(ctx, deadline, e.seen, func(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
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

// renewOnce writes a Lease that is this replica's, and returns it as it is then.
func (e *Election) renewOnce(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	e.sign(lease, false)
	err := e.cfg.Client.Update(ctx, lease)
	if err == nil {
		return lease, nil
	}
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return nil, err
	}
	// Somebody else wrote, which need not be a rival: labels may have been added.
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

// release gives the Lease back, if it is this replica's still.
func (e *Election) release(ctx context.Context) {
	_, err := within(ctx, time.Now().Add(e.cfg.RenewDeadline), e.seen, func(ctx context.Context, _ *coordinationv1.Lease) (*coordinationv1.Lease, error) {
		return nil, e.releaseOnce(ctx)
	})
	if err != nil {
		e.cfg.Log.Warn("the Lease could not be given back: it has to expire", "err", err)
		return
	}
	e.cfg.Log.Info("this replica leads no longer", "leader", e.cfg.Identity)
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
		nobody, second, now := "", int32(1), metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &nobody, &second
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

// sameRecord says whether nobody signed the Lease between two of its states.
func sameRecord(a, b *coordinationv1.Lease) bool {
	return holderOf(a) == holderOf(b) && a.UID == b.UID && a.Spec.RenewTime.Equal(b.Spec.RenewTime) && a.Spec.AcquireTime.Equal(b.Spec.AcquireTime)
}
