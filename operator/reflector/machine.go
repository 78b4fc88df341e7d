package reflector

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Input is an event: Start, Page, Change, Failure, Closed or Waited.
type Input[T metav1.Object] interface{ input() }

type (
	// Start starts the machine. It may be repeated at any time, and then the collection is read
	// again.
	Start[T metav1.Object] struct{}
	// Page is the result of Next.Do == List.
	Page[T metav1.Object] struct {
		Items    []T
		Version  string
		Continue string
	}
	// Change is an event of the open watch. Error events are Failures.
	Change[T metav1.Object] struct {
		Type watch.EventType
		// Object of a bookmark is ignored.
		Object  T
		Version string
		// InitialEnd is set for the bookmark that ends the initial events.
		InitialEnd bool
	}
	// Failure is the error of a list, of opening a watch, or of an open watch.
	Failure[T metav1.Object] struct{ Err error }
	// Closed means that the open watch ended without an error. Early means that it ended so soon,
	// without an event, that it counts as a failure.
	Closed[T metav1.Object] struct{ Early bool }
	// Waited means that the wait is over.
	Waited[T metav1.Object] struct{}
)

func (Start[T]) input()   {}
func (Page[T]) input()    {}
func (Change[T]) input()  {}
func (Failure[T]) input() {}
func (Closed[T]) input()  {}
func (Waited[T]) input()  {}

// Op is the operation of a Delta.
type Op int

const (
	// Add and Update store the object. The server chooses between them, independently of the copy.
	Add Op = iota
	Update
	// Delete removes the object; it contains the last state.
	Delete
	// Replace sets the copy to the items: other objects were deleted in the meantime.
	Replace
	// Bookmark only sets the version of the copy.
	Bookmark
)

// Delta is one change of the copy, after which the copy is at Version.
type Delta[T metav1.Object] struct {
	Op      Op
	Object  T
	Items   []T
	Version string
}

// Do is the next action of a driver.
type Do int

const (
	// Read waits for the next event of the open watch. All other actions close the open watch
	// first.
	Read Do = iota
	// List reads the page after Next.Continue.
	List
	// Watch opens a watch after Next.Version, or one with initial events.
	Watch
	// Wait waits, longer with more consecutive Next.Failures, and at least Next.AtLeast.
	Wait
)

// Next is the next action.
type Next struct {
	Do            Do
	Continue      string
	Limit         int64
	Version       string
	InitialEvents bool
	Failures      int
	AtLeast       time.Duration
}

type state int

const (
	idle state = iota
	listing
	streaming
	watching
)

// Machine implements the list and watch protocol. The zero value lists with Limit 0 (everything at
// once) and does not use streaming lists. It is not safe for concurrent use.
type Machine[T metav1.Object] struct {
	// Stream starts with a streaming list, until the server rejects one.
	Stream bool
	// PageSize is the number of objects per page of a list; zero is everything.
	PageSize int64

	state    state
	version  string // of the copy; the watch resumes here
	synced   bool   // the watch can resume at version
	token    string // of the page that is being read; empty for the first
	paused   bool   // the server asked to read that page later
	refused  int    // how often it did
	unpaged  bool   // the continue token expired during this list: read it without pages
	listOnce bool   // the last streaming list was cut short: use a list this time
	failures int    // consecutive failures

	items   []T                          // pages so far
	initial map[types.NamespacedName]int // index in items of the objects of initial events
}

// Step processes an input, and returns the changes of the copy and the next action. Inputs that are
// invalid in the current state (such as a late event of a closed watch) panic, because the driver
// has a bug.
func (m *Machine[T]) Step(in Input[T]) ([]Delta[T], Next) {
	switch in := in.(type) {
	case Start[T]:
		m.synced = false
		return nil, m.begin()
	case Waited[T]:
		if m.paused {
			m.state, m.paused = listing, false
			return nil, Next{Do: List, Limit: m.PageSize, Continue: m.token}
		}
		return nil, m.begin()
	case Page[T]:
		m.expect(listing, in)
		return m.page(in)
	case Change[T]:
		if m.state == streaming {
			return m.initialEvent(in)
		}
		m.expect(watching, in)
		return m.event(in)
	case Closed[T]:
		return nil, m.closed(in.Early)
	case Failure[T]:
		return nil, m.failed(in.Err)
	}
	panic(fmt.Sprintf("reflector: unknown input %T", in))
}

func (m *Machine[T]) expect(s state, in Input[T]) {
	if m.state != s {
		panic(fmt.Sprintf("reflector: %T does not fit the state %d", in, m.state))
	}
}

