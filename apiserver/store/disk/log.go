package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"kelson.dev/apiserver/internal/histogram"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
)

// A log is a file of
//
//	header   "KELSONLG" version (4) revision (8) checksum (4)
//	frame    "KLOG" length (4) previous (8) checksum (4) records…
//	…
//	end      "KCLS" newest (8) checksum (4)          when the program ended in order
//	zeros    as many as were reserved for more
//
// Numbers are little-endian. The revision of the header, and previous of the first frame, is the newest one before this log; previous
// of each further frame is the newest of the one before it. The records are as in package archive.
const (
	logTag     = "KELSONLG"
	frameTag   = "KLOG"
	endTag     = "KCLS"
	logVersion = 1

	logHeaderSize = len(logTag) + 16
	frameHead     = len(frameTag) + 16
	endSize       = len(endTag) + 12
	// maxFrame is more than any frame has.
	maxFrame = 1 << 30

	// reserveBytes is how much is reserved at once: the sync after that writes as many zeros, and the next eighty or so need not write metadata of the file.
	reserveBytes = 256 << 10
	// maxReserved is how long a frame may be that is written over zeros. A longer one is of many writers, who share its sync, and has more to write anyway.
	maxReserved = 16 << 10
)

// logWriter appends to a log.
type logWriter struct {
	file     file
	sync     bool
	newest   uint64
	failed   bool // what is at the end, nobody knows
	buf      []byte
	size     int64
	reserve  int64                // how much at once; 0: nothing
	reserved int64                // up to where
	syncs    *histogram.Histogram // nil: nobody asks
}

// newLog begins the log after a revision. It is there for good when the first append has returned.
func newLog(files fileSystem, dir string, revision uint64, opts Options) (*logWriter, error) {
	name := join(dir, fileName(revision, logSuffix))
	f, err := files.Create(name)
	if err != nil {
		return nil, certain(err, nil) // there was no space for its name
	}
	w := &logWriter{file: f, sync: !opts.NoSync, newest: revision, reserve: opts.reserve}
	header := binary.LittleEndian.AppendUint32(nil, logVersion)
	header = binary.LittleEndian.AppendUint64(header, revision)
	w.buf = append(append(w.buf, logTag...), header...)
	w.buf = binary.LittleEndian.AppendUint32(w.buf, archive.Sum(header))
	if _, err = f.Write(w.buf); err != nil {
		return nil, certain(err, errors.Join(f.Close(), files.Remove(name), files.SyncDir(dir)))
	}
	w.size = int64(len(w.buf))
	if w.sync {
		if err = files.SyncDir(dir); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return w, nil
}

// errCertain says that nothing remains of a write that failed.
var errCertain = errors.New("what was written of it is removed")

// certain is the error of a write for which there was no space, and after which undone removed what it left, if it is nil.
func certain(err, undone error) error {
	if undone == nil && isFull(err) {
		return fmt.Errorf("%w: %w", errCertain, err)
	}
	return errors.Join(err, undone)
}

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// append writes a frame and returns its size.
func (w *logWriter) append(records []store.Record) (int, error) {
	buf := append(w.buf[:0], frameTag...)
	buf = append(buf, make([]byte, frameHead-len(frameTag))...)
	for _, r := range records {
		buf = archive.AppendRecord(buf, w.newest, r)
	}
	if len(buf) > maxFrame {
		return 0, fmt.Errorf("a batch of %d bytes is too large", len(buf))
	}
	head := buf[len(frameTag):frameHead]
	binary.LittleEndian.PutUint32(head, uint32(len(buf)-frameHead))
	binary.LittleEndian.PutUint64(head[4:], w.newest)
	binary.LittleEndian.PutUint32(head[12:], archive.Sum(head[:12], buf[frameHead:]))
	if w.buf = buf; cap(buf) > 4<<20 {
		w.buf = nil // a rare one: its memory is not kept
	}
	w.makeRoom(int64(len(buf)))
	if _, err := w.file.Write(buf); err != nil {
		return 0, w.takeBack(err)
	}
	if w.sync {
		start := time.Now()
		err := w.file.Sync()
		w.syncs.Since(start)
		if err != nil {
			w.failed = true
			return 0, err
		}
	}
	w.size += int64(len(buf))
	w.newest = records[len(records)-1].Revision
	return len(buf), nil
}

// takeBack cuts off what a failed write left behind the last frame, and makes that durable.
func (w *logWriter) takeBack(err error) error {
	w.failed = true // until it is certain
	if !isFull(err) {
		return err
	}
	undone := w.file.Rewind(w.size)
	if undone == nil {
		undone = w.file.Sync()
	}
	if err = certain(err, undone); undone == nil {
		w.failed, w.reserved = false, w.size
	}
	return err
}

// try finds out whether there is space, by reserving some where a frame would be.
func (w *logWriter) try() error {
	reserve := max(w.reserve, maxReserved)
	if err := w.file.Reserve(reserve); err != nil {
		return w.takeBack(err)
	}
	w.reserved = w.size + reserve
	if err := w.file.Sync(); err != nil {
		w.failed = true
		return err
	}
	return nil
}

// makeRoom reserves what a frame needs, and more.
func (w *logWriter) makeRoom(frame int64) {
	if !w.sync || w.reserve == 0 || frame > min(maxReserved, w.reserve) || w.size+frame <= w.reserved {
		return
	}
	if err := w.file.Reserve(w.reserve); err != nil {
		w.reserved = w.size + frame // the disk may be full, and the frame fit in all the same; it is tried again with the next
		return
	}
	w.reserved = w.size + w.reserve
}

// close says in the log that nothing was under way, if nothing was.
func (w *logWriter) close() error {
	if w.failed {
		return w.file.Close()
	}
	end := binary.LittleEndian.AppendUint64(nil, w.newest)
	buf := append(append([]byte(endTag), end...), binary.LittleEndian.AppendUint32(nil, archive.Sum(end))...)
	err := w.file.Trim()
	if err == nil {
		_, err = w.file.Write(buf)
	}
	if err == nil && w.sync {
		err = w.file.Sync()
	}
	return errors.Join(err, w.file.Close())
}

// logContent is what a log says.
type logContent struct {
	start, newest uint64
	frames        int
	size          int64 // without what is reserved
	ended         bool  // in order
	torn          int64 // bytes behind the last good frame that no good one follows; the file ends there
}

// damage is where a file is not as it was written.
type damage struct {
	file   string
	offset int64
	what   string
}

func (d *damage) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d: %s", d.file, d.offset, d.what)
}

