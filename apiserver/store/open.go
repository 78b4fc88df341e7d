package store

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Config configures a Store.
type Config struct {
	// Backend makes writes durable; nil keeps everything in memory only.
	Backend Backend
	// Shared is a log that other processes write to as well. It replaces Backend.
	Shared Shared
	// Retain is how many events the watch log keeps at least, per resource and in total; 0 means
	// 10,000.
	Retain int
	// RetainBytes limits the bytes of objects in these events, per resource and in total; above it
	// the log keeps fewer events, but always the newest 256. 0 means 32 MiB.
	RetainBytes int
	// Log receives errors that are not returned to a caller; nil means slog.Default().
	Log *slog.Logger
}

// Store is the state of one control plane. All methods are safe for concurrent use.
type Store struct {
	driver  driver
	retain  retention
	log     *slog.Logger
	counts  counts
	current atomic.Pointer[Snapshot]
	closing sync.Once
	ready   chan struct{} // always closed

	// mu guards what is published together with a Snapshot: under mu, current and all logs are at
	// one revision.
	mu     sync.RWMutex
	base   uint64 // events up to this revision were never in the logs
	logs   map[string]*eventLog
	pins   []pin
	lapsed uint64 // the newest revision whose pin has ended
	// replaced counts the bytes of all objects that were replaced or deleted since the start.
	replaced uint64
	closed   bool

	check   func(*Snapshot, []*Event) // in tests, called before each publication; nil otherwise
	inspect func(*Snapshot, []*Event) // called after each publication; guarded by mu

	gate atomic.Pointer[func(context.Context, []Op) error] // see Gate

	dispatching sync.Mutex  // guards dispatcher
	dispatcher  *dispatcher // nil while the store has no subscriptions
}

// driver accepts writes and advances the published state of a Store. Its goroutine is the only
// caller of Store.publish. There are two: committer and follower.
type driver interface {
	// commit implements Store.Commit for a non-empty list of ops, whose objects have a total size.
	commit(ctx context.Context, ops []Op, drafts []draft, size int) ([]*Object, error)
	// fresh implements Store.Fresh.
	fresh(ctx context.Context) (*Snapshot, error)
	// failed implements Store.Failed.
	failed() error
	// pack implements Store.Pack.
	pack()
	// stats sets the fields of Stats that only the driver can determine.
	stats(*Stats)
	// stop refuses new writes and returns when the goroutine has ended. Queued writes are processed
	// first.
	stop()
	// close releases everything else. It is called once, after stop, when the store is marked
	// closed.
	close() error
}

// state has the commits that a driver has applied. Readers see it when the driver publishes it.
type state struct {
	view     view
	revision uint64
}

// freeze returns the state as a Snapshot. O(1).
func (st *state) freeze(keep retention) *Snapshot {
	return &Snapshot{revision: st.revision, view: st.view.copy(), retain: keep}
}

const (
	defaultRetain      = 10_000
	defaultRetainBytes = 32 << 20
	// firstRevision is the revision of an empty store. It is not 0, because resourceVersion "0"
	// means "any" to clients.
	firstRevision = 1
)

// Open loads the backend's state and starts the store's goroutine. The caller must close the store,
// which closes the backend. If Open fails, it closes the backend.
func Open(cfg Config) (*Store, error) {
	if cfg.Shared != nil {
		return openShared(cfg)
	}
	v, revision := newView(), uint64(firstRevision)
	if cfg.Backend != nil {
		loaded, err := cfg.Backend.Load(func(r Record) error {
			obj, err := loadObject(r)
			if err == nil {
				v.replace(nil, obj)
			}
			return err
		})
		if err != nil {
			cfg.Backend.Close() // the error of Load matters more
			return nil, fmt.Errorf("load store: %w", err)
		}
		revision = max(revision, loaded)
	}
	return start(state{v, revision}, cfg), nil
}

func loadObject(r Record) (*Object, error) {
	head, at, err := scanHead(r.Data)
	if err != nil {
		return nil, fmt.Errorf("%s %s/%s: %w", r.Key.Resource, r.Key.Namespace, r.Key.Name, err)
	}
	path := r.Key.path()
	return &Object{Key: split(path), Revision: r.Revision, Created: r.Created, Data: r.Data, Head: head, path: path, version: at}, nil
}

// start returns a store with a committer.
func start(st state, cfg Config) *Store {
	s := newStore(st, cfg)
	s.driver = newCommitter(s, st, cfg.Backend)
	return s
}

// newStore returns a store without a driver. The caller adds one.
func newStore(st state, cfg Config) *Store {
	s := &Store{
		retain: retention{cfg.Retain, cfg.RetainBytes},
		log:    cfg.Log,
		base:   st.revision,
		logs:   map[string]*eventLog{},
		ready:  make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if st.revision == firstRevision && st.view.objects.Len() == 0 {
		s.base = 0 // nothing was ever written, so no events are missing
	}
	if s.retain.events <= 0 {
		s.retain.events = defaultRetain
	}
	if s.retain.bytes <= 0 {
		s.retain.bytes = defaultRetainBytes
	}
	close(s.ready)
	s.current.Store(st.freeze(s.retain))
	return s
}

func (s *Store) commit(ctx context.Context, ops []Op) ([]*Object, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	drafts, err := newDrafts(ops)
	if err != nil {
		return nil, err
	}
	size, err := s.checkSizes(ops, drafts)
	if err != nil {
		return nil, err
	}
	if wait := s.gate.Load(); wait != nil {
		if err := (*wait)(ctx, ops); err != nil {
			return nil, err
		}
	}
	defer s.counts.waiting.Since(time.Now())
	return s.driver.commit(ctx, ops, drafts, size)
}

// Fresh returns a state that includes every write that was acknowledged, by any store, before the
// call. Without a [Shared] that is the newest Snapshot. With one, Fresh sends a request to the log,
// which may fail or block until ctx ends.
func (s *Store) Fresh(ctx context.Context) (*Snapshot, error) { return s.driver.fresh(ctx) }

// Failed returns the error that makes the store refuse writes, permanently or until there is space
// again; nil if it accepts them. It is for health checks.
func (s *Store) Failed() error { return s.driver.failed() }

// Close processes the queued writes, ends the store's goroutine and closes the backend. Afterwards
// cursors return ErrClosed; snapshots remain readable. Only the first call has an effect and can
// return an error.
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() {
		s.driver.stop()
		s.mu.Lock()
		s.closed = true
		var wake waiters
		for _, l := range s.logs {
			wake = l.takeWaiters(wake)
		}
		s.mu.Unlock()
		wake.close()
		err = s.driver.close()
	})
	return err
}

func (s *Store) snapshot() *Snapshot { return s.current.Load() }
