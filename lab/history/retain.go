package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/durable"
)

const (
	// Folder is the name of a history in the data directory of a control plane.
	Folder = "history"

	segmentSuffix = ".history"
	segmentDigits = 20 // so that names sort by revision
	unfinished    = ".new"
	segmentBytes  = 1 << 30 // at most, without Limits.Bytes
	// perLimit is the number of files into which a limit is divided, so that each removal frees an
	// eighth of the limit.
	perLimit = 8

	flushAfter     = 50 * time.Millisecond // time after a write until readers of the files see it
	syncEvery      = time.Second
	boundEvery     = time.Minute // interval of checks while no client writes
	maxQueued      = 64 << 20    // maximum bytes of objects that wait to be written
	minLimitsBytes = 1 << 20
	minLimitsAge   = time.Minute
)

// Limits bound what a Retainer keeps. A zero field sets no bound.
type Limits struct {
	// Age is the minimum time for which versions are kept. The Retainer removes them when they are
	// an eighth older.
	Age time.Duration
	// Bytes is the maximum total size of the files. The newest file, which has the whole state and
	// later versions, is kept even if it is larger.
	Bytes int64
}

// RetainerConfig configures a Retainer.
type RetainerConfig struct {
	Limits Limits
	// Describe returns a History's description of a resource (deployments.apps), such as its short
	// names. If it is nil or returns false, the Retainer derives it from the first object.
	Describe func(resource string) (Resource, bool)
	// Log receives messages about repairs and gaps that a start finds, and about the error that
	// ended recording; nil means slog.Default().
	Log *slog.Logger
}

// Retainer keeps every version of every object that a control plane writes, in a directory. It sits
// between the store and its Backend:
//
//	retainer := history.NewRetainer(filepath.Join(dir, history.Folder), history.RetainerConfig{})
//	backend, err := disk.OpenWith(dir, disk.Options{KeepAfter: retainer.Durable})
//	…
//	s, err := store.Open(store.Config{Backend: retainer.Backend(backend)})
//
// Writes do not wait for the history. Its goroutine writes them to the file within 50 ms, and makes
// them durable once a second. After a crash, it reads missing versions from the log of the Backend,
// which keeps them until then. These versions have the time of the last write before the crash. So
// no acknowledged version is lost.
//
// If the history can't be written, for example because the disk is full, the Retainer logs an error
// and ends; the control plane continues. The log of the Backend then grows until the next start,
// which adds what is missing.
type Retainer struct {
	dir   string
	cfg   RetainerConfig
	inner store.Backend

	mu      sync.Mutex
	space   sync.Cond // signalled when queued shrinks
	queue   []queued
	queued  int // bytes
	durable uint64
	ended   bool // the goroutine has ended, or has never begun

	wake   chan struct{} // has capacity 1
	closed chan struct{}
	done   chan struct{} // closed when the goroutine has ended

	// Load uses the fields below; afterwards, only the goroutine does.
	file    *os.File
	w       *Writer
	began   time.Time // of the segment
	base    int64     // its size with the state at its start
	older   []segment // in the order of revisions
	written uint64    // newest revision given to w
	names   names
}

type queued struct {
	store.Record
	at time.Time
}

// segment is a file that is complete.
type segment struct {
	name string
	size int64
	end  time.Time // no version is newer
}

// NewRetainer returns a Retainer that keeps a history in a directory, which it creates if
// necessary. It reads and writes nothing before the store loads its Backend.
func NewRetainer(dir string, cfg RetainerConfig) *Retainer {
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	r := &Retainer{dir: dir, cfg: cfg, ended: true, names: names{describe: cfg.Describe, custom: map[string]Resource{}},
		wake: make(chan struct{}, 1), closed: make(chan struct{}), done: make(chan struct{})}
	r.space.L = &r.mu
	return r
}

// Durable returns the revision up to which the history is durable. Later writes must remain in the
// log of the Backend.
func (r *Retainer) Durable() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.durable
}