func (d *damage) Unwrap() error { return archive.ErrDamaged }

// readLog calls each with the records of a log. What is torn at its end is for the caller to judge.
func readLog(f reader, name string, each func(store.Record) error) (c logContent, err error) {
	c.size = f.Size()
	bad := func(at int64, what string) error { return &damage{name, at, what} }
	header := make([]byte, logHeaderSize)
	switch n, err := f.ReadAt(header, 0); {
	case err != nil && !errors.Is(err, io.EOF):
		return c, err
	case n < logHeaderSize:
		c.torn = c.size // a crash came before the header was whole
		return c, nil
	}
	fields := header[len(logTag):]
	if string(header[:len(logTag)]) != logTag || archive.Sum(fields[:12]) != binary.LittleEndian.Uint32(fields[12:]) {
		if whole, err := findFrame(f, 1); err != nil || whole >= 0 {
			return c, errors.Join(err, bad(0, "not the beginning of a log"))
		}
		c.torn = c.size
		return c, nil
	}
	if version := binary.LittleEndian.Uint32(fields); version != logVersion {
		return c, fmt.Errorf("%s has version %d; this program knows version %d", name, version, logVersion)
	}
	c.start = binary.LittleEndian.Uint64(fields[4:])
	c.newest = c.start
	var buf []byte
	for at := int64(logHeaderSize); at < c.size; {
		switch newest, ended, err := endAt(f, at); {
		case err != nil:
			return c, err
		case ended && newest != c.newest:
			return c, bad(at, fmt.Sprintf("it ends at revision %d, not %d", newest, c.newest))
		case ended:
			end := at + int64(endSize)
			zeros, err := isZero(f, end)
			if err != nil {
				return c, err
			}
			if !zeros {
				return c, bad(end, "something follows its end")
			}
			c.ended, c.size = true, end
			return c, nil
		}
		frame, err := frameAt(f, at, &buf)
		if err != nil {
			return c, err
		}
		if frame == nil {
			zeros, err := isZero(f, at)
			if err != nil {
				return c, err
			}
			if zeros {
				c.size = at
				return c, nil
			}
			whole, err := findFrame(f, at+1)
			if err != nil {
				return c, err
			}
			if whole >= 0 {
				return c, bad(at, fmt.Sprintf("a frame after revision %d can't be read, and a good one follows at byte %d", c.newest, whole))
			}
			c.torn = c.size - at
			return c, nil
		}
		if frame.previous != c.newest {
			return c, bad(at, fmt.Sprintf("a frame follows revision %d, not %d", frame.previous, c.newest))
		}
		for rest := frame.records; len(rest) > 0; {
			var r store.Record
			if r, rest, err = archive.TakeRecord(rest, frame.previous); err != nil {
				return c, bad(at, err.Error())
			}
			if r.Revision <= c.newest {
				return c, bad(at, fmt.Sprintf("revision %d comes after %d", r.Revision, c.newest))
			}
			c.newest = r.Revision
			if err := each(r); err != nil {
				return c, err
			}
		}
		c.frames++
		at += frame.size
	}
	return c, nil
}

