package leader

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
)

// Run takes part until ctx ends, and then gives this replica's objects to the others at once: whatever works must have ended before, or Run returns
// ErrStillWorking and the others wait until the Lease expires. It returns ErrLost when the Lease could not be renewed in time: others take over then, and this replica must work no longer.
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
	if s.own, err = s.announce(ctx, nil, view{}); err != nil {
		return fmt.Errorf("take part in shards: %w", err)
	}
	defer func() {
		s.mu.Lock()
		s.over = true
		s.mu.Unlock()
	}()
	var settling sync.WaitGroup
	defer settling.Wait()
	settleCtx, settled := context.WithCancel(ctx)
	defer settled()
	settling.Go(func() { s.settle(settleCtx) })
	for {
		deadline := s.renewedAt(renewed)
		target := s.look(inf, deadline)
		changed := s.turn(target) // from now on, nothing that falls to others is begun
		write := changed && s.clear() || time.Since(renewed) >= s.cfg.RetryPeriod
		if write {
			begin := time.Now()
			v := s.announcedView()
			if changed && s.clear() {
				v = target
			}
			lease, err := within(context.WithoutCancel(ctx), deadline, s.own, func(ctx context.Context, own *coordinationv1.Lease) (*coordinationv1.Lease, error) {
				return s.announce(ctx, own, v)
			})
			if lease != nil {
				s.own = lease
			}
			switch {
			case err == nil:
				renewed = begin
				s.renewedAt(renewed)
			case errors.Is(err, ErrLost) || !time.Now().Before(deadline):
				return fmt.Errorf("%w: this replica's part of the work: %w", ErrLost, err)
			default:
				s.cfg.Log.Warn("the Lease could not be renewed, and is tried again", "err", err)
			}
			if err != nil {
				if !pause(ctx, min(s.cfg.RetryPeriod, time.Second, time.Until(deadline))) {
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
	working := len(s.inFlight)
	s.mu.Unlock()
	if working > 0 {
		err := fmt.Errorf("%w: %d objects", ErrStillWorking, working)
		s.cfg.Log.Warn("the Lease is not given back, because some work did not stop in time: it expires", "err", err)
		return err
	}
	_, err = within(context.WithoutCancel(ctx), time.Now().Add(s.cfg.RenewDeadline), s.own,
		func(ctx context.Context, own *coordinationv1.Lease) (*coordinationv1.Lease, error) {
			return nil, client.IgnoreNotFound(s.cfg.Client.Delete(ctx, own))
		})
	if err != nil {
		s.cfg.Log.Warn("the Lease could not be given back: it has to expire", "err", err)
	}
	return nil
}

// renewedAt notes when the last renewal was sent, and returns until when this replica may work.
func (s *Shards) renewedAt(t time.Time) (until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = t.Add(s.cfg.RenewDeadline)
	return s.until
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

// look reads the Leases: whose views are in force, and who should be in ours. It asks the server until a deadline at most.
func (s *Shards) look(inf informer.Informer, deadline time.Time) (target view) {
	now := time.Now()
	s.mu.Lock()
	next := state{next: s.state.next, peers: map[string]view{}}
	s.mu.Unlock()
	seen := map[string]bool{}
	if soon := now.Add(time.Second); soon.Before(deadline) {
		deadline = soon
	}
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
		o := s.observe(who, lease, now)
		if now.Sub(o.at) < durationOf(lease, s.cfg.Duration) || !s.bury(who, lease, deadline) {
			next.peers[who] = parseView(lease)
			target = append(target, who)
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
	s.become(next)
	s.mu.Unlock()
	if changed {
		s.cfg.Log.Debug("shards", "identity", s.cfg.Identity, "view", next.announced, "target", target)
	}
	return target
}

// observe notes the record in a Lease, unless a newer one was seen.
func (s *Shards) observe(who string, lease *coordinationv1.Lease, now time.Time) observation {
	o, known := s.observed[who]
	version, _ := strconv.ParseUint(lease.ResourceVersion, 10, 64) // 0 if it is no number
	if known && version < o.version {
		return o
	}
	if renewed := lease.Spec.RenewTime; !known || renewed != nil && !renewed.Equal(&o.renewed) {
		o = observation{at: now}
		if renewed != nil {
			o.renewed = *renewed
		}
	}
	o.version = version
	s.observed[who] = o
	return o
}

// tell, under the lock, says that objects may have come to this replica.
func (s *Shards) tell() {
	for _, f := range s.gained {
		f()
	}
}

// bury removes the Lease of a replica that has not renewed it in time, and says whether that is so. The watch alone does not tell: it may have
// stalled while the replica lives. The server does, by deleting the Lease only if it is as it was seen.
func (s *Shards) bury(who string, lease *coordinationv1.Lease, deadline time.Time) (dead bool) {
	ctx := context.Background()
	_, err := within(ctx, deadline, lease, func(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
		uid, version := lease.UID, lease.ResourceVersion
		return nil, s.cfg.Client.Delete(ctx, lease, client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	})
	if err == nil || apierrors.IsNotFound(err) {
		return true
	}
	now, err := within(ctx, deadline, &coordinationv1.Lease{}, func(ctx context.Context, into *coordinationv1.Lease) (*coordinationv1.Lease, error) {
		return into, s.cfg.Client.Get(ctx, client.KeyOf(lease), into)
	})
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	if now.UID != lease.UID || holderOf(now) != who {
		return true
	}
	at := time.Now()
	return at.Sub(s.observe(who, now, at).at) >= durationOf(now, s.cfg.Duration) // then it must not be deleted, but was not renewed
}

// turn has what does not fall to us in target begun no longer, and says whether that is another view than the announced.
func (s *Shards) turn(target view) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.state
	if slices.Equal(target, now.announced) && slices.Equal(target, parseView(s.own)) {
		now.next = nil
		s.become(now)
		return false
	}
	now.next = target
	s.become(now)
	return !slices.Equal(target, parseView(s.own))
}

// clear says whether everything that is worked on falls to us in the next view, too.
func (s *Shards) clear() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for req := range s.inFlight {
		if s.state.next.owner(req) != s.cfg.Identity {
			return false
		}
	}
	return true
}

// announcedView is what was announced last, whether the watch has it or not.
func (s *Shards) announcedView() view { return parseView(s.own) }

// announce renews a Lease, which is nil at first, with a view. It returns the Lease as it is then, as far as it could be told: with an error, too, if it
// was not written because it was another one.
func (s *Shards) announce(ctx context.Context, own *coordinationv1.Lease, v view) (*coordinationv1.Lease, error) {
	now, seconds := metav1.NowMicro(), int32(s.cfg.Duration/time.Second)
	if own == nil {
		sum := sha256.Sum256([]byte(s.cfg.Identity))
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.cfg.Group.Namespace, Name: s.cfg.Group.Name + "-" + hex.EncodeToString(sum[:6]),
				Labels: map[string]string{groupLabel: s.cfg.Group.Name}, Annotations: map[string]string{viewAnnotation: v.String()},
			},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &s.cfg.Identity, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
		}
		return lease, s.cfg.Client.Create(ctx, lease)
	}
	lease := own.DeepCopy()
	lease.Spec.RenewTime = &now
	lease.Annotations = map[string]string{viewAnnotation: v.String()}
	err := s.cfg.Client.Update(ctx, lease)
	switch {
	case err == nil:
		return lease, nil
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%w: %w", ErrLost, err) // somebody thought that we were dead
	case apierrors.IsConflict(err):
		// An answer of the server's may have been lost on its way.
		now := &coordinationv1.Lease{}
		if getErr := s.cfg.Client.Get(ctx, client.KeyOf(own), now); getErr != nil {
			return nil, getErr
		}
		if now.UID != own.UID || holderOf(now) != s.cfg.Identity {
			return nil, fmt.Errorf("%w: %w", ErrLost, err)
		}
		return now, err
	}
	return nil, err
}
