// Package disk keeps a store in a directory on local disk: as a log of what was written, and now and then the whole state.
//
//	lock                          who has the directory
//	<revision>.state              the state at that revision (package archive)
//	<revision>.log                what was written after that revision, up to where the next one begins
//	mark                          which revision was acknowledged last, as of a second ago
//
// Every batch of writes is one frame at the end of the newest log, written by one call and synced before it is acknowledged. Small ones go over zeros that
// were written ahead, so that a sync has no metadata to write. When the
// logs have grown as large as the state, and 64 MiB at least, a new log begins and the state is written anew beside it, while writes go
// on; what it makes superfluous is then removed. So a start reads at most twice the state, and a write is written about twice.
//
// After a crash the last frame may be torn: it was not acknowledged, and is cut off. Anything else that is not as it was written (a
// frame that is bad with a good one behind it, a file that is missing, a state that does not fit its checksums) fails closed: nothing is
// loaded, nothing is changed, and the error names file and place.
//
// An end that is missing as a whole (a log that was cut between two frames, or whose file is gone) looks like an earlier state. The mark shows it: a
// start then continues with what is there, reports how much is missing, and gives no revision again that was acknowledged.
//
// If there is no space for a frame, the log is cut behind the last one that was acknowledged, and synced. Then it is certain that nothing of the
// new one remains, and writing can go on as soon as there is space. After an error of a sync nothing is certain, whatever the file shows: the
// operating system may have dropped what it could not write. Then nothing is written until the next start.
//
// One process at a time uses a directory; a second one gets [store.ErrLocked] at once.
//
//	backend, err := disk.Open(dir)
//	…
//	s, err := store.Open(store.Config{Backend: backend})
package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"kelson.dev/apiserver/internal/histogram"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
)

// Options say how to keep a store.
type Options struct {
	// NoSync leaves it to the operating system when writes reach the disk: a crash of the machine may lose what was acknowledged, and
	// may leave what can't be opened any more.
	NoSync bool
	// CheckpointBytes is how large the logs grow at least before the state is written anew; 0 means 64 MiB.
	CheckpointBytes int64
	// Log receives what a start cut off or misses; nil: the default logger.
	Log *slog.Logger

	files   fileSystem    // tests have one that loses, tears and fails
	reserve int64         // of a log at once
	mark    time.Duration // how long a write may be without the mark
}

const defaultCheckpointBytes = 64 << 20

// Backend is a [store.Backend] over a directory.
type Backend struct {
	dir  string
	opts Options
	fs   fileSystem
	lock io.Closer

	// The committer's.
	log      *logWriter // nil: none was begun yet
	revision uint64     // the newest in the files
	loaded   bool
	marker   marker

	logged        int64 // bytes in logs since the state
	wanted        bool  // the state is to be written anew however little was logged
	stateSize     atomic.Int64
	checkpointing atomic.Bool

	syncs    histogram.Histogram
	logBytes atomic.Int64 // logged, for Stats
}

// Stats implements [store.Measured].
func (b *Backend) Stats() store.BackendStats {
	return store.BackendStats{Disk: &store.DiskStats{LogBytes: b.logBytes.Load(), Syncs: b.syncs.Read()}}
}

// Open opens the store in a directory and locks it. What is missing is made, for the user alone: the directory and those above it
// (mode 0700), and its files (0600). [store.ErrLocked], without waiting, when another Backend has it open, in this process or another.
func Open(dir string) (store.Backend, error) { return OpenWith(dir, Options{}) }

// OpenWith is Open with options.
func OpenWith(dir string, opts Options) (store.Backend, error) {
	if opts.files == nil {
		opts.files = osFiles{}
	}
	if opts.CheckpointBytes <= 0 {
		opts.CheckpointBytes = defaultCheckpointBytes
	}
	if opts.reserve == 0 {
		opts.reserve = reserveBytes
	}
	if opts.mark == 0 {
		opts.mark = markEvery
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	b := &Backend{dir: dir, opts: opts, fs: opts.files, marker: marker{files: opts.files, dir: dir, every: opts.mark}}
	if err := b.fs.MakeDir(dir); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	var err error
	if b.lock, err = b.fs.Lock(b.path(lockName)); err != nil {
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	if err := b.upgrade(); err != nil {
		b.lock.Close()
		return nil, fmt.Errorf("upgrade data directory %s: %w", dir, err)
	}
	return b, nil
}

// Load implements [store.Backend]. The revision is the acknowledged one where the logs end before it.
func (b *Backend) Load(each func(store.Record) error) (uint64, error) {
	l, err := list(b.fs, b.dir)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", b.dir, err)
	}
	found, err := l.read(each)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", b.dir, err)
	}
	last, err := readMark(b.fs, b.dir)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", b.dir, err)
	}
	if err := l.clean(found); err != nil {
		return 0, fmt.Errorf("clean %s: %w", b.dir, err)
	}
	if found.torn != "" {
		b.opts.Log.Warn("the end of the log was unfinished and is cut off", "directory", b.dir, "file", found.torn, "bytes", found.cut, "revision", found.revision)
	}
	if missing := last.missing(found.revision); missing != "" {
		b.opts.Log.Error(missing, "directory", b.dir)
	}
	b.revision, b.logged, b.loaded = found.revision, found.logged, true
	b.logBytes.Store(b.logged)
	b.stateSize.Store(found.stateSize)
	b.marker.newest = max(b.revision, last.revision)
	return b.marker.newest, nil
}

