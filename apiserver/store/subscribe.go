package store

import (
	"errors"
	"slices"
	"sync"
)

// Subscription receives the events of some resources; see [Store.Subscribe].
type Subscription struct {
	dispatcher *dispatcher
	resources  []string
	begin      func(*Snapshot)
	each       func(*Event)
	closed     chan struct{}

	begun bool
	after uint64 // begin or each has received the events up to this revision
}

// Subscribe calls begin with the current state, and then each with every later event of the
// resources ("" means all), in order. If the reader falls so far behind that the store no longer
// retains the events, Subscribe calls begin again with a newer state.
//
// All subscriptions of a store share one goroutine, which exists only while there are
// subscriptions. So begin and each must be quick, and must not call Subscribe or End. Readers that
// take longer use [Store.Follow]. The caller must call End.
func (s *Store) Subscribe(resources []string, begin func(*Snapshot), each func(*Event)) *Subscription {
	s.dispatching.Lock()
	defer s.dispatching.Unlock()
	sub := &Subscription{resources: resources, begin: begin, each: each, closed: make(chan struct{})}
	if s.dispatcher != nil {
		s.dispatcher.add(sub)
		return sub
	}
	s.dispatcher = &dispatcher{store: s, byResource: map[string][]*Subscription{}, kick: make(chan struct{}, 1),
		done: make(chan struct{})}
	s.dispatcher.add(sub) // before run, which ends when there are no subscriptions
	go s.dispatcher.run()
	return sub
}

// Closed returns a channel that is closed when the store is closed and the subscription has
// received all events.
func (sub *Subscription) Closed() <-chan struct{} { return sub.closed }

// End ends the subscription. When it returns, neither begin nor each runs or is called again. Only
// the first call has an effect.
func (sub *Subscription) End() {
	d := sub.dispatcher
	d.store.dispatching.Lock()
	defer d.store.dispatching.Unlock()
	if last := d.remove(sub); last {
		d.store.dispatcher = nil
		d.wake()
		<-d.done
	}
}

// dispatcher calls the functions of subscriptions.
type dispatcher struct {
	store *Store
	kick  chan struct{} // has a capacity of one; signals that the subscriptions have changed
	done  chan struct{} // closed when the goroutine has ended

	mu          sync.Mutex // held while functions of subscriptions run
	subs        []*Subscription
	byResource  map[string][]*Subscription
	storeClosed bool
}

func (d *dispatcher) wake() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

func (d *dispatcher) add(sub *Subscription) {
	d.mu.Lock()
	defer d.mu.Unlock()
	sub.dispatcher = d
	d.subs = append(d.subs, sub)
	for _, resource := range sub.resources {
		d.byResource[resource] = append(d.byResource[resource], sub)
	}
	if d.storeClosed {
		close(sub.closed)
	}
	d.wake()
}

// remove reports whether a subscription was the last one.
func (d *dispatcher) remove(sub *Subscription) (last bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.Index(d.subs, sub)
	if i < 0 {
		return false
	}
	d.subs = slices.Delete(d.subs, i, i+1)
	for _, resource := range sub.resources {
		d.byResource[resource] = slices.DeleteFunc(d.byResource[resource], func(other *Subscription) bool {
			return other == sub
		})
	}
	return len(d.subs) == 0
}

// run is the dispatcher's goroutine. It ends when the last subscription has ended or the store is
// closed.
func (d *dispatcher) run() {
	defer close(d.done)
	for {
		switch err := d.follow(); {
		case err == nil:
			return
		case !errors.Is(err, ErrCompacted): // ErrClosed
			d.close()
			return
		}
	}
}

// follow passes events to the subscriptions until there are none, or until the store no longer
// retains the next events.
func (d *dispatcher) follow() error {
	cursor, err := d.store.Watch("", d.store.Snapshot().Revision())
	if err != nil {
		return err
	}
	d.mu.Lock()
	for _, sub := range d.subs {
		sub.begun = false
	}
	d.mu.Unlock()
	for d.beginAdded() {
		events, _, err := cursor.Next()
		switch {
		case err != nil:
			return err
		case len(events) > 0:
			d.pass(events)
		default:
			select {
			case <-d.kick:
			case <-cursor.Ready():
			}
		}
	}
	return nil
}

// beginAdded calls begin of the subscriptions that have not begun, and reports whether there are
// any subscriptions.
func (d *dispatcher) beginAdded() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, sub := range d.subs {
		if !sub.begun {
			// The state may be newer than the cursor: pass skips the events between.
			sn := d.store.Snapshot()
			sub.begin(sn)
			sub.begun, sub.after = true, sn.Revision()
		}
	}
	return len(d.subs) > 0
}

func (d *dispatcher) pass(events []*Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range events {
		for _, to := range [2][]*Subscription{d.byResource[e.Object.Key.Resource], d.byResource[""]} {
			for _, sub := range to {
				if sub.begun && e.Revision() > sub.after {
					sub.each(e)
				}
			}
		}
	}
}

func (d *dispatcher) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.storeClosed = true
	for _, sub := range d.subs {
		close(sub.closed)
	}
}
