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
	// catchUpFirst is how many objects the first request compares, which is often the only one; catchUpPage is how many each further one does.
	catchUpFirst, catchUpPage = 500, 5000
	// renewAfter is how long CatchUp waits before it has a watch opened again, for the connection of the old one may be dead. Each further wait is
	// longer by a factor, so that a slow connection brings something in the end.
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

// catchUp waits until the copy has everything that the server has when it is called.
func (i *informer) catchUp(ctx context.Context) error {
	if there, err := i.awaitFirstList(ctx); err != nil || !there {
		return err
	}
	i.mu.Lock()
	parts := i.parts
	i.mu.Unlock()
	for _, p := range parts {
		err := p.catchUp(ctx)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue // the kind is gone, and with it everything that could be missing
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitFirstList waits until the copy has its first list. False says that there is nothing to wait for: no read is answered before that list has
// come, and an administrator must mend what is in its way, or the informer has ended.
func (i *informer) awaitFirstList(ctx context.Context) (bool, error) {
	for {
		i.mu.Lock()
		err, synced, changed := i.whyNot(), i.isSynced, i.change()
		i.mu.Unlock()
		if synced {
			return true, nil
		}
		if err != nil && isLasting(err) {
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

// gap is what a copy is compared with: what the server had at a version.
type gap struct {
	version uint64 // of the list; 0 if versions can't be compared
	newest  uint64 // version of an object in it
	listed  map[client.Key]listed
}

type listed struct {
	uid     types.UID
	version string // only if versions can't be compared
}

// catchUp compares a part with a consistent list and waits until it has what that has. A copy that is as of the list's version has it; but the version
// counts the changes of all kinds, and a watch of a kind to which nothing happens may be told of it a minute later only. So the objects are
// compared, by their metadata.
func (p *part) catchUp(ctx context.Context) error {
	for {
		again, err := p.catchUpOnce(ctx)
		if !again || err != nil {
			return err
		}
	}
}

func (p *part) catchUpOnce(ctx context.Context) (again bool, err error) {
	g, done, err := p.compare(ctx)
	switch {
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		return true, nil // the list took longer than the server keeps its snapshot
	case done || err != nil:
		return false, err
	}
	i := p.informer
	var missing map[client.Key]types.UID // what the copy has and the list had not
	wait := renewAfter
	for {
		i.mu.Lock()
		if missing == nil {
			missing = p.missing(g)
		}
		has := p.has(g, missing)
		changed := i.change()
		i.mu.Unlock()
		if has {
			return false, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
			if g.version == 0 {
				return true, nil // there may be newer versions than those that were listed
			}
			wait *= renewFactor
			select {
			case p.renew <- struct{}{}:
			default:
			}
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-i.ended:
			has = true // nothing reads from it
		case <-i.set.ended:
			err = ErrNotRunning
		}
		timer.Stop()
		if has || err != nil {
			return false, err
		}
	}
}

// compare reads what the server has. Done says that the copy is as new.
func (p *part) compare(ctx context.Context) (g gap, done bool, err error) {
	i := p.informer
	prototype := &metav1.PartialObjectMetadata{}
	prototype.SetGroupVersionKind(i.id.kind)
	o := client.ListOptions{
		Namespace: p.namespace, Labels: i.scope.Labels, Fields: i.scope.Fields, Live: true, Limit: catchUpFirst, Shared: true,
	}
	g.listed = map[client.Key]listed{}
	for first := true; first || o.Continue != ""; first = false {
		items := client.NewItems(prototype)
		if err := i.set.cfg.Client.List(ctx, items, o); err != nil {
			return g, false, err
		}
		if first {
			g.version = parseVersion(items.ResourceVersion)
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

// isAsOf says that the copy is as of a version, or later.
func (p *part) isAsOf(version uint64) bool {
	p.informer.mu.Lock()
	defer p.informer.mu.Unlock()
	return version > 0 && p.progress >= version
}

// missing, under the lock, is what the copy has and the server had not any longer.
func (p *part) missing(g gap) map[client.Key]types.UID {
	missing := map[client.Key]types.UID{}
	for _, obj := range p.informer.list(p.namespace) {
		key := client.KeyOf(obj)
		if l, ok := g.listed[key]; ok && l.uid == obj.GetUID() {
			continue
		}
		if g.version == 0 || parseVersion(obj.GetResourceVersion()) <= g.version { // else it came after the list
			missing[key] = obj.GetUID()
		}
	}
	return missing
}

// has, under the lock, says that the copy has what the server had. missing is what it must have no longer; what it has seen go is taken out.
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
