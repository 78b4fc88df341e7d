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

// Input is something that happened: Start, Page, Change, Failure, Closed or Waited.
type Input[T metav1.Object] interface{ input() }

type (
	// Start begins, and may come again at any time: then the collection is read anew.
	Start[T metav1.Object] struct{}
	// Page is the answer to Next.Do == List.
	Page[T metav1.Object] struct {
		Items    []T
		Version  string
		Continue string
	}
	// Change is an event of the open watch. Errors that come as events are Failures.
	Change[T metav1.Object] struct {
		Type watch.EventType
		// Object of a bookmark is not looked at.
		Object  T
		Version string
		// InitialEnd is set on the bookmark that closes the initial events.
		InitialEnd bool
	}
	// Failure is what became of a list, of opening a watch, or of an open watch.
	Failure[T metav1.Object] struct{ Err error }
	// Closed says that the open watch ended without an error. Early: so soon, and without an event, that something is wrong.
	Closed[T metav1.Object] struct{ Early bool }
	// Waited says that the time to wait is over.
	Waited[T metav1.Object] struct{}
)

func (Start[T]) input()   {}
func (Page[T]) input()    {}
func (Change[T]) input()  {}
func (Failure[T]) input() {}
func (Closed[T]) input()  {}
func (Waited[T]) input()  {}

// Op is what a Delta does to the copy.
type Op int

const (
	// Add and Update put the object in; which of them is what the server said, not whether the copy has it.
	Add Op = iota
	Update
	// Delete takes the object out; it comes with the last state.
	Delete
	// Replace makes the copy exactly the items: what it has beyond them was deleted, unseen.
	Replace
	// Bookmark says only that the copy is as of Version.
	Bookmark
)

// Delta is one change of the copy. After it, the copy is as the server's collection was at Version.
type Delta[T metav1.Object] struct {
	Op      Op
	Object  T
	Items   []T
	Version string
}

// Do is what a driver does next.
type Do int

const (
	// Read waits for the next event of the open watch. Any other order closes the open watch first.
	Read Do = iota
	// List asks for the page after Next.Continue.
	List
	// Watch opens a watch after Next.Version, or one with initial events.
	Watch
	// Wait lets time pass: longer, the more Next.Failures came in a row, and at least Next.AtLeast.
	Wait
)

// Next is the one thing to do next.
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

// Machine is the list and watch protocol. The zero value lists with Limit 0 (everything at once) and does not stream.
// It is not safe for concurrent use.
type Machine[T metav1.Object] struct {
	// Stream begins with a streaming list, until the server refuses one.
	Stream bool
	// PageSize is the number of objects to ask for in one page of a list; zero is everything.
	PageSize int64

	state    state
	version  string // of the copy; resume here
	synced   bool   // version may be resumed from
	unpaged  bool   // the continue token expired under this list: read it in one piece
	listOnce bool   // the last streaming list was cut short: read a list this time
	failures int    // in a row

	items   []T                          // pages so far
	initial map[types.NamespacedName]int // where in items an initial event put its object
}

// Step takes what happened and says what it changes and what to do next. Inputs that do not fit the state (a late event
// of a closed watch) panic: the driver has a bug.
func (m *Machine[T]) Step(in Input[T]) ([]Delta[T], Next) {
	switch in := in.(type) {
	case Start[T]:
		m.synced = false
		return nil, m.begin()
	case Waited[T]:
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

// begin resumes the watch, or reads the collection anew.
func (m *Machine[T]) begin() Next {
	m.items, m.initial = nil, nil
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
	if p.Continue != "" {
		return nil, Next{Do: List, Limit: m.PageSize, Continue: p.Continue}
	}
	d := m.replace(p.Version)
	return d, m.begin()
}

// replace ends a read of the whole collection. It does not end a row of failures: a watch that is refused after each
// successful list must not become a loop without pause.
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
	case c.Type == watch.Deleted && known: // the last takes the place of the one that is gone
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
		// Whatever answers here may not know initial events, and never end them.
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
	case streaming:
		if isRefusal(err) {
			m.Stream = false
			return m.begin()
		}
	case watching:
		if apierrors.IsNotFound(err) {
			m.synced = false // the kind is gone; if it comes back, it is another collection
		}
		if isExpired(err) {
			m.synced = false
			if m.failures == 0 {
				m.failures = 1
				return m.begin() // nothing is wrong with the server: no need to wait
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

// isExpired says that the server has nothing at the version or token any longer, or that the version lies in its future
// (it was restored from a backup, or began anew).
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// isRefusal says that the server does not do streaming lists: it finds fault with the request, not with itself. Servers that
// do not know sendInitialEvents refuse the resourceVersionMatch that comes with it.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnprocessableEntity, http.StatusNotImplemented:
		return true
	}
	return false
}
