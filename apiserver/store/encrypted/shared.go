package encrypted

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"kelson.dev/apiserver/store"
)

// shared encrypts the values of a log that several stores write to.
type shared struct {
	store.Shared
	*source
	log *slog.Logger
	// lacking is set while some objects cannot be read, to the first providers since the last Load
	// that lack a key. Later ones must not replace them: they may have the key of an earlier
	// object.
	lacking atomic.Pointer[providers]
}

// OpenShared adds encryption to a shared log. It takes ownership of inner, even if it fails. The
// result of path is authenticated with each value: for etcd, the key in etcd, as kube-apiserver
// does.
//
// A value that no provider can decrypt is an object that cannot be read ([store.Unreadable]), and
// its error is logged. Other objects are not concerned. When the configuration changes, the store
// loads the log again. Without a configuration, Load fails if a value is encrypted. Values that are
// encrypted with a former key stay as they are until their next write.
func OpenShared(inner store.Shared, cfg Config, path func(store.Key) string) (store.Shared, error) {
	src, err := open(cfg, path)
	if err != nil {
		inner.Close()
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &shared{Shared: inner, source: src, log: cfg.Log}, nil
}

// Stats implements [store.Measured] with the statistics of the inner log.
func (s *shared) Stats() store.BackendStats { return statsOf(s.Shared) }

// Space implements [store.Spacious] with the space of the inner log.
func (s *shared) Space(ctx context.Context) error {
	if inner, ok := s.Shared.(store.Spacious); ok {
		return inner.Space(ctx)
	}
	return nil
}

// Reader returns a function that decrypts records as a [Backend] stores them, and one that releases
// its resources.
func Reader(cfg Config) (decrypt func(*store.Record) error, end func(), err error) {
	src, err := open(cfg, registryPath)
	if err != nil {
		return nil, nil, err
	}
	return func(r *store.Record) error {
		_, err := src.current().decrypt(r)
		return err
	}, src.end, nil
}

// Load implements [store.Shared].
func (s *shared) Load(ctx context.Context, each func(store.Record) error) (uint64, error) {
	s.lacking.Store(nil)
	now := s.current()
	return s.Shared.Load(ctx, func(r store.Record) error {
		if err := s.read(now, &r); err != nil {
			return err
		}
		return each(r)
	})
}

// read decrypts a record in place, or makes it unreadable. It returns an error only if there is no
// configuration.
func (s *shared) read(now *providers, r *store.Record) error {
	_, err := now.decrypt(r)
	if err == nil || now == nil {
		return err
	}
	s.log.Error("an object cannot be read", "err", err)
	r.Data = store.Unreadable(r.Key, err)
	s.lacking.CompareAndSwap(nil, now)
	return nil
}

// Follow implements [store.Shared]. When the configuration has changed and some objects could not
// be read before, Follow returns ErrCompacted, which makes the store load the log again.
func (s *shared) Follow(ctx context.Context, after uint64, apply func(uint64, []store.Record)) error {
	following, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	var renewed atomic.Bool
	wait := sync.OnceFunc(func() {
		waiting.Go(func() {
			if s.awaitProviders(following) {
				renewed.Store(true)
				cancel()
			}
		})
	})
	if s.lacking.Load() != nil {
		wait()
	}
	var refused error
	err := s.Shared.Follow(following, after, func(revision uint64, records []store.Record) {
		if refused != nil {
			return // apply nothing after a record that was not applied
		}
		now, plain := s.current(), make([]store.Record, len(records))
		for i, r := range records {
			if r.Data != nil {
				if refused = s.read(now, &r); refused != nil {
					cancel()
					return
				}
			}
			plain[i] = r
		}
		apply(revision, plain)
		if s.lacking.Load() != nil {
			wait()
		}
	})
	switch {
	case refused != nil:
		return refused
	case renewed.Load():
		return fmt.Errorf("the encryption configuration has changed: %w", store.ErrCompacted)
	}
	return err
}

// recheck is how often a store with objects that cannot be read looks for new keys.
const recheck = time.Second

// awaitProviders waits until there are other providers than those that could not read an object. It
// returns false if ctx ends first.
func (s *shared) awaitProviders(ctx context.Context) bool {
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		if s.current() != s.lacking.Load() {
			return true
		}
	}
}

// Commit implements [store.Shared].
func (s *shared) Commit(ctx context.Context, ops []store.Op) (uint64, bool, error) {
	now, sealed := s.current(), make([]store.Op, len(ops))
	for i, op := range ops {
		if op.Check {
			sealed[i] = op
			continue
		}
		r, err := now.encrypt(store.Record{Key: op.Key, Data: op.Data})
		if err != nil {
			return 0, false, fmt.Errorf("%w: %w", store.ErrNotWritten, err)
		}
		sealed[i] = store.Op{Key: op.Key, Data: r.Data, Expect: op.Expect}
	}
	return s.Shared.Commit(ctx, sealed)
}

// Close implements [store.Shared].
func (s *shared) Close() error {
	s.end()
	return s.Shared.Close()
}
