package encrypted

import (
	"context"
	"fmt"

	"kelson.dev/apiserver/store"
)

// shared encrypts the values of a log that several stores write to.
type shared struct {
	store.Shared
	*source
}

// OpenShared adds encryption to a shared log. It takes ownership of inner, even if it fails. The
// result of path is authenticated with each value: for etcd, the key in etcd, as kube-apiserver
// does.
//
// If no provider can decrypt a value, Follow fails: the store stays at the state before it and logs
// the error until the configuration has the key. Values encrypted with a former key stay as they
// are until their next write.
func OpenShared(inner store.Shared, cfg Config, path func(store.Key) string) (store.Shared, error) {
	src, err := open(cfg, path)
	if err != nil {
		inner.Close()
		return nil, err
	}
	return &shared{inner, src}, nil
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
	now := s.current()
	return s.Shared.Load(ctx, func(r store.Record) error {
		if _, err := now.decrypt(&r); err != nil {
			return err
		}
		return each(r)
	})
}

// Follow implements [store.Shared].
func (s *shared) Follow(ctx context.Context, after uint64, apply func(uint64, []store.Record)) error {
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	var unreadable error
	err := s.Shared.Follow(following, after, func(revision uint64, records []store.Record) {
		if unreadable != nil {
			return // apply nothing after an unreadable record
		}
		now, plain := s.current(), make([]store.Record, len(records))
		for i, r := range records {
			if r.Data != nil {
				if _, unreadable = now.decrypt(&r); unreadable != nil {
					cancel()
					return
				}
			}
			plain[i] = r
		}
		apply(revision, plain)
	})
	if unreadable != nil {
		return unreadable
	}
	return err
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
