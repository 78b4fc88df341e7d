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

// unknownWrites are the writes whose outcome is unknown: the request was sent, and the response was
// lost or is an error of the server (5xx). The overlay can't have the state that such a write may
// have produced. So before the next read of the object through the client, the client reads the
// object from the server and notes its state. If that request fails, the read fails too, so it
// never returns a state that may be older than an own write.
//
// If the server executes the write only after that read, the informer can't detect it: a request
// that the network delivers late looks like the write of another client.
type unknownWrites struct {
	any atomic.Bool // while false, readers need no lock

	mu      sync.Mutex
	tickets uint64
	kinds   map[schema.GroupKind]*unknownWritesOfKind
}

// unknownWritesOfKind are the unknown writes of the objects of one kind.
type unknownWritesOfKind struct {
	objects map[client.Key]unknownWrite
	// the ticket of the last write without a name (generateName, DeleteAllOf); 0 for none
	all uint64
}

// unknownWrite is the last write of an object.
type unknownWrite struct {
	ticket uint64
	like   client.Object // an empty object of the type that was written
}

// maxUnknownWrites is how many objects of a kind are read one by one; with more, all copies of the
// kind catch up with the server instead.
const maxUnknownWrites = 32

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

// noteError records the error of a write of obj: if the outcome of the write is unknown, later
// reads of the object resolve it. An obj without a name stands for all objects of the kind.
func (s *informers) noteError(err error, obj client.Object) {
	if !isUnknown(err) {
		return
	}
	kind, err := client.KindOf(obj, s.cfg.Client.Scheme())
	if err != nil || !s.holds(obj) {
		return // a copy that starts later begins with a list
	}
	u := &s.unknownWrites
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.kinds == nil {
		u.kinds = map[schema.GroupKind]*unknownWritesOfKind{}
	}
	all := u.kinds[kind.GroupKind()]
	if all == nil {
		all = &unknownWritesOfKind{objects: map[client.Key]unknownWrite{}}
		u.kinds[kind.GroupKind()] = all
	}
	u.tickets++
	if obj.GetName() == "" || len(all.objects) >= maxUnknownWrites {
		all.all = u.tickets
		clear(all.objects)
	} else {
		all.objects[client.KeyOf(obj)] = unknownWrite{u.tickets, newLike(obj)}
	}
	u.any.Store(true)
}

// affecting returns the unknown writes of a kind: of one object, or of those in a namespace if name
// is empty. An empty namespace and name means all. all is the ticket of the last write without a
// name.
func (u *unknownWrites) affecting(kind schema.GroupKind,
	namespace, name string) (objects map[client.Key]unknownWrite, all uint64) {
	if !u.any.Load() {
		return nil, 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	ofKind := u.kinds[kind]
	if ofKind == nil {
		return nil, 0
	}
	for key, write := range ofKind.objects {
		if name == "" && (namespace == "" || namespace == key.Namespace) ||
			key == (client.Key{Namespace: namespace, Name: name}) {
			if objects == nil {
				objects = map[client.Key]unknownWrite{}
			}
			objects[key] = write
		}
	}
	return objects, ofKind.all
}

// resolved drops the write with a ticket. A later write of the same object has another ticket and
// remains. The key is nil for writes without a name.
func (u *unknownWrites) resolved(kind schema.GroupKind, key *client.Key, ticket uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	ofKind := u.kinds[kind]
	switch {
	case ofKind == nil:
		return
	case key == nil && ofKind.all == ticket:
		ofKind.all = 0
	case key != nil && ofKind.objects[*key].ticket == ticket:
		delete(ofKind.objects, *key)
	}
	if ofKind.all == 0 && len(ofKind.objects) == 0 {
		delete(u.kinds, kind)
	}
	u.any.Store(len(u.kinds) > 0)
}

// resolve finds out whether the server executed the unknown writes that affect a read; see
// affecting for the parameters.
func (c cached) resolve(ctx context.Context, kind schema.GroupKind, namespace, name string) error {
	objects, all := c.set.unknownWrites.affecting(kind, namespace, name)
	for key, write := range objects {
		if err := c.resolveOne(ctx, kind, key, write); err != nil {
			return fmt.Errorf("find out the outcome of an earlier write of %s: %w", key, err)
		}
	}
	if all == 0 {
		return nil
	}
	if err := c.set.catchUpKind(ctx, kind); err != nil {
		return fmt.Errorf("find out the outcome of an earlier write: %w", err)
	}
	c.set.unknownWrites.resolved(kind, nil, all)
	return nil
}

func (c cached) resolveOne(ctx context.Context, kind schema.GroupKind, key client.Key, write unknownWrite) error {
	state := newLike(write.like)
	state.SetNamespace(key.Namespace)
	state.SetName(key.Name)
	prior := c.set.priorStates(state) // before the request
	err := c.Client.Get(ctx, key, state)
	switch {
	case err == nil:
		c.set.noteState(state, true)
	case apierrors.IsNotFound(err):
		state.SetNamespace(key.Namespace)
		state.SetName(key.Name)
		c.set.noteGone(state, "", prior)
	case apierrors.IsForbidden(err): // an operator needs only list and watch
		if err := c.set.catchUpKind(ctx, kind); err != nil {
			return err
		}
	default:
		return err
	}
	c.set.unknownWrites.resolved(kind, &key, write.ticket)
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
