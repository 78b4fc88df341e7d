package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"kelson.dev/apiserver/internal/histogram"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
)

// A log file consists of
//
//	header   "KELSONLG" version (4) revision (8) checksum (4)
//	frame    "KLOG" length (4) previous (8) checksum (4) records…
//	…
//	end      "KCLS" newest (8) checksum (4)          after a clean shutdown
//	zeros    space reserved for more frames
//
// Numbers are little-endian. The header and the field previous of the first frame have the newest
// revision before this log. The field previous of each later frame has the newest revision of the
// frame before it. Package archive defines the records.
const (
	logTag     = "KELSONLG"
	frameTag   = "KLOG"
	endTag     = "KCLS"
	logVersion = 1

	logHeaderSize = len(logTag) + 16
	frameHead     = len(frameTag) + 16
	endSize       = len(endTag) + 12
	// reserveBytes is how much is reserved at once. The next sync writes that many zeros; about
	// eighty more syncs then have no file metadata to write.
	reserveBytes = 256 << 10
	// maxReserved is the largest frame that is written over reserved zeros. A larger frame contains
	// the writes of many clients, which share its sync, and costs more to write anyway.
	maxReserved = 16 << 10
)

// logWriter appends to a log.
type logWriter struct {
	file     file
	sync     bool
	newest   uint64
	failed   bool // the content at the end is unknown
	buf      []byte
	size     int64
	reserve  int64                // how much to reserve at once; 0: nothing
	reserved int64                // offset of the end of the reserved space
	syncs    *histogram.Histogram // durations of syncs; nil: not measured
}