type frame struct {
	previous uint64
	records  []byte // valid until buf is used again
	size     int64
}

// frameAt reads the frame at a place; nil when there is no whole one.
func frameAt(f reader, at int64, buf *[]byte) (*frame, error) {
	head := make([]byte, frameHead)
	if n, err := f.ReadAt(head, at); n < frameHead {
		return nil, notEOF(err)
	}
	fields := head[len(frameTag):]
	length := int64(binary.LittleEndian.Uint32(fields))
	if string(head[:len(frameTag)]) != frameTag || length > maxFrame || length > f.Size()-at-int64(frameHead) {
		return nil, nil
	}
	if int64(cap(*buf)) < length {
		*buf = make([]byte, length)
	}
	*buf = (*buf)[:length]
	if n, err := f.ReadAt(*buf, at+int64(frameHead)); int64(n) < length {
		return nil, notEOF(err)
	}
	if archive.Sum(fields[:12], *buf) != binary.LittleEndian.Uint32(fields[12:]) {
		return nil, nil
	}
	return &frame{previous: binary.LittleEndian.Uint64(fields[4:]), records: *buf, size: int64(frameHead) + length}, nil
}

func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// endAt reads the mark at a place that says the log ended in order, if there is one.
func endAt(f reader, at int64) (newest uint64, ended bool, err error) {
	mark := make([]byte, endSize)
	if n, err := f.ReadAt(mark, at); n < endSize {
		return 0, false, notEOF(err)
	}
	fields := mark[len(endTag):]
	if string(mark[:len(endTag)]) != endTag || archive.Sum(fields[:8]) != binary.LittleEndian.Uint32(fields[8:]) {
		return 0, false, nil
	}
	return binary.LittleEndian.Uint64(fields), true, nil
}

// isZero says that there are only zeros from a place on.
func isZero(f reader, from int64) (bool, error) {
	buf := make([]byte, 64<<10)
	for at := from; at < f.Size(); at += int64(len(buf)) {
		n, err := f.ReadAt(buf, at)
		if err := notEOF(err); err != nil {
			return false, err
		}
		for _, b := range buf[:n] {
			if b != 0 {
				return false, nil
			}
		}
	}
	return true, nil
}

// findFrame looks for a whole frame, or the mark of an end, at a place or behind it; -1 when there is none.
func findFrame(f reader, from int64) (int64, error) {
	const window = 1 << 20
	buf := make([]byte, window+len(frameTag)-1)
	var content []byte
	for at := from; at < f.Size(); at += window {
		n, err := f.ReadAt(buf, at)
		if err := notEOF(err); err != nil {
			return -1, err
		}
		for i := range min(n, window) {
			if i+len(frameTag) > n {
				break
			}
			switch string(buf[i : i+len(frameTag)]) {
			case frameTag:
				found, err := frameAt(f, at+int64(i), &content)
				if err != nil || found != nil {
					return at + int64(i), err
				}
			case endTag:
				if _, ended, err := endAt(f, at+int64(i)); err != nil || ended {
					return at + int64(i), err
				}
			}
		}
	}
	return -1, nil
}
