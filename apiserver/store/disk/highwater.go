package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"kelson.dev/apiserver/store/archive"
)

// The high-water mark is a file with the newest acknowledged revision:
//
//	"KELSONMK" version (4) revision (8) time (8, nanoseconds since 1970) checksum (4)
//
// It is written a second after a write, without a sync, and with a sync at a clean shutdown. So its
// revision is never greater than that of the newest acknowledged write; after a crash it may be
// smaller. If it is ahead of the logs, acknowledged writes are missing.
const (
	markName    = "mark"
	markTag     = "KELSONMK"
	markVersion = 1
	markSize    = len(markTag) + 24
	markEvery   = time.Second
)

// mark is the content of the file; the zero value means that there is none.
type mark struct {
	revision uint64
	at       time.Time
}

func (m mark) bytes() []byte {
	fields := binary.LittleEndian.AppendUint32(nil, markVersion)
	fields = binary.LittleEndian.AppendUint64(fields, m.revision)
	fields = binary.LittleEndian.AppendUint64(fields, uint64(m.at.UnixNano()))
	return binary.LittleEndian.AppendUint32(append([]byte(markTag), fields...), archive.Sum(fields))
}

// readMark returns the mark of a directory, or the zero value if it is missing or invalid. This is
// not an error, because the mark only detects losses and is not part of the state.
func readMark(files fileSystem, dir string) (mark, error) {
	r, err := files.Open(join(dir, markName))
	if err != nil {
		return mark{}, ignoreMissing(err)
	}
	defer r.Close()
	text := make([]byte, markSize)
	if n, err := r.ReadAt(text, 0); err != nil && !errors.Is(err, io.EOF) {
		return mark{}, err
	} else if n < markSize {
		return mark{}, nil
	}
	fields := text[len(markTag):]
	if string(text[:len(markTag)]) != markTag || binary.LittleEndian.Uint32(fields) != markVersion ||
		archive.Sum(fields[:20]) != binary.LittleEndian.Uint32(fields[20:]) {
		return mark{}, nil
	}
	return mark{binary.LittleEndian.Uint64(fields[4:]), time.Unix(0, int64(binary.LittleEndian.Uint64(fields[12:])))},
		nil
}

// write replaces the file. Without sync, a crash may leave the previous mark or an invalid one.
func (m mark) write(files fileSystem, dir string, sync bool) error {
	name := join(dir, markName)
	if err := ignoreMissing(files.Remove(name + newSuffix)); err != nil {
		return err
	}
	f, err := files.Create(name + newSuffix)
	if err != nil {
		return err
	}
	_, err = f.Write(m.bytes())
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = files.Rename(name+newSuffix, name)
	}
	if err == nil && sync {
		err = syncDir(files, dir)
	}
	return err
}

// marker keeps the mark up to date. It ignores errors, because the state does not depend on the
// mark.
type marker struct {
	files fileSystem
	dir   string
	every time.Duration

	mu      sync.Mutex
	newest  uint64 // newest acknowledged revision
	written uint64 // revision in the file
	timer   *time.Timer
}

// acknowledged records the revision of an acknowledged write.
func (m *marker) acknowledged(revision uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.newest = revision
	if m.timer == nil {
		m.timer = time.AfterFunc(m.every, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.timer != nil { // close has not run
				m.timer = nil
				m.write(false)
			}
		})
	}
}

func (m *marker) write(sync bool) {
	if m.newest > m.written && (mark{m.newest, time.Now()}).write(m.files, m.dir, sync) == nil {
		m.written = m.newest
	}
}

// close writes the mark durably.
func (m *marker) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
	m.written = 0 // the file may not be durable yet
	m.write(true)
}

// missing describes the acknowledged writes that, according to the mark, are not in the logs; "" if
// none are missing.
func (m mark) missing(newest uint64) string {
	if m.revision <= newest {
		return ""
	}
	return fmt.Sprintf("acknowledged writes are MISSING: the state ends at revision %d, but revision %d was acknowledged before %s; at least %d revisions are lost",
		newest, m.revision, m.at.UTC().Format(time.RFC3339), m.revision-newest)
}
