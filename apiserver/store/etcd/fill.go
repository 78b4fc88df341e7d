package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// ErrIncomplete means that a [Log.Fill] of the prefix did not finish, so objects may be missing.
var ErrIncomplete = errors.New("the copy of another state into etcd is not complete: run it again")

// ErrNotEmpty means that a [Log.Fill] found objects below its prefix.
var ErrNotEmpty = errors.New("etcd has objects already")

// marker is the key below the prefix that exists while Fill runs, and after a Fill that did not
// finish. It is not the key of an object.
const marker = "incomplete-copy"

const (
	// raisers is how many writes raise the revision at once. etcd syncs them together.
	raisers = 64
	// raisedHistory is the number of revisions after which Fill removes the history of its writes.
	raisedHistory = 100_000
)

// Fill calls write, which writes the state of another store to the empty prefix. Before the call,
// it raises the revision of the cluster to at least that of the other store, so that no revision
// has two meanings for clients. After the call, it compacts the history of the cluster, so that
// watches from earlier revisions end. Raising the revision by one takes a write; a cluster executes
// some thousands per second.
//
// If write fails or the process ends, the prefix stays marked as incomplete: Load, and therefore
// every control plane, fails with [ErrIncomplete], and the next Fill begins by removing the
// incomplete copy. Otherwise Fill fails with [ErrNotEmpty] if the prefix has keys. Only one Fill of
// a prefix may run at a time.
func (l *Log) Fill(ctx context.Context, revision uint64, write func() error) error {
	if err := l.claim(ctx); err != nil {
		return err
	}
	l.filling.Store(true)
	defer l.filling.Store(false)
	if err := l.raise(ctx, revision); err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	answer, err := l.client.Delete(ctx, l.prefix+marker)
	if err != nil {
		return fmt.Errorf("write etcd: %w", err)
	}
	return l.Compact(ctx, uint64(answer.Header.Revision))
}

// claim marks the prefix, which must be empty except for an incomplete copy.
func (l *Log) claim(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	found, err := l.client.Get(ctx, l.prefix+marker, clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("read etcd: %w", withContextError(ctx, err))
	}
	all := clientv3.WithRange(clientv3.GetPrefixRangeEnd(l.prefix))
	if found.Count == 0 {
		keys, err := l.client.Get(ctx, l.prefix, all, clientv3.WithCountOnly())
		if err != nil {
			return fmt.Errorf("read etcd: %w", withContextError(ctx, err))
		}
		if keys.Count > 0 {
			return fmt.Errorf("%w: %d keys begin with %s", ErrNotEmpty, keys.Count, l.prefix)
		}
	}
	// The marker stays while the objects before and after it are deleted.
	for _, op := range []clientv3.Op{
		clientv3.OpPut(l.prefix+marker, ""), clientv3.OpDelete(l.prefix, clientv3.WithRange(l.prefix+marker)),
		clientv3.OpDelete(l.prefix+marker+"\x00", all),
	} {
		if _, err := l.client.Do(ctx, op); err != nil {
			return fmt.Errorf("write etcd: %w", withContextError(ctx, err))
		}
	}
	return nil
}

// raise writes the marker until the revision of the cluster is at least revision.
func (l *Log) raise(ctx context.Context, revision uint64) error {
	now, err := l.newest(ctx)
	if err != nil {
		return err
	}
	if now >= revision {
		return nil
	}
	var left, compacted atomic.Int64
	left.Store(int64(revision - now))
	compacted.Store(int64(now))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var writers sync.WaitGroup
	for range raisers {
		writers.Go(func() {
			for ctx.Err() == nil && left.Add(-1) >= 0 {
				if err := l.raiseOnce(ctx, &compacted); err != nil {
					cancel(err)
				}
			}
		})
	}
	writers.Wait()
	return context.Cause(ctx)
}

func (l *Log) raiseOnce(ctx context.Context, compacted *atomic.Int64) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	answer, err := l.client.Put(ctx, l.prefix+marker, "")
	if err != nil {
		return fmt.Errorf("raise the revision of etcd: %w", withContextError(ctx, err))
	}
	now, before := answer.Header.Revision, compacted.Load()
	if now-before >= raisedHistory && compacted.CompareAndSwap(before, now) {
		return l.Compact(ctx, uint64(now))
	}
	return nil
}
