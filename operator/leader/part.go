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
	"kelson.dev/operator/reconcile"
)

// Run takes part until ctx ends, and then passes this replica's objects to the others immediately.
// All work must have ended before that; otherwise Run returns ErrStillWorking, and the others wait
// until the Lease expires. Run returns ErrLost if the Lease could not be renewed in time: other
// replicas take over then, and this replica must stop working.
func (s *Shards) Run(ctx context.Context) error {
	watch, err := follow(ctx, s.cfg.Client, client.Key{Namespace: s.cfg.Group.Namespace},
		labels.SelectorFromSet(labels.Set{groupLabel: s.cfg.Group.Name}),
		s.onWatch, s.cfg.Log)
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
	if s.isAlone(inf) && !pause(ctx, s.cfg.RetryPeriod) {
		return nil
	}
	renewed, err := s.join(ctx)
	if err != nil || s.own == nil {
		return err
	}
	defer func() {
		s.mu.Lock()
		s.over = true
		s.mu.Unlock()
	}()
	var catchingUp sync.WaitGroup
	defer catchingUp.Wait()
	catchUpCtx, stopCatchUp := context.WithCancel(ctx)
	defer stopCatchUp()
	catchingUp.Go(func() { s.catchUpLoop(catchUpCtx) })
	for {
		deadline := s.renewedAt(renewed)
		target := s.readLeases(inf, deadline)
		changed := s.turn(target) // from here on, no work starts on objects of other replicas
		// If the server accepted the view and did not store it, repeat that with the next renewal.
		repeated := s.wrote != nil && slices.Equal(s.wrote, target)
		write := changed && !repeated && s.clear() || s.vanished || time.Since(renewed) >= s.cfg.RetryPeriod
		if write {
			begin := time.Now()
			v := s.announcedView()
			if changed && s.clear() {
				v = target
			}
			s.sending(v)
			lease, err := within(context.WithoutCancel(ctx), deadline, s.own,
				func(ctx context.Context, own *coordinationv1.Lease) (*coordinationv1.Lease, error) {
					return s.announce(ctx, own, v)
				})
			if s.unsure = lease == nil; !s.unsure {
				s.own = lease
				if s.sentAt == "" {
					s.sentAt = lease.ResourceVersion
				}
			}
			s.wrote = nil
			switch {
			case err == nil:
				renewed = begin
				s.renewedAt(renewed)
				if s.wrote = v; !repeated && !slices.Equal(v, s.announcedView()) {
					s.cfg.Log.Warn("the server changed the annotation "+viewAnnotation+
						" of the Lease; until it is stored, this replica does not work: check admission policies and webhooks",
						"lease", s.own.Name, "want", v.String(), "got", s.announcedView().String())
				}
			case errors.Is(err, ErrLost) || !time.Now().Before(deadline):
				return fmt.Errorf("%w: shard: %w", ErrLost, err)
			default:
				s.cfg.Log.Warn("renew Lease; retrying", "err", err)
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
		s.cfg.Log.Warn("not releasing the Lease, because some work did not stop in time; it will expire", "err", err)
		return err
	}
	_, err = within(context.WithoutCancel(ctx), time.Now().Add(s.cfg.RenewDeadline), s.own,
		func(ctx context.Context, own *coordinationv1.Lease) (*coordinationv1.Lease, error) {
			return nil, s.release(ctx, own)
		})
	if err != nil {
		s.cfg.Log.Warn("cannot release the Lease; it will expire", "err", err)
	}
	return nil
}

// isAlone reports whether no other replica has a Lease. Either this is the first replica, or
// another client has deleted the Leases of all replicas. A replica whose Lease was deleted stops
// within RetryPeriod, when it renews the Lease, unless it can't reach the server.
func (s *Shards) isAlone(inf informer.Informer) bool {
	for _, obj := range inf.List(s.cfg.Group.Namespace) {
		if lease := obj.(*coordinationv1.Lease); lease.Labels[groupLabel] == s.cfg.Group.Name && holderOf(lease) != "" {
			return false
		}
	}
	return true
}

// join creates this replica's Lease, and returns when the request was sent. It retries until ctx
// ends, unless the server rejects the request. s.own is nil if ctx ended first.
func (s *Shards) join(ctx context.Context) (sent time.Time, err error) {
	for {
		sent = time.Now()
		lease, err := s.announce(ctx, nil, view{})
		if apierrors.IsAlreadyExists(err) {
			lease, err = s.joined(ctx) // the response to the last attempt was lost
		}
		switch {
		case err == nil:
			s.own = lease
			return sent, nil
		case ctx.Err() != nil:
			return sent, nil
		case errors.Is(err, ErrLost), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err),
			apierrors.IsNotFound(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
			return sent, fmt.Errorf("take part in shards: %w", err)
		}
		s.cfg.Log.Warn("create Lease; retrying", "err", err)
		if !pause(ctx, min(s.cfg.RetryPeriod, time.Second)) {
			return sent, nil
		}
	}
}

// joined renews the Lease that an earlier request of this replica created.
func (s *Shards) joined(ctx context.Context) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	if err := s.cfg.Client.Get(ctx, client.Key{Namespace: s.cfg.Group.Namespace, Name: s.leaseName()},
		lease); err != nil {
		return nil, err
	}
	if identity := holderOf(lease); identity != s.cfg.Identity {
		return nil, fmt.Errorf("%w: Lease %s belongs to %q", ErrLost, lease.Name, identity)
	}
	return s.announce(ctx, lease, view{})
}

// leaseName returns the name of this replica's Lease.
func (s *Shards) leaseName() string {
	sum := sha256.Sum256([]byte(s.cfg.Identity))
	return s.cfg.Group.Name + "-" + hex.EncodeToString(sum[:6])
}

// renewedAt records when the last renewal was sent, and returns until when this replica may work.
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

// readLeases reads the Leases: the views of live replicas, and the members that our view should
// have. It sends no requests after a deadline.
func (s *Shards) readLeases(inf informer.Informer, deadline time.Time) (target view) {
	now := time.Now()
	s.mu.Lock()
	next := state{next: s.state.next, sent: s.state.sent, peers: map[string]view{}}
	s.mu.Unlock()
	seen := map[string]bool{}
	if soon := now.Add(time.Second); soon.Before(deadline) {
		deadline = soon
	}
	for _, obj := range inf.List(s.cfg.Group.Namespace) {
		lease := obj.(*coordinationv1.Lease)
		identity := holderOf(lease)
		if lease.Labels[groupLabel] != s.cfg.Group.Name || identity == "" {
			continue
		}
		seen[identity] = true
		if identity == s.cfg.Identity {
			next.announced = parseView(lease)
			target = append(target, identity)
			if s.sentAt != "" && atLeast(lease.ResourceVersion, s.sentAt) {
				next.sent = nil // the watch has delivered the last of them
			}
			continue
		}
		o := s.observe(identity, lease, now)
		if now.Sub(o.at) < durationOf(lease, s.cfg.Duration) || !s.deleteExpired(identity, lease, deadline) {
			next.peers[identity] = parseView(lease)
			target = append(target, identity)
		}
	}
	for identity, o := range s.observed {
		switch {
		case seen[identity]:
		case s.isReleased(o.lease) || now.Sub(o.at) >= o.duration:
			delete(s.observed, identity)
		default: // another client deleted the Lease: the replica may not have noticed
			next.peers[identity] = o.view
		}
	}
	s.vanished, s.delivered = s.delivered && !seen[s.cfg.Identity], seen[s.cfg.Identity]
	slices.Sort(target)
	if len(target) == 0 {
		target = view{} // our own Lease is not in the list yet
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

// observe records the record of a Lease, unless a newer one was seen.
func (s *Shards) observe(identity string, lease *coordinationv1.Lease, now time.Time) observation {
	o, known := s.observed[identity]
	version, _ := strconv.ParseUint(lease.ResourceVersion, 10, 64) // 0 if not a number
	if known && version < o.version {
		return o
	}
	if renewed := lease.Spec.RenewTime; !known || renewed != nil && !renewed.Equal(&o.renewed) {
		o = observation{at: now}
		if renewed != nil {
			o.renewed = *renewed
		}
	}
	o.version, o.view, o.lease, o.duration = version, parseView(lease), lease.Name, durationOf(lease, s.cfg.Duration)
	s.observed[identity] = o
	return o
}

// onWatch records Leases that were released before they are deleted.
func (s *Shards) onWatch(lease *coordinationv1.Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if holderOf(lease) == "" {
		s.released[lease.Name] = true
	} else { // its replica has started again
		delete(s.released, lease.Name)
	}
	return true
}

// isReleased reports whether a Lease that does not exist any more was released.
func (s *Shards) isReleased(lease string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.released[lease]
	delete(s.released, lease)
	return was
}

// release removes this replica's Lease. It first removes the holder, so that the others don't wait
// as after a deletion by another client.
func (s *Shards) release(ctx context.Context, own *coordinationv1.Lease) error {
	return client.IgnoreNotFound(reconcile.RetryOnConflict(ctx, func(ctx context.Context) error {
		lease := &coordinationv1.Lease{}
		if err := s.cfg.Client.Get(ctx, client.KeyOf(own), lease); err != nil {
			return err
		}
		noHolder := ""
		lease.Spec.HolderIdentity = &noHolder
		if err := s.cfg.Client.Update(ctx, lease); err != nil {
			return err
		}
		return s.cfg.Client.Delete(ctx, lease)
	}))
}

// callGained calls the functions that registered for gained objects. The caller holds the lock.
func (s *Shards) callGained() {
	for _, f := range s.gained {
		f()
	}
}

// deleteExpired deletes the Lease of a replica that did not renew it in time, and reports whether
// the replica is dead. The watch is not sufficient evidence, because it may have stalled. A
// conditional delete is sufficient: it succeeds only if the Lease is unchanged.
func (s *Shards) deleteExpired(identity string, lease *coordinationv1.Lease, deadline time.Time) (dead bool) {
	ctx := context.Background()
	_, err := within(ctx, deadline, lease, func(ctx context.Context,
		lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
		uid, version := lease.UID, lease.ResourceVersion
		return nil, s.cfg.Client.Delete(ctx, lease,
			client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	})
	if err == nil || apierrors.IsNotFound(err) {
		return true
	}
	now, err := within(ctx, deadline, &coordinationv1.Lease{},
		func(ctx context.Context, into *coordinationv1.Lease) (*coordinationv1.Lease, error) {
			return into, s.cfg.Client.Get(ctx, client.KeyOf(lease), into)
		})
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	if now.UID != lease.UID || holderOf(now) != identity {
		return true
	}
	at := time.Now()
	// deleting is forbidden or failed, but the Lease was not renewed
	return at.Sub(s.observe(identity, now, at).at) >= durationOf(now, s.cfg.Duration)
}

// turn stops new work on objects that target assigns to other replicas, and reports whether target
// must be announced.
func (s *Shards) turn(target view) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.state
	if slices.Equal(target, now.announced) && slices.Equal(target, parseView(s.own)) && !s.unsure {
		now.next = nil
		s.become(now)
		return false
	}
	now.next = target
	s.become(now)
	return s.unsure || !slices.Equal(target, parseView(s.own))
}

// sending records that a view is about to be announced.
func (s *Shards) sending(v view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.state
	if slices.Equal(v, now.announced) && len(now.sent) == 0 {
		return // a renewal
	}
	if n := len(now.sent); n > 0 && slices.Equal(now.sent[n-1], v) {
		return // a repetition of the last announcement
	}
	now.sent = append(slices.Clip(now.sent), v)
	s.sentAt = ""
	s.become(now)
}

// atLeast reports whether a resourceVersion is certainly not older than another one.
func atLeast(version, other string) bool {
	a, errA := strconv.ParseUint(version, 10, 64)
	b, errB := strconv.ParseUint(other, 10, 64)
	return version == other || errA == nil && errB == nil && a >= b
}

// clear reports whether the next view assigns all objects in progress to this replica.
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

// announcedView returns the last announced view, whether or not the watch has delivered it.
func (s *Shards) announcedView() view { return parseView(s.own) }

// announce renews a Lease, which is nil at first, with a view. It returns the new state if it is
// known. The state may be non-nil even with an error: after a conflict, it is the current state.
func (s *Shards) announce(ctx context.Context, own *coordinationv1.Lease, v view) (*coordinationv1.Lease, error) {
	now, seconds := metav1.NowMicro(), int32(s.cfg.Duration/time.Second)
	if own == nil {
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.cfg.Group.Namespace, Name: s.leaseName(),
				Labels:      map[string]string{groupLabel: s.cfg.Group.Name},
				Annotations: map[string]string{viewAnnotation: v.String()},
			},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &s.cfg.Identity, LeaseDurationSeconds: &seconds,
				AcquireTime: &now, RenewTime: &now},
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
		return nil, fmt.Errorf("%w: %w", ErrLost, err) // another replica considered this one dead
	case apierrors.IsConflict(err):
		// The response to an earlier write may have been lost.
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
