// Package disk is a [store.Backend] in a directory on local disk. It keeps a log of writes and,
// from time to time, writes the whole state.
//
//	lock                          locked by the process that uses the directory
//	<revision>.state              the state at that revision (package archive)
//	<revision>.log                writes after that revision, up to the beginning of the next log
//	mark                          the newest acknowledged revision, at most a second old
//
// Every batch of writes is one frame at the end of the newest log. It is written by one system call
// and synced before it is acknowledged. Small frames overwrite zeros that were written in advance,
// so that a sync has no file metadata to write.
//
// When the logs have grown as large as the state, and to at least 64 MiB, a checkpoint begins: new
// writes go to a new log, and the state is written in the background. Afterwards the files that the
// state replaces are removed. So a start reads at most twice the size of the state, and every write
// reaches the disk about twice.
//
// After a crash the last frame may be torn. It was not acknowledged, and the next start removes it.
// Any other damage (an invalid frame before a valid one, a missing file, a state with wrong
// checksums) fails closed: Load loads nothing and changes nothing, and its error names the file and
// the offset.
//
// A log that lost its end entirely (truncated between two frames, or the file is gone) looks like
// an earlier state. The mark detects that. A start then continues with the remaining writes,
// reports how many revisions are missing, and never assigns an acknowledged revision again.
//
// If there is no space for a frame, the log is truncated after the last acknowledged frame and
// synced. Then no part of the new frame remains, and writes succeed again as soon as there is
// space. After a failed sync the content on disk is unknown, even if reads return the expected
// data, because the operating system may have dropped pages that it could not write. The store then
// accepts no writes until the next start.
//
// Only one process can use a directory; a second one gets [store.ErrLocked] immediately.
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

// Options configure a Backend.
type Options struct {
	// NoSync lets the operating system decide when writes reach the disk. A crash of the machine
	// may then lose acknowledged writes, or leave a directory that can't be opened.
	NoSync bool
	// CheckpointBytes is the minimum size of the logs for a checkpoint; 0 means 64 MiB.
	CheckpointBytes int64
	// KeepAfter returns a revision: logs with later writes are kept for Replay, even if a state
	// includes them. It is called concurrently with other methods. nil keeps none.
	KeepAfter func() uint64
	// Log receives messages about incomplete writes that a start removes and about missing writes;
	// nil means slog.Default().
	Log *slog.Logger

	files   fileSystem    // replaced by tests that inject faults
	reserve int64         // bytes that a log reserves at once
	mark    time.Duration // maximum age of the mark
}

const defaultCheckpointBytes = 64 << 20

// Backend is a [store.Backend] over a directory.
type Backend struct {
	dir  string
	opts Options
	fs   fileSystem
	lock io.Closer

	// Used only by the committer.
	log      *logWriter // nil: the next write creates one
	failure  error      // that of creating a log, if its outcome is unknown: then all writes fail
	revision uint64     // the newest revision in the files
	loaded   bool
	marker   marker

	logged        int64 // bytes in the logs since the state
	wanted        bool  // the next write starts a checkpoint
	stateSize     atomic.Int64
	checkpointing atomic.Bool

	syncs    histogram.Histogram
	logBytes atomic.Int64 // logged, for Stats
}

// Stats implements [store.Measured].
func (b *Backend) Stats() store.BackendStats {
	return store.BackendStats{Disk: &store.DiskStats{LogBytes: b.logBytes.Load(), Syncs: b.syncs.Read()}}
}

// Open opens the store in a directory and locks it. It creates what is missing, accessible only to
// the user: the directory and its parents (mode 0700), and files (0600). It returns
// [store.ErrLocked] immediately if another Backend, in this process or another, has the directory
// open.
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
		return nil, fmt.Errorf("create data directory: %w", err)
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

// Load implements [store.Backend]. It returns the newest acknowledged revision, even if the logs
// end before it.
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
	if err := l.clean(found, b.opts.KeepAfter); err != nil {
		return 0, fmt.Errorf("clean %s: %w", b.dir, err)
	}
	if found.torn != "" {
		b.opts.Log.Warn("removed an incomplete write from the end of the log", "directory", b.dir, "file", found.torn,
			"bytes", found.cut, "revision", found.revision)
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

var errNotLoaded = errors.New("write before load")

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
	b.marker.acknowledged(b.revision)
	return nil
}

