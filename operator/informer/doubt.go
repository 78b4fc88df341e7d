package informer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/client"
)

// doubts are the objects for which the outcome of a write is unknown: the request was sent, and the
// response was lost or is an error of the server (5xx). The overlay can't have the state that such
// a write may have produced. So before the next read of the object through the client, the object
// is read from the server, and its state noted. If that request fails, the read fails too, so it
// never returns a state that may be older than an own write.
//
// If the server executes the write only after that read, the informer can't know: a request that
// the network delivers late looks like the write of another client.
type doubts struct {
	any atomic.Bool // while false, readers need no lock

	mu      sync.Mutex
	tickets uint64
	kinds   map[schema.GroupKind]*doubted
}

// doubted are the objects of one kind.
type doubted struct {
	objects map[client.Key]doubt
	// the ticket of the last write without a name (generateName, DeleteAllOf); 0 for none
	all uint64
}

// doubt is about the last write of an object.
type doubt struct {
	ticket uint64
	like   client.Object // an empty object of the type that was written
}

// maxDoubts is how many objects of a kind are read one by one; with more, all copies of the kind
// catch up with the server instead.
const maxDoubts = 32

// isUnknown reports whether a write that failed may have been executed.
func isUnknown(err error) bool {
	if err == nil {
		return false
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code := status.Status().Code
		return code == 0 || code >= http.StatusInternalServerError
	}
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return false // not sent
	}
	return true
}

// doubt records that the outcome of a write of obj is unknown, if err means that. An obj without a
// name stands for any object of the kind.
func (s *informers) doubt(err error, obj client.Object) {
	if !isUnknown(err) {
		return
	}
	kind, err := client.KindOf(obj, s.cfg.Client.Scheme())
	if err != nil || !s.holds(obj) {
		return // a copy that starts later begins with a list
	}
	d := &s.doubts
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kinds == nil {
		d.kinds = map[schema.GroupKind]*doubted{}
	}
	all := d.kinds[kind.GroupKind()]
	if all == nil {
		all = &doubted{objects: map[client.Key]doubt{}}
		d.kinds[kind.GroupKind()] = all
	}
	d.tickets++
	if obj.GetName() == "" || len(all.objects) >= maxDoubts {
		all.all = d.tickets
		clear(all.objects)
	} else {
		all.objects[client.KeyOf(obj)] = doubt{d.tickets, newLike(obj)}
	}
	d.any.Store(true)
}

// inDoubt returns the doubts about the objects of a kind: about one object, or about those in a
// namespace if name is empty. An empty namespace and name means all.
func (d *doubts) inDoubt(kind schema.GroupKind, namespace, name string) (objects map[client.Key]doubt, all uint64) {
	if !d.any.Load() {
		return nil, 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	ofKind := d.kinds[kind]
	if ofKind == nil {
		return nil, 0
	}
	for key, about := range ofKind.objects {
		if name == "" && (namespace == "" || namespace == key.Namespace) || key == (client.Key{Namespace: namespace, Name: name}) {
			if objects == nil {
				objects = map[client.Key]doubt{}
			}
			objects[key] = about
		}
	}
	return objects, ofKind.all
}

// resolved drops a doubt unless a later write has renewed it. The key is nil for the doubt about
// all objects.
func (d *doubts) resolved(kind schema.GroupKind, key *client.Key, ticket uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ofKind := d.kinds[kind]
	switch {
	case ofKind == nil:
		return
	case key == nil && ofKind.all == ticket:
		ofKind.all = 0
	case key != nil && ofKind.objects[*key].ticket == ticket:
		delete(ofKind.objects, *key)
	}
	if ofKind.all == 0 && len(ofKind.objects) == 0 {
		delete(d.kinds, kind)
	}
	d.any.Store(len(d.kinds) > 0)
}

// resolve finds out whether the server executed those writes in doubt that affect a read: see
// inDoubt.
func (c cached) resolve(ctx context.Context, kind schema.GroupKind, namespace, name string) error {
	objects, all := c.set.doubts.inDoubt(kind, namespace, name)
	for key, about := range objects {
		if err := c.resolveOne(ctx, kind, key, about); err != nil {
			return fmt.Errorf("find out the outcome of an earlier write of %s: %w", key, err)
		}
	}
	if all == 0 {
		return nil
	}
	if err := c.set.catchUpKind(ctx, kind); err != nil {
		return fmt.Errorf("find out the outcome of an earlier write: %w", err)
	}
	c.set.doubts.resolved(kind, nil, all)
	return nil
}

func (c cached) resolveOne(ctx context.Context, kind schema.GroupKind, key client.Key, about doubt) error {
	state := newLike(about.like)
	state.SetNamespace(key.Namespace)
	state.SetName(key.Name)
	known := c.set.known(state) // before the request
	err := c.Client.Get(ctx, key, state)
	switch {
	case err == nil:
		c.set.noteState(state, true)
	case apierrors.IsNotFound(err):
		state.SetNamespace(key.Namespace)
		state.SetName(key.Name)
		c.set.noteGone(state, "", known)
	case apierrors.IsForbidden(err): // an operator needs only list and watch
		if err := c.set.catchUpKind(ctx, kind); err != nil {
			return err
		}
	default:
		return err
	}
	c.set.doubts.resolved(kind, &key, about.ticket)
	return nil
}

// catchUpKind is CatchUp for one kind.
func (s *informers) catchUpKind(ctx context.Context, kind schema.GroupKind) error {
	s.mu.Lock()
	copies := s.copies(kind)
	s.mu.Unlock()
	for _, i := range copies {
		if err := i.catchUp(ctx); err != nil {
			return err
		}
	}
	return nil
}
