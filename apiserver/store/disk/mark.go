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

// The high-water mark is a file of its own that says which revision was acknowledged last:
//
//	"KELSONMK" version (4) revision (8) time (8, nanoseconds since 1970) checksum (4)
//
// It is written a second after a write, without a sync, and once more, with one, when the program ends in order. So it never says more than was
// acknowledged, and after a crash perhaps less. If it says more than the logs have, acknowledged writes are missing.
const (
	markName    = "mark"
	markTag     = "KELSONMK"
	markVersion = 1
	markSize    = len(markTag) + 24
	markEvery   = time.Second
)

// mark is what the file says; the zero value: nothing.
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

// readMark returns the mark of a directory. One that is missing or unreadable says nothing: it is a witness, and no part of the state.
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
	if string(text[:len(markTag)]) != markTag || binary.LittleEndian.Uint32(fields) != markVersion || archive.Sum(fields[:20]) != binary.LittleEndian.Uint32(fields[20:]) {
		return mark{}, nil
	}
	return mark{binary.LittleEndian.Uint64(fields[4:]), time.Unix(0, int64(binary.LittleEndian.Uint64(fields[12:])))}, nil
}

// write replaces the file. Without sync a crash may leave the former one, or none that can be read.
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
		err = files.SyncDir(dir)
	}
	return err
}

// marker keeps the mark up to date. Its errors are not reported: the state does not depend on it.
type marker struct {
	files fileSystem
	dir   string
	every time.Duration

	mu      sync.Mutex
	newest  uint64 // acknowledged
	written uint64 // in the file
	timer   *time.Timer
}

// note takes the revision of an acknowledged write.
func (m *marker) note(revision uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.newest = revision
	if m.timer == nil {
		m.timer = time.AfterFunc(m.every, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.timer != nil { // not closed meanwhile
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
	m.written = 0 // what is there may not be durable
	m.write(true)
}

// missing says what is missing between the logs and the mark; "" when nothing is.
func (m mark) missing(newest uint64) string {
	if m.revision <= newest {
		return ""
	}
	return fmt.Sprintf("acknowledged writes are MISSING: the state ends at revision %d, but revision %d was acknowledged before %s; at least %d revisions are lost",
		newest, m.revision, m.at.UTC().Format(time.RFC3339), m.revision-newest)
}