// newLog creates the log that begins after a revision. Its file is durable when the first append
// has returned.
func newLog(files fileSystem, dir string, revision uint64, opts Options) (*logWriter, error) {
	// The directory is opened first, so that a process with too many open files creates nothing.
	d, err := files.OpenDir(dir)
	if err != nil {
		return nil, certain(err, nil)
	}
	defer d.Close()
	name := join(dir, fileName(revision, logSuffix))
	f, err := files.Create(name)
	if err != nil {
		return nil, certain(err, nil) // no space for the entry, or too many open files
	}
	w := &logWriter{file: f, sync: !opts.NoSync, newest: revision, reserve: opts.reserve}
	header := binary.LittleEndian.AppendUint32(nil, logVersion)
	header = binary.LittleEndian.AppendUint64(header, revision)
	w.buf = append(append(w.buf, logTag...), header...)
	w.buf = binary.LittleEndian.AppendUint32(w.buf, archive.Sum(header))
	if _, err = f.Write(w.buf); err != nil {
		return nil, certain(err, errors.Join(f.Close(), files.Remove(name), d.Sync()))
	}
	w.size = int64(len(w.buf))
	if w.sync {
		if err = d.Sync(); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return w, nil
}

// errCertain means that nothing remains of a failed write.
var errCertain = errors.New("the partial write was removed")

// certain returns the error of a failed write. undone is the error of removing the partial write.
// If it is nil and the cause is missing space or too many open files, the result wraps errCertain.
func certain(err, undone error) error {
	if undone == nil && (isFull(err) || tooManyFiles(err)) {
		return fmt.Errorf("%w: %w", errCertain, err)
	}
	return errors.Join(err, undone)
}

// errTooLarge is the error of a batch that no frame can hold. Nothing was written.
var errTooLarge = fmt.Errorf("a batch has more than %d bytes: %w", archive.MaxBlock, store.ErrTooLarge)

// append writes a frame and returns its size.
func (w *logWriter) append(records []store.Record) (int, error) {
	size := 0
	for _, r := range records {
		size += archive.RecordSize(r)
	}
	if size > archive.MaxBlock {
		return 0, errTooLarge
	}
	buf := append(w.buf[:0], frameTag...)
	buf = append(buf, make([]byte, frameHead-len(frameTag))...)
	for _, r := range records {
		buf = archive.AppendRecord(buf, w.newest, r)
	}
	head := buf[len(frameTag):frameHead]
	binary.LittleEndian.PutUint32(head, uint32(len(buf)-frameHead))
	binary.LittleEndian.PutUint64(head[4:], w.newest)
	binary.LittleEndian.PutUint32(head[12:], archive.Sum(head[:12], buf[frameHead:]))
	if w.buf = buf; cap(buf) > 4<<20 {
		w.buf = nil // large batches are rare; release the memory
	}
	w.makeRoom(int64(len(buf)))
	if _, err := w.file.Write(buf); err != nil {
		return 0, w.rollBack(err)
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

// rollBack removes the partial write after the last frame, and makes the removal durable.
func (w *logWriter) rollBack(err error) error {
	w.failed = true // until the removal is durable
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

// try reports whether there is space, by reserving some for the next frame.
func (w *logWriter) try() error {
	reserve := max(w.reserve, maxReserved)
	if err := w.file.Reserve(reserve); err != nil {
		return w.rollBack(err)
	}
	w.reserved = w.size + reserve
	if err := w.file.Sync(); err != nil {
		w.failed = true
		return err
	}
	return nil
}

// makeRoom reserves space for a frame and more.
func (w *logWriter) makeRoom(frame int64) {
	if !w.sync || w.reserve == 0 || frame > min(maxReserved, w.reserve) || w.size+frame <= w.reserved {
		return
	}
	if err := w.file.Reserve(w.reserve); err != nil {
		// the disk may be full, but the frame may still fit; the next frame tries again
		w.reserved = w.size + frame
		return
	}
	w.reserved = w.size + w.reserve
}

// close marks the log as cleanly ended, unless a write has failed.
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

// logContent describes the content of a log.
type logContent struct {
	start, newest uint64
	frames        int
	size          int64 // without reserved space
	ended         bool  // after a clean shutdown
	// bytes after the last good frame, up to the end of the file; no good frame follows
	torn int64
}

// damage is an error at a position in a file that does not have the bytes that were written.
type damage struct {
	file   string
	offset int64
	what   string
}

func (d *damage) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d: %s", d.file, d.offset, d.what)
}

func (d *damage) Unwrap() error { return archive.ErrDamaged }

// readLog calls each with the records of a log. The caller decides whether a torn end is
// acceptable.
func readLog(f reader, name string, each func(store.Record) error) (c logContent, err error) {
	c.size = f.Size()
	bad := func(at int64, what string) error { return &damage{name, at, what} }
	header := make([]byte, logHeaderSize)
	switch n, err := f.ReadAt(header, 0); {
	case err != nil && !errors.Is(err, io.EOF):
		return c, err
	case n < logHeaderSize:
		c.torn = c.size // a crash came before the header was complete
		return c, nil
	}
	fields := header[len(logTag):]
	if string(header[:len(logTag)]) != logTag || archive.Sum(fields[:12]) != binary.LittleEndian.Uint32(fields[12:]) {
		if whole, err := findFrame(f, 1); err != nil || whole >= 0 {
			return c, errors.Join(err, bad(0, "the header is invalid"))
		}
		c.torn = c.size
		return c, nil
	}
	if version := binary.LittleEndian.Uint32(fields); version != logVersion {
		return c, fmt.Errorf("%s has format version %d; this program supports version %d", name, version, logVersion)
	}
	c.start = binary.LittleEndian.Uint64(fields[4:])
	c.newest = c.start
	var buf []byte
	for at := int64(logHeaderSize); at < c.size; {
		switch newest, ended, err := endAt(f, at); {
		case err != nil:
			return c, err
		case ended && newest != c.newest:
			return c, bad(at, fmt.Sprintf("the end mark has revision %d, want %d", newest, c.newest))
		case ended:
			end := at + int64(endSize)
			zeros, err := isZero(f, end)
			if err != nil {
				return c, err
			}
			if !zeros {
				return c, bad(end, "unexpected data after the end mark")
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
				return c, bad(at, fmt.Sprintf(
					"the frame after revision %d is invalid, but a valid one follows at byte %d", c.newest, whole))
			}
			c.torn = c.size - at
			return c, nil
		}
		if frame.previous != c.newest {
			return c, bad(at, fmt.Sprintf("the frame follows revision %d, want %d", frame.previous, c.newest))
		}
		for rest := frame.records; len(rest) > 0; {
			var r store.Record
			if r, rest, err = archive.TakeRecord(rest, frame.previous); err != nil {
				return c, bad(at, err.Error())
			}
			if r.Revision <= c.newest {
				return c, bad(at, fmt.Sprintf("revision %d follows revision %d", r.Revision, c.newest))
			}
			c.newest = r.Revision
			if err := each(archive.Own(r)); err != nil { // the next frame has the same buffer
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
	records  []byte // valid until the buffer is used again
	size     int64
}

// frameAt reads the frame at an offset; nil if there is no complete one.
func frameAt(f reader, at int64, buf *[]byte) (*frame, error) {
	head := make([]byte, frameHead)
	if n, err := f.ReadAt(head, at); n < frameHead {
		return nil, notEOF(err)
	}
	fields := head[len(frameTag):]
	length := int64(binary.LittleEndian.Uint32(fields))
	if string(head[:len(frameTag)]) != frameTag || length > archive.MaxBlock || length > f.Size()-at-int64(frameHead) {
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

// endAt reads the mark of a clean end at an offset, if there is one.
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

// isZero reports whether a file has only zeros from an offset on.
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

// findFrame searches for a complete frame, or the mark of a clean end, at or after an offset; -1 if
// there is none.
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