var errNotLoaded = errors.New("written to before it was loaded")

// Append implements [store.Backend].
func (b *Backend) Append(records []store.Record) error {
	if len(records) == 0 {
		return nil
	}
	if !b.loaded {
		return fmt.Errorf("write %s: %w", b.dir, errNotLoaded)
	}
	if err := b.begin(); err != nil {
		return err
	}
	n, err := b.log.append(records)
	if err != nil {
		return b.refused(err)
	}
	b.logged += int64(n)
	b.logBytes.Store(b.logged)
	b.revision = records[len(records)-1].Revision
	b.marker.note(b.revision)
	return nil
}

// begin begins a log if there is none.
func (b *Backend) begin() error {
	if b.log != nil {
		return nil
	}
	log, err := newLog(b.fs, b.dir, b.revision, b.opts)
	if err != nil {
		return b.refused(err)
	}
	b.log = log
	b.log.syncs = &b.syncs
	return nil
}

// refused makes the error of an Append: store.ErrFull where it is certain that nothing of it remains.
func (b *Backend) refused(err error) error {
	if errors.Is(err, errCertain) {
		return fmt.Errorf("write %s: %w: %w", b.dir, store.ErrFull, err)
	}
	return fmt.Errorf("write %s: %w", b.dir, err)
}

// Recover implements [store.Recoverer]. There is room when a log's reserve can be written.
func (b *Backend) Recover() error {
	if err := b.begin(); err != nil {
		return err
	}
	if err := b.log.try(); err != nil {
		return b.refused(err)
	}
	return nil
}

// WantCheckpoint makes the state be written anew after the next write.
func (b *Backend) WantCheckpoint() { b.wanted = true }

// Checkpoint implements [store.Backend].
func (b *Backend) Checkpoint() func(context.Context, iter.Seq[store.Record]) error {
	if !b.wanted && b.logged < max(b.opts.CheckpointBytes, b.stateSize.Load()) || b.checkpointing.Load() {
		return nil
	}
	b.wanted = false
	// What was written is synced; the next write begins a new log.
	if b.log != nil {
		b.log.file.Close()
		b.log = nil
	}
	before := b.logged
	b.logged = 0
	b.logBytes.Store(0)
	b.checkpointing.Store(true)
	revision := b.revision
	return func(ctx context.Context, records iter.Seq[store.Record]) error {
		defer b.checkpointing.Store(false)
		size, err := writeState(ctx, b.fs, b.dir, revision, records)
		if err != nil {
			// The logs are still there. It is tried again when they have grown as much once more.
			return fmt.Errorf("write the state of %s after %d bytes of logs: %w", b.dir, before, err)
		}
		b.stateSize.Store(size)
		l, err := list(b.fs, b.dir)
		if err != nil {
			return fmt.Errorf("clean %s: %w", b.dir, err)
		}
		return l.removeBefore(revision)
	}
}

// Close implements [store.Backend].
func (b *Backend) Close() error {
	var err error
	if b.log != nil {
		err = b.log.close()
		b.log = nil
	}
	b.marker.close()
	if err = errors.Join(err, b.lock.Close()); err != nil {
		return fmt.Errorf("close %s: %w", b.dir, err)
	}
	return nil
}

// writeState writes a state under another name and moves it into place: one that is there is whole.
func writeState(ctx context.Context, files fileSystem, dir string, revision uint64, records iter.Seq[store.Record]) (size int64, err error) {
	name := join(dir, fileName(revision, stateSuffix))
	temporary := name + newSuffix
	if err := files.Remove(temporary); err != nil && !errors.Is(err, errNotThere) {
		return 0, err
	}
	f, err := files.Create(temporary)
	if err != nil {
		return 0, err
	}
	counted := &counter{to: f}
	err = archive.Write(ctx, counted, revision, records)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = files.Rename(temporary, name)
	}
	if err == nil {
		err = files.SyncDir(dir)
	}
	if err != nil {
		return 0, errors.Join(err, ignoreMissing(files.Remove(temporary)))
	}
	return counted.n, nil
}

// counter counts what passes.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}

// Restore makes a data directory of a backup, as archive.Write makes one. The directory must not have a store yet. Its revision is that of
// the backup, and as many more as ahead says: revisions that were given after the backup must not be given again, for clients that know
// them would be shown other writes, or none. So they are told to begin anew.
func Restore(dir string, backup io.Reader, ahead uint64) (err error) {
	b, err := OpenWith(dir, Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	disk := b.(*Backend)
	switch l, err := list(disk.fs, dir); {
	case err != nil:
		return err
	case len(l.states)+len(l.logs) > 0:
		return fmt.Errorf("restore to %s: there is a store already", dir)
	}
	var records []store.Record
	revision, err := archive.Read(backup, func(r store.Record) error {
		records = append(records, r)
		_, err := store.CheckRecord(r)
		return err
	})
	if err != nil {
		return fmt.Errorf("read backup: %w", err)
	}
	err = ignoreMissing(disk.fs.Remove(disk.path(markName))) // of a state that was here before
	if err == nil {
		_, err = writeState(context.Background(), disk.fs, dir, revision+ahead, slices.Values(records))
	}
	if err != nil {
		return fmt.Errorf("restore to %s: %w", dir, err)
	}
	return nil
}
