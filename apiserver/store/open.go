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
	// Retain is how many events the watch log keeps, per resource and in total, if the budget
	// allows it; 0 means 10,000.
	Retain int
	// Budget returns the limit, in bytes, for the memory of everything that the store could compute
	// again or that a client can list again: replaced objects in the watch logs, pages of lists,
	// and results of Memo. It is called for each publication, with the memory that the live objects
	// need, and must be quick. Each log keeps its newest events, independently of the limit: 256,
	// or fewer if they have more than 1 MiB. nil means AutomaticBudget.
	Budget func(live int64) int64
	// Log receives errors that are not returned to a caller; nil means slog.Default().
	Log *slog.Logger
}

// Store is the state of one control plane. All methods are safe for concurrent use.
type Store struct {
	driver  driver
	retain  int     // number of events
	config  Config  // Retain and Budget, for forks
	budget  *budget // of this store's objects and events
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
	pins   []pin  // in the order of their revisions
	lapsed uint64 // the newest revision whose pin has ended
	// minimal means that each log had only its minimum when the history was last trimmed. A new
	// chunk of a log ends that.
	minimal bool
	closed  bool

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
	pack() (packed bool, again time.Duration)
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
func (st *state) freeze(forks Config) *Snapshot {
	return &Snapshot{revision: st.revision, view: st.view.copy(), config: forks}
}

const (
	defaultRetain = 10_000
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
	v, revision, b := newView(), uint64(firstRevision), newBudget(cfg.Budget)
	if cfg.Backend != nil {
		l := newLoader(&v, b)
		loaded, err := cfg.Backend.Load(l.add)
		if failed := l.finish(); err == nil {
			err = failed
		}
		if err != nil {
			cfg.Backend.Close() // the error of Load matters more
			return nil, fmt.Errorf("load store: %w", err)
		}
		revision = max(revision, loaded)
	}
	return startWith(state{v, revision}, cfg, b), nil
}

func loadObject(r Record, b *budget) (*Object, error) {
	obj := &Object{budget: b}
	_, err := obj.load(r, nil)
	return obj, err
}

// start returns a store with a committer.
func start(st state, cfg Config) *Store { return startWith(st, cfg, newBudget(cfg.Budget)) }

// startWith is like start, with the budget of the objects that the store has loaded.
func startWith(st state, cfg Config, b *budget) *Store {
	s := newStore(st, cfg, b)
	s.driver = newCommitter(s, st, cfg.Backend)
	return s
}

// newStore returns a store without a driver. The caller adds one.
func newStore(st state, cfg Config, b *budget) *Store {
	s := &Store{
		retain: cfg.Retain,
		config: Config{Retain: cfg.Retain, Budget: cfg.Budget},
		budget: b,
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
	if s.retain <= 0 {
		s.retain = defaultRetain
	}
	close(s.ready)
	s.current.Store(st.freeze(s.config))
	b.resize(st.view.bytes)
	trim := s.trimHistory
	b.trim.Store(&trim)
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
		s.budget.trim.Store(nil) // objects that forks use don't keep the closed store in memory
		err = s.driver.close()
	})
	return err
}

func (s *Store) snapshot() *Snapshot { return s.current.Load() }