// begin resumes the watch, or reads the collection again.
func (m *Machine[T]) begin() Next {
	m.items, m.initial, m.token, m.paused, m.refused = nil, nil, "", false, 0
	switch {
	case m.synced:
		m.state = watching
		return Next{Do: Watch, Version: m.version}
	case m.Stream && !m.listOnce:
		m.state = streaming
		m.initial = map[types.NamespacedName]int{}
		return Next{Do: Watch, InitialEvents: true}
	}
	m.state = listing
	if m.unpaged {
		return Next{Do: List}
	}
	return Next{Do: List, Limit: m.PageSize}
}

func (m *Machine[T]) page(p Page[T]) ([]Delta[T], Next) {
	m.items = append(m.items, p.Items...)
	m.token, m.refused = p.Continue, 0
	if p.Continue != "" {
		return nil, Next{Do: List, Limit: m.PageSize, Continue: p.Continue}
	}
	d := m.replace(p.Version)
	return d, m.begin()
}

// replace completes the read of the collection. It does not reset the failure count: if the watch
// is rejected after each successful list, there must be a wait.
func (m *Machine[T]) replace(version string) []Delta[T] {
	d := []Delta[T]{{Op: Replace, Items: m.items, Version: version}}
	m.items, m.initial = nil, nil
	m.version, m.synced, m.unpaged, m.listOnce = version, true, false, false
	return d
}

func (m *Machine[T]) initialEvent(c Change[T]) ([]Delta[T], Next) {
	read := Next{Do: Read}
	if c.Type == watch.Bookmark {
		if !c.InitialEnd {
			return nil, read
		}
		m.state = watching
		return m.replace(c.Version), read
	}
	key := types.NamespacedName{Namespace: c.Object.GetNamespace(), Name: c.Object.GetName()}
	at, known := m.initial[key]
	switch {
	case c.Type == watch.Deleted && known: // move the last item into the gap
		last := len(m.items) - 1
		moved := m.items[last]
		m.items[at] = moved
		m.initial[types.NamespacedName{Namespace: moved.GetNamespace(), Name: moved.GetName()}] = at
		delete(m.initial, key)
		m.items = m.items[:last]
	case c.Type == watch.Deleted:
	case known:
		m.items[at] = c.Object
	default:
		m.initial[key] = len(m.items)
		m.items = append(m.items, c.Object)
	}
	return nil, read
}

func (m *Machine[T]) event(c Change[T]) ([]Delta[T], Next) {
	m.failures = 0
	m.version = c.Version
	d := Delta[T]{Object: c.Object, Version: c.Version}
	switch c.Type {
	case watch.Added:
		d.Op = Add
	case watch.Modified:
		d.Op = Update
	case watch.Deleted:
		d.Op = Delete
	case watch.Bookmark:
		var none T
		d.Op, d.Object = Bookmark, none
	default:
		panic(fmt.Sprintf("reflector: unknown type of event %q", c.Type))
	}
	return []Delta[T]{d}, Next{Do: Read}
}

func (m *Machine[T]) closed(early bool) Next {
	if m.state == streaming {
		// A proxy or old server may ignore sendInitialEvents and never send the bookmark at their
		// end.
		m.listOnce = true
		return m.wait(nil)
	}
	if early {
		return m.wait(nil)
	}
	m.failures = 0
	return m.begin()
}

func (m *Machine[T]) failed(err error) Next {
	switch m.state {
	case listing:
		if isExpired(err) && len(m.items) > 0 && !m.unpaged {
			m.unpaged = true
			return m.begin()
		}
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok && m.token != "" {
			// Keep the earlier pages: a new list would be even more work for a busy server.
			m.state, m.paused = idle, true
			m.refused++
			return Next{Do: Wait, Failures: m.refused, AtLeast: time.Duration(seconds) * time.Second}
		}
	case streaming:
		if isRefusal(err) {
			m.Stream = false
			return m.begin()
		}
	case watching:
		switch {
		case apierrors.IsNotFound(err):
			m.synced = false // the kind is gone; if it returns, it is a new collection
		case apierrors.IsMethodNotSupported(err):
			m.synced = false // the kind can't be watched: follow it by lists
		}
		if isExpired(err) {
			m.synced = false
			if m.failures == 0 {
				m.failures = 1
				return m.begin() // the server is healthy: don't wait
			}
		}
	}
	return m.wait(err)
}

func (m *Machine[T]) wait(err error) Next {
	m.failures++
	m.items, m.initial = nil, nil
	m.state = idle
	next := Next{Do: Wait, Failures: m.failures}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		next.AtLeast = time.Duration(seconds) * time.Second
	}
	return next
}

// isExpired reports whether the server no longer has the version or token, or whether the version
// is in its future (because it was restored from a backup, or started over).
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// isRefusal reports whether the server does not support streaming lists: it rejects the request.
// Servers that don't know sendInitialEvents reject the resourceVersionMatch that it requires.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnprocessableEntity,
		http.StatusNotImplemented:
		return true
	}
	return false
}