// Backend returns a Backend that passes all calls to another one and keeps a history of the writes.
// For nil, it returns the Backend of a store in memory, whose history begins with the store. It
// must be called once. Closing the result makes the history durable.
func (r *Retainer) Backend(inner store.Backend) store.Backend {
	if r.inner = inner; inner == nil {
		r.inner = memory{}
	}
	return &retained{r}
}

// replayer is a Backend that can repeat its log; see disk.Backend.
type replayer interface {
	Replay(after uint64, each func(store.Record, time.Time) error) (complete bool, err error)
}

// segments returns the files of a history in the order of their revisions.
func segments(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries { // sorted by name
		digits, ok := strings.CutSuffix(e.Name(), segmentSuffix)
		if _, err := strconv.ParseUint(digits, 10, 64); ok && err == nil && len(digits) == segmentDigits {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names, nil
}

// load opens the history and adds versions until it matches the state of the Backend.
func (r *Retainer) load(each func(store.Record) error) (revision uint64, err error) {
	if err := r.open(); err != nil {
		return 0, err
	}
	var state []store.Record
	revision, err = r.inner.Load(func(rec store.Record) error {
		state = append(state, rec)
		return each(rec)
	})
	if err != nil {
		return 0, err
	}
	if err := r.catchUp(revision, state); err != nil {
		return 0, fmt.Errorf("history %s: %w", r.dir, err)
	}
	r.mu.Lock()
	r.ended = false
	r.mu.Unlock()
	go r.run()
	return max(revision, r.written), nil
}

// open opens the newest file, if it exists, to continue it.
func (r *Retainer) open() error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	names, err := segments(r.dir)
	if err != nil {
		return err
	}
	for i, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if i < len(names)-1 {
			r.older = append(r.older, segment{name, info.Size(), info.ModTime()})
			continue
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		w, err := Resume(f)
		if err != nil {
			r.cfg.Log.Error("the newest file of the history is damaged; beginning another one", "file", name, "err",
				err)
			r.older = append(r.older, segment{name, info.Size(), info.ModTime()})
			return f.Close()
		}
		r.file, r.w, r.began, r.base = f, w, time.Unix(0, w.began), 0
		r.w.keeps = true
		r.durable, _ = w.Newest()
		r.written = r.durable
	}
	return nil
}

// catchUp adds versions that the history lacks: from the log of the Backend or, if the log does not
// have them, from its state.
func (r *Retainer) catchUp(revision uint64, state []store.Record) error {
	now := time.Now()
	for _, rec := range state {
		r.names.learn(Key(rec.Key), rec.Data)
	}
	if r.w == nil {
		slices.SortFunc(state, func(a, b store.Record) int { return cmp.Compare(a.Revision, b.Revision) })
		return r.begin(max(revision, 1), now, func(w *Writer) error {
			for _, rec := range state {
				if err := r.put(w, rec, now); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if r.written > revision {
		r.cfg.Log.Error("the history has writes that the state lost", "directory", r.dir, "state", revision, "history",
			r.written)
	}
	before, complete, recovered := r.written, r.written >= revision, 0
	if log, ok := r.inner.(replayer); ok && !complete {
		var err error
		complete, err = log.Replay(r.written, func(rec store.Record, at time.Time) error {
			recovered++
			return r.put(r.w, rec, at)
		})
		if err != nil {
			return err
		}
	}
	missed := 0
	exist := make(map[Key]bool, len(state))
	for _, rec := range state {
		key := Key(rec.Key)
		exist[key] = true
		if o := r.w.objects[key]; o == nil || o.revision < rec.Revision {
			missed++
			if err := r.put(r.w, rec, now); err != nil {
				return err
			}
		} else if o.data == nil && !o.deleted {
			o.data, o.chain = rec.Data, maxChain
		}
	}
	for key, o := range r.w.objects {
		if !o.deleted && !exist[key] {
			missed++
			if err := r.w.Delete(key, max(revision, o.revision+1), now); err != nil {
				return err
			}
		}
	}
	switch {
	case !complete || missed > 0:
		r.cfg.Log.Warn("the history lacks versions that were written without --history", "directory", r.dir, "after",
			before, "until", revision)
	case recovered > 0:
		r.cfg.Log.Info("added versions from the log to the history", "directory", r.dir, "versions", recovered)
	}
	return r.sync()
}

// put adds a write of the store.
func (r *Retainer) put(w *Writer, rec store.Record, at time.Time) error {
	key := Key(rec.Key)
	r.written = max(r.written, rec.Revision)
	r.names.learn(key, rec.Data)
	if rec.Data == nil {
		return w.Delete(key, rec.Revision, at)
	}
	if w.resources[key.Resource] == nil {
		if err := w.Resource(r.names.resource(rec)); err != nil {
			return err
		}
	}
	return w.Put(key, rec.Revision, at, rec.Data)
}

// begin begins a file with a state.
func (r *Retainer) begin(revision uint64, now time.Time, state func(*Writer) error) (err error) {
	name := filepath.Join(r.dir, fmt.Sprintf("%0*d%s", segmentDigits, revision, segmentSuffix))
	f, err := os.OpenFile(name+unfinished, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	w, err := Resume(f)
	if err != nil {
		return err
	}
	w.keeps = true
	if err := state(w); err != nil {
		return err
	}
	if err := errors.Join(w.Start(revision, now), w.Flush()); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(name+unfinished, name); err != nil {
		return err
	}
	if err := durable.Folder(r.dir); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r.file, r.w, r.began, r.base, r.written = f, w, now, info.Size(), max(r.written, revision)
	r.setDurable(r.written)
	return nil
}

func (r *Retainer) setDurable(revision uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.durable = max(r.durable, revision)
}

// sync makes all versions durable that were put.
func (r *Retainer) sync() error {
	if err := r.w.Flush(); err != nil {
		return err
	}
	if err := r.file.Sync(); err != nil {
		return err
	}
	r.setDurable(r.written)
	return nil
}

// run writes the queue until the Retainer is closed or can't write.
func (r *Retainer) run() {
	defer close(r.done)
	err := r.write()
	r.mu.Lock()
	r.ended, r.queue, r.queued = true, nil, 0
	r.space.Broadcast()
	r.mu.Unlock()
	if err != nil {
		r.cfg.Log.Error("the history could not be written and ends; a restart continues it from the log", "directory",
			r.dir, "err", err)
	}
	_ = r.file.Close() // everything was synced, or err has the reason
}

func (r *Retainer) write() error {
	var flush, due <-chan time.Time // nil while everything is flushed, or durable
	idle := time.NewTicker(boundEvery)
	defer idle.Stop()
	var spare []queued
	for {
		closing := false
		select {
		case <-r.wake:
		case <-flush:
			flush = nil
			if err := r.w.Flush(); err != nil {
				return err
			}
			continue
		case <-due:
			due = nil
			if err := errors.Join(r.sync(), r.bound()); err != nil {
				return err
			}
			continue
		case <-idle.C:
			if err := r.bound(); err != nil {
				return err
			}
			continue
		case <-r.closed:
			closing = true
		}
		r.mu.Lock()
		batch := r.queue
		r.queue, r.queued = spare[:0], 0
		r.space.Broadcast()
		r.mu.Unlock()
		for _, q := range batch {
			if err := r.put(r.w, q.Record, q.at); err != nil {
				return err
			}
		}
		if len(batch) > 0 && flush == nil {
			flush = time.After(flushAfter)
		}
		if len(batch) > 0 && due == nil {
			due = time.After(syncEvery)
		}
		clear(batch)
		spare = batch
		if closing {
			return r.sync()
		}
	}
}

// bound begins another file if the newest one is large or old enough, and removes files beyond the
// limits.
func (r *Retainer) bound() error {
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	limits, now, size := r.cfg.Limits, time.Now(), info.Size()
	most := int64(segmentBytes)
	if limits.Bytes > 0 {
		most = min(most, limits.Bytes/perLimit)
	}
	full := size > most && size > 2*r.base
	if old := limits.Age > 0 && now.Sub(r.began) > limits.Age/perLimit; full || old {
		last := segment{r.file.Name(), size, now}
		last.name = strings.TrimSuffix(last.name, unfinished)
		file, w := r.file, r.w
		if err := r.begin(r.written, now, w.copyTo); err != nil {
			return err
		}
		r.older = append(r.older, last)
		// The age of a file is that of its newest version.
		if err := errors.Join(os.Chtimes(last.name, now, now), file.Close()); err != nil {
			return err
		}
		size = r.base
	}
	for _, s := range r.older {
		size += s.size
	}
	for len(r.older) > 0 && (limits.Bytes > 0 && size > limits.Bytes ||
		limits.Age > 0 && now.Sub(r.older[0].end) > limits.Age) {
		if err := os.Remove(r.older[0].name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		size -= r.older[0].size
		r.older = r.older[1:]
	}
	return nil
}

// copyTo puts the newest version of every existing object in another Writer.
func (w *Writer) copyTo(to *Writer) error {
	for _, name := range slices.Sorted(maps.Keys(w.described)) {
		if err := to.Resource(w.described[name]); err != nil {
			return err
		}
	}
	type state struct {
		key Key
		o   *objectWriter
	}
	var all []state
	for key, o := range w.objects {
		if !o.deleted {
			all = append(all, state{key, o})
		}
	}
	slices.SortFunc(all, func(a, b state) int { return cmp.Compare(a.o.revision, b.o.revision) })
	for _, s := range all {
		if err := to.Put(s.key, s.o.revision, time.Unix(0, s.o.time), s.o.data); err != nil {
			return err
		}
	}
	return nil
}

// retained is the Backend of a Retainer.
type retained struct{ r *Retainer }

var _ interface {
	store.Backend
	store.Recoverer
	store.Measured
} = (*retained)(nil)

func (b *retained) Load(each func(store.Record) error) (uint64, error) { return b.r.load(each) }

func (b *retained) Append(records []store.Record) error {
	if err := b.r.inner.Append(records); err != nil {
		return err
	}
	r, now := b.r, time.Now()
	r.mu.Lock()
	for r.queued > maxQueued && !r.ended {
		r.space.Wait()
	}
	if !r.ended {
		for _, rec := range records {
			r.queue = append(r.queue, queued{rec, now})
			r.queued += len(rec.Data)
		}
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return nil
}

func (b *retained) Checkpoint() func(context.Context, iter.Seq[store.Record]) error {
	return b.r.inner.Checkpoint()
}

func (b *retained) Recover() error {
	if inner, ok := b.r.inner.(store.Recoverer); ok {
		return inner.Recover()
	}
	return store.ErrNotWritten
}

func (b *retained) Stats() store.BackendStats {
	if inner, ok := b.r.inner.(store.Measured); ok {
		return inner.Stats()
	}
	return store.BackendStats{}
}

// Close ends the goroutine after it has written everything. The Backend closes last, so that its
// lock also protects the history.
func (b *retained) Close() error {
	r := b.r
	close(r.closed)
	r.mu.Lock()
	began := !r.ended
	r.mu.Unlock()
	if began {
		<-r.done
	} else if r.file != nil {
		_ = r.file.Close() // nothing was written, or run closed it
	}
	return r.inner.Close()
}

// memory is the Backend of a store in memory.
type memory struct{}

func (memory) Load(func(store.Record) error) (uint64, error)                   { return 0, nil }
func (memory) Append([]store.Record) error                                     { return nil }
func (memory) Checkpoint() func(context.Context, iter.Seq[store.Record]) error { return nil }
func (memory) Close() error                                                    { return nil }
