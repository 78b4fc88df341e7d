package storetest

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"

	"kelson.dev/apiserver/store"
)

// Backend is a store.Backend that keeps its records in memory when a store closes it, as a disk
// does, and fails on demand. Only one store at a time may use it. The zero value is empty.
type Backend struct {
	// Before, if not nil, is called with the records that Append is about to make durable. Append
	// returns its error, and then nothing becomes durable.
	Before func([]store.Record) error
	// After, if not nil, is called when the records are durable. Append returns its error, so that
	// the store does not know the outcome.
	After func([]store.Record) error

	mu       sync.Mutex
	records  map[store.Key]store.Record
	revision uint64
	failed   bool
	broken   []string // broken rules of the contract
	appends  int
}

// Load implements store.Backend.
func (b *Backend) Load(each func(store.Record) error) (uint64, error) {
	b.mu.Lock()
	records, revision := maps.Clone(b.records), b.revision
	b.failed = false
	b.mu.Unlock()
	for _, r := range records {
		if err := each(r); err != nil {
			return 0, err
		}
	}
	return revision, nil
}

// Append implements store.Backend.
func (b *Backend) Append(records []store.Record) error {
	b.mu.Lock()
	if b.failed {
		b.broken = append(b.broken, "append after an error")
	}
	b.appends++
	b.mu.Unlock()
	if err := b.hook(b.Before, records); err != nil {
		return err
	}
	b.mu.Lock()
	if b.records == nil {
		b.records = map[store.Key]store.Record{}
	}
	for _, r := range records {
		if r.Revision <= b.revision {
			b.broken = append(b.broken, "revision not above those before it")
		}
		if b.revision = r.Revision; r.Data == nil {
			delete(b.records, r.Key)
			continue
		}
		r.Data = slices.Clone(r.Data)
		b.records[r.Key] = r
	}
	b.mu.Unlock()
	return b.hook(b.After, records)
}

// Checkpoint implements store.Backend. After every fifth Append it compares the state of the store
// with the appended records.
func (b *Backend) Checkpoint() func(context.Context, iter.Seq[store.Record]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.appends%5 != 0 {
		return nil
	}
	want := maps.Clone(b.records)
	return func(ctx context.Context, records iter.Seq[store.Record]) error {
		n := 0
		for r := range records {
			if n++; ctx.Err() != nil {
				return ctx.Err()
			}
			if w, ok := want[r.Key]; !ok || w.Revision != r.Revision || w.Created != r.Created ||
				string(w.Data) != string(r.Data) {
				b.broke("the state of a checkpoint differs from the appended one")
			}
		}
		if n != len(want) {
			b.broke("a checkpoint has another number of objects than were appended")
		}
		return nil
	}
}

func (b *Backend) broke(rule string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = append(b.broken, rule)
}

func (b *Backend) hook(hook func([]store.Record) error, records []store.Record) error {
	if hook == nil {
		return nil
	}
	err := hook(records)
	if err != nil {
		b.mu.Lock()
		b.failed = true
		b.mu.Unlock()
	}
	return err
}

// Close implements store.Backend.
func (b *Backend) Close() error { return nil }

// Durable returns the record of a key, and the newest durable revision.
func (b *Backend) Durable(key store.Key) (r store.Record, revision uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.records[key], b.revision
}

// Appends returns the number of calls of Append.
func (b *Backend) Appends() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.appends
}

// Err returns which rules of the contract of store.Backend the store broke; nil if none.
func (b *Backend) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, what := range b.broken {
		errs = append(errs, errors.New(what))
	}
	return errors.Join(errs...)
}