// begin creates a log if there is none.
func (b *Backend) begin() error {
	if b.log != nil || b.failure != nil {
		return b.failure
	}
	log, err := newLog(b.fs, b.dir, b.revision, b.opts)
	if err != nil {
		if err = b.refused(err); !errors.Is(err, store.ErrNotWritten) {
			b.failure = err
		}
		return err
	}
	b.log = log
	b.log.syncs = &b.syncs
	return nil
}

// refused returns the error of an Append: if no part of the write remains, store.ErrFull, or
// store.ErrNotWritten if the cause is not missing space.
func (b *Backend) refused(err error) error {
	switch {
	case !errors.Is(err, errCertain): // or an ErrNotWritten already
		return fmt.Errorf("write %s: %w", b.dir, err)
	case isFull(err):
		return fmt.Errorf("write %s: %w: %w", b.dir, store.ErrFull, err)
	}
	return fmt.Errorf("write %s: %w: %w", b.dir, store.ErrNotWritten, err)
}

// Recover implements [store.Recoverer]. It succeeds if there is space for the reserve of a log.
func (b *Backend) Recover() error {
	if err := b.begin(); err != nil {
		return err
	}
	if err := b.log.try(); err != nil {
		return b.refused(err)
	}
	return nil
}

// WantCheckpoint requests a checkpoint after the next write.
func (b *Backend) WantCheckpoint() { b.wanted = true }

// Checkpoint implements [store.Backend].
func (b *Backend) Checkpoint() func(context.Context, iter.Seq[store.Record]) error {
	if !b.wanted && b.logged < max(b.opts.CheckpointBytes, b.stateSize.Load()) || b.checkpointing.Load() {
		return nil
	}
	b.wanted = false
	before := b.logged
	b.logged = 0
	b.logBytes.Store(0)
	revision := b.revision
	old := b.log
	b.log = nil
	switch err := b.begin(); {
	case errors.Is(err, store.ErrNotWritten):
		// No new log was created, so writes continue in the old one. The error below makes the
		// store try again later.
		b.log = old
		fallthrough
	case err != nil:
		return func(context.Context, iter.Seq[store.Record]) error { return err }
	}
	old.file.Close() // it is synced
	b.checkpointing.Store(true)
	return func(ctx context.Context, records iter.Seq[store.Record]) error {
		defer b.checkpointing.Store(false)
		size, err := writeState(ctx, b.fs, b.dir, revision, records)
		if err != nil {
			// The logs still have all writes. The next attempt follows when they have grown by as
			// much again.
			return fmt.Errorf("write state to %s after %d bytes of logs: %w", b.dir, before, err)
		}
		b.stateSize.Store(size)
		l, err := list(b.fs, b.dir)
		if err != nil {
			return fmt.Errorf("clean %s: %w", b.dir, err)
		}
		return l.removeBefore(revision, b.opts.KeepAfter)
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

// writeState writes a state under a temporary name and then renames it, so that a file with the
// final name is complete.
func writeState(ctx context.Context, files fileSystem, dir string, revision uint64,
	records iter.Seq[store.Record]) (size int64, err error) {
	name := join(dir, fileName(revision, stateSuffix))
	temporary := name + newSuffix
	if err := files.Remove(temporary); err != nil && !errors.Is(err, errNotExist) {
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
		err = syncDir(files, dir)
	}
	if err != nil {
		return 0, errors.Join(err, ignoreMissing(files.Remove(temporary)))
	}
	return counted.n, nil
}

// counter counts the bytes written through it.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}

// maxRestored is the highest revision of a restored store. As many writes can follow before
// revisions exceed 63 bits, the limit of etcd.
const maxRestored = 1 << 62

// Restore creates a data directory from a backup, as written by archive.Write. The directory must
// not contain a store. The new store's revision is that of the backup plus ahead. Revisions after
// the backup must not be reused: clients that have seen them would miss writes or see different
// ones. With a higher revision they get ErrCompacted and list again.
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
		return fmt.Errorf("restore to %s: the directory already contains a store", dir)
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
	if ahead > maxRestored || revision > maxRestored-ahead {
		return fmt.Errorf("restore to %s: revision %d of the backup and %d more exceed %d", dir, revision, ahead,
			uint64(maxRestored))
	}
	err = ignoreMissing(disk.fs.Remove(disk.path(markName))) // left by a previous store
	if err == nil {
		_, err = writeState(context.Background(), disk.fs, dir, revision+ahead, slices.Values(records))
	}
	if err != nil {
		return fmt.Errorf("restore to %s: %w", dir, err)
	}
	return nil
}
