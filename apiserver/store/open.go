package store

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
)

// Config says how to open a Store.
type Config struct {
	// Backend makes writes durable; nil keeps everything in memory only.
	Backend Backend
	// Shared is a log that others write to as well, in the place of a Backend.
	Shared Shared
	// Retain is how many events per resource the watch log keeps at least, and as many of all; 0 means 10,000.
	Retain int
	// RetainBytes is how many bytes of objects these events may hold, per resource and of all, before fewer are kept; 0 means 32 MiB.
	// The newest 256 are kept whatever their size.
	RetainBytes int
	// Log hears of what goes wrong without being anybody's answer; nil: the default logger.
	Log *slog.Logger
}

// Store is the state of one control plane. All methods are safe for concurrent use.
type Store struct {
	backend Backend // nil: memory only
	retain  retention
	queue   queue

	follower *follower // of a store over a Shared, in the place of backend and committer; nil: of its own

	alive       context.Context // ends with Close
	end         context.CancelFunc
	checkpoints sync.WaitGroup
	log         *slog.Logger

	// The committer's own, once it runs.
	view     view
	revision uint64
	failure  error
	failed   atomic.Pointer[error] // failure, for everybody
	full     atomic.Pointer[error] // why there is no room; nil: there is

	counts  counts
	current atomic.Pointer[Snapshot]
	closing sync.Once
	done    chan struct{} // the committer has ended
	ready   chan struct{} // always closed

	// mu guards what is published with a Snapshot: whoever holds it sees current and all logs at one revision.
	mu     sync.RWMutex
	base   uint64 // events up to here were never in the logs
	logs   map[string]*eventLog
	pins   []pin
	lapsed uint64 // the newest revision whose pin has ended
	closed bool

	check   func(*Snapshot, []*Event) // tests look at everything before it is published; nil otherwise
	inspect func(*Snapshot, []*Event) // and after; guarded by mu
}

const (
	defaultRetain      = 10_000
	defaultRetainBytes = 32 << 20
	// firstRevision is that of an empty store. It is not 0, because a resourceVersion "0" means "any" to clients.
	firstRevision = 1
)

// Open loads the backend's state and starts the committer. The caller closes the store, which closes the backend;
// Open closes it itself when it fails.
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
			cfg.Backend.Close() // what went wrong before counts
			return nil, fmt.Errorf("load store: %w", err)
		}
		revision = max(revision, loaded)
	}
	return start(v, revision, cfg), nil
}

func loadObject(r Record) (*Object, error) {
	head, at, err := scanHead(r.Data)
	if err != nil {
		return nil, fmt.Errorf("%s %s/%s: %w", r.Key.Resource, r.Key.Namespace, r.Key.Name, err)
	}
	path := r.Key.path()
	return &Object{Key: split(path), Revision: r.Revision, Created: r.Created, Data: r.Data, Head: head, path: path, version: at}, nil
}

func start(v view, revision uint64, cfg Config) *Store {
	s := newStore(v, revision, cfg)
	go s.run()
	return s
}

func newStore(v view, revision uint64, cfg Config) *Store {
	s := &Store{
		backend:  cfg.Backend,
		retain:   retention{cfg.Retain, cfg.RetainBytes},
		queue:    queue{wake: make(chan struct{}, 1)},
		view:     v,
		revision: revision,
		base:     revision,
		logs:     map[string]*eventLog{},
		done:     make(chan struct{}),
		ready:    make(chan struct{}),
	}
	s.alive, s.end = context.WithCancel(context.Background())
	if s.log = cfg.Log; s.log == nil {
		s.log = slog.Default()
	}
	if revision == firstRevision && v.objects.Len() == 0 {
		s.base = 0 // nothing ever happened, so nothing is missing
	}
	if s.retain.events <= 0 {
		s.retain.events = defaultRetain
	}
	if s.retain.bytes <= 0 {
		s.retain.bytes = defaultRetainBytes
	}
	close(s.ready)
	s.current.Store(s.freeze())
	return s
}

// Failed gives the error for which the store takes no writes, or nil: for good, or until there is room again. For health checks.
func (s *Store) Failed() error {
	if err := s.full.Load(); err != nil {
		return *err
	}
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Close ends the committer after what was queued, and closes the backend. Cursors get ErrClosed. Reads go on.
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() {
		if s.follower != nil {
			s.end()
			s.follower.cancel()
		} else {
			s.queue.close()
		}
		<-s.done
		s.mu.Lock()
		s.closed = true
		var wake waiters
		for _, l := range s.logs {
			wake = l.takeWaiters(wake)
		}
		s.mu.Unlock()
		wake.close()
		s.end()
		s.checkpoints.Wait()
		switch {
		case s.follower != nil:
			s.progress()
			err = s.follower.shared.Close()
		case s.backend != nil:
			err = s.backend.Close()
		}
	})
	return err
}

// freeze makes the committer's state a Snapshot.
func (s *Store) freeze() *Snapshot {
	return &Snapshot{revision: s.revision, view: s.view.copy(), retain: s.retain}
}

func (s *Store) snapshot() *Snapshot { return s.current.Load() }
