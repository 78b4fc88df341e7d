package audit

import (
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// file is a log that is rotated by size:
//
//	audit.log                                the current file
//	audit-2026-01-02T15-04-05.000.log        rotated files, with the time of their rotation (UTC)
//	audit-2026-01-02T15-04-05.000.log.gz
//
// An event is never split between files. A background goroutine compresses and deletes rotated
// files.
type file struct {
	cfg  Log
	warn func(error)

	mu    sync.Mutex
	out   *os.File
	size  int64
	tidy  sync.Mutex // serializes tidyUp
	tasks sync.WaitGroup
}

const (
	stampFormat = "2006-01-02T15-04-05.000"
	megabyte    = 1 << 20
)

func openFile(cfg Log, log *slog.Logger) (*file, error) {
	f := &file{cfg: cfg, warn: func(err error) { log.Error("clean up rotated audit logs", "err", err) }}
	if err := os.MkdirAll(filepath.Dir(cfg.Path), 0o700); err != nil {
		return nil, err
	}
	return f, f.open()
}

func (f *file) open() error {
	out, err := os.OpenFile(f.cfg.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := out.Stat()
	if err != nil {
		out.Close()
		return err
	}
	f.out, f.size = out, info.Size()
	return nil
}

// Write appends one event. It rotates the file first if the event would make it too large.
func (f *file) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.out == nil {
		return 0, fs.ErrClosed
	}
	if limit := int64(f.cfg.MaxSize) * megabyte; limit > 0 && f.size > 0 && f.size+int64(len(p)) > limit {
		if err := f.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := f.out.Write(p)
	if err != nil && n > 0 && f.out.Truncate(f.size) == nil {
		n = 0 // a partial event would corrupt the next one
	}
	f.size += int64(n)
	return n, err
}

// rotate renames the current file and opens a new one. If that fails, the current file stays in
// use.
func (f *file) rotate() error {
	now := time.Now().UTC()
	// The clock can go backwards. Names must still sort by the order of rotation, because tidyUp
	// deletes the oldest files first.
	if names, err := f.old(); err == nil && len(names) > 0 {
		if newest, _ := f.stamp(names[0]); !now.After(newest) {
			now = newest.Add(time.Millisecond)
		}
	}
	rotated := f.name(now)
	for exists(rotated) || exists(rotated+".gz") {
		now = now.Add(time.Millisecond)
		rotated = f.name(now)
	}
	if err := os.Rename(f.cfg.Path, rotated); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	old := f.out
	if err := f.open(); err != nil {
		return err
	}
	_ = old.Close() // everything is written already
	f.tasks.Go(func() {
		if err := f.tidyUp(); err != nil {
			f.warn(err)
		}
	})
	return nil
}

func (f *file) name(when time.Time) string {
	ext := filepath.Ext(f.cfg.Path)
	return strings.TrimSuffix(f.cfg.Path, ext) + "-" + when.Format(stampFormat) + ext
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// tidyUp deletes rotated files beyond the limits of number and age, and compresses the others.
func (f *file) tidyUp() error {
	f.tidy.Lock()
	defer f.tidy.Unlock()
	names, err := f.old()
	if err != nil {
		return err
	}
	var errs []error
	for i, name := range names { // newest first
		stamp, _ := f.stamp(name)
		expired := f.cfg.MaxAge > 0 && time.Since(stamp) > time.Duration(f.cfg.MaxAge)*24*time.Hour
		path := filepath.Join(filepath.Dir(f.cfg.Path), name)
		switch {
		case expired, f.cfg.MaxBackups > 0 && i >= f.cfg.MaxBackups:
			errs = append(errs, os.Remove(path))
		case f.cfg.Compress && !strings.HasSuffix(name, ".gz"):
			errs = append(errs, compress(path))
		}
	}
	return errors.Join(errs...)
}

// old lists the rotated files, newest first.
func (f *file) old() ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(f.cfg.Path))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if _, ok := f.stamp(e.Name()); ok && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(b, a) })
	return names, nil
}

// stamp returns the time of rotation in the name of a file.
func (f *file) stamp(name string) (time.Time, bool) {
	base := filepath.Base(f.cfg.Path)
	ext := filepath.Ext(base)
	rest, ok := strings.CutPrefix(strings.TrimSuffix(name, ".gz"), strings.TrimSuffix(base, ext)+"-")
	if !ok {
		return time.Time{}, false
	}
	rest, ok = strings.CutSuffix(rest, ext)
	when, err := time.Parse(stampFormat, rest)
	return when, ok && err == nil
}

// compress replaces a file by a compressed one atomically.
func compress(name string) (err error) {
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	const unfinished = ".gz.new"
	out, err := os.OpenFile(name+unfinished, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	zip := gzip.NewWriter(out)
	_, err = io.Copy(zip, in)
	err = errors.Join(err, zip.Close())
	if err == nil {
		err = out.Sync() // the events must not get lost with the file that is removed
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Rename(name+unfinished, name+".gz")
	}
	if err != nil {
		return errors.Join(err, os.Remove(name+unfinished))
	}
	return os.Remove(name)
}

// Close waits for background work on rotated files and closes the file.
func (f *file) Close() error {
	f.mu.Lock()
	out := f.out
	f.out = nil
	f.mu.Unlock()
	f.tasks.Wait()
	if out == nil {
		return nil
	}
	return out.Close()
}

// serialWriter writes one event at a time, so that events of concurrent requests do not mix.
type serialWriter struct {
	mu     sync.Mutex
	out    io.Writer
	losses losses
}

func (w *serialWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.out.Write(p)
	w.losses.note(1, err)
	return n, err
}
