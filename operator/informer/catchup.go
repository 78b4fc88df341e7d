package informer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/client"
)

const (
	// catchUpAtOnce is how many watches are compared with the server at the same time.
	catchUpAtOnce = 4
	// catchUpFirst is the page size of the first request, which is often the only one. catchUpPage
	// is the page size of the following requests.
	catchUpFirst, catchUpPage = 500, 5000
	// renewAfter is how long CatchUp waits before it reopens a watch, because the connection may be
	// broken. Each further wait is longer by renewFactor, so that slow connections make progress
	// too.
	renewAfter, renewFactor = time.Second, 3
)

func (s *informers) CatchUp(ctx context.Context) error {
	slots := make(chan struct{}, catchUpAtOnce)
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, i := range s.all() {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := i.catchUp(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("catch up with %s: %w", i.id.kind, err))
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// catchUp waits until the copy has everything that the server had when catchUp was called.
func (i *informer) catchUp(ctx context.Context) error {
	if hasList, err := i.awaitFirstList(ctx); err != nil || !hasList {
		return err
	}
	i.mu.Lock()
	parts := i.parts
	i.mu.Unlock()
	for _, p := range parts {
		err := p.catchUp(ctx)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue // the kind is gone, and with it all missing objects
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitFirstList waits for the first list. It returns false if there is nothing to wait for: the
// informer has ended, or the list fails until an administrator fixes the cause. In the second case,
// reads wait for the list.
func (i *informer) awaitFirstList(ctx context.Context) (bool, error) {
	for {
		i.mu.Lock()
		err, synced, changed := i.whyNot(), i.isSynced, i.change()
		i.mu.Unlock()
		if synced {
			return true, nil
		}
		if err != nil && isPermanent(err) {
			return false, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-i.ended:
			return false, nil
		case <-i.set.ended:
			return false, ErrNotRunning
		}
	}
}

// gap describes what the server had at a version, for a comparison with the copy.
type gap struct {
	version uint64 // of the list; 0 if versions are not comparable
	newest  uint64 // the highest version of a listed object
	listed  map[client.Key]listed
	// lost is the version of the copy if the server has an older one: it was restored from a
	// backup, and the copy must be read again. Otherwise 0.
	lost uint64
}

type listed struct {
	uid     types.UID
	version string // only if versions are not comparable
}

// catchUp lists the metadata of a part's objects and waits until the copy contains them. Waiting
// for the list's version would take too long: changes of all kinds increase it, and the watch of a
// kind without changes may report it only a minute later.
func (p *part) catchUp(ctx context.Context) error {
	for {
		retry, err := p.catchUpOnce(ctx)
		if !retry || err != nil {
			return err
		}
	}
}

func (p *part) catchUpOnce(ctx context.Context) (again bool, err error) {
	g, done, err := p.compare(ctx)
	switch {
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		return true, nil // the list took longer than the server keeps the snapshot
	case done || err != nil:
		return false, err
	}
	i := p.informer
	var missing map[client.Key]types.UID // in the copy but not in the list
	wait := renewAfter
	if g.lost > 0 {
		p.reopen()
	}
	for {
		i.mu.Lock()
		if g.lost > 0 && p.progress < g.lost {
			i.mu.Unlock()
			return true, nil
		}
		if missing == nil {
			missing = p.missing(g)
		}
		has := g.lost == 0 && p.has(g, missing)
		changed := i.change()
		i.mu.Unlock()
		if has {
			return false, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
			if g.version == 0 || g.lost > 0 {
				return true, nil // there may be newer versions than the listed ones
			}
			wait *= renewFactor
			p.reopen()
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-i.ended:
			has = true // the informer has no readers
		case <-i.set.ended:
			err = ErrNotRunning
		}
		timer.Stop()
		if has || err != nil {
			return false, err
		}
	}
}

// reopen reopens the watch.
func (p *part) reopen() {
	select {
	case p.renew <- struct{}{}:
	default:
	}
}

// compare reads the server's state. done reports that the copy is at least as new.
func (p *part) compare(ctx context.Context) (g gap, done bool, err error) {
	i := p.informer
	prototype := &metav1.PartialObjectMetadata{}
	prototype.SetGroupVersionKind(i.id.kind)
	o := client.ListOptions{
		Namespace: p.namespace, Labels: i.scope.Labels, Fields: i.scope.Fields, Live: true, Limit: catchUpFirst,
		Shared: true,
	}
	g.listed = map[client.Key]listed{}
	i.mu.Lock()
	before := p.progress
	i.mu.Unlock()
	for first := true; first || o.Continue != ""; first = false {
		items := client.NewItems(prototype)
		if err := i.set.cfg.Client.List(ctx, items, o); err != nil {
			return g, false, err
		}
		if first {
			g.version = parseVersion(items.ResourceVersion)
			if g.version > 0 && g.version < before {
				g.lost = before
				return g, false, nil
			}
		}
		if p.isAsOf(g.version) {
			return g, true, nil
		}
		for _, obj := range items.Items {
			l := listed{uid: obj.GetUID()}
			if g.version == 0 {
				l.version = obj.GetResourceVersion()
			}
			g.newest = max(g.newest, parseVersion(obj.GetResourceVersion()))
			g.listed[client.KeyOf(obj)] = l
		}
		o.Continue, o.Limit = items.Continue, catchUpPage
	}
	return g, false, nil
}

// isAsOf reports whether the copy has reached a version.
func (p *part) isAsOf(version uint64) bool {
	p.informer.mu.Lock()
	defer p.informer.mu.Unlock()
	return version > 0 && p.progress >= version
}

// missing returns the objects in the copy that no longer existed on the server. The caller holds
// the lock.
func (p *part) missing(g gap) map[client.Key]types.UID {
	missing := map[client.Key]types.UID{}
	for _, obj := range p.informer.list(p.namespace) {
		key := client.KeyOf(obj)
		if l, ok := g.listed[key]; ok && l.uid == obj.GetUID() {
			continue
		}
		// otherwise it was created after the list
		if g.version == 0 || parseVersion(obj.GetResourceVersion()) <= g.version {
			missing[key] = obj.GetUID()
		}
	}
	return missing
}

// has reports whether the copy has reached the listed state of the server. missing contains the
// objects that must disappear from the copy; has removes those that have disappeared. The caller
// holds the lock.
func (p *part) has(g gap, missing map[client.Key]types.UID) bool {
	i := p.informer
	for key, uid := range missing {
		if obj, ok := i.objs.Get(key); ok && obj.GetUID() == uid {
			break
		}
		delete(missing, key)
	}
	if g.version > 0 {
		return p.progress >= g.version || p.progress >= g.newest && len(missing) == 0
	}
	for key, l := range g.listed {
		obj, ok := i.objs.Get(key)
		if !ok || obj.GetUID() != l.uid || obj.GetResourceVersion() != l.version {
			return false
		}
	}
	return len(missing) == 0
}
