// Package containerlog stores the output of a container and serves it to readers.
//
// A [Log] is an append-only sequence of entries in the format that container runtimes write for a
// kubelet:
//
//	2026-01-02T15:04:05.000000000Z stdout F hello
//	└ time, UTC                    └ stream └ F: full line, P: the line continues in the stream's next entry
//
// A log is in memory or in a file, and has a maximum size. It consists of two halves; when the
// newer half is full, the older one is dropped, so that the newest output is always available.
//
//	            dropped │ previous half │ current half ──▶ append
//	offset 0 ───────────┴───────────────┴──────────────▶
//
// Readers are cursors with an offset. There can be any number of them, and none delays the writer.
// A reader whose position was dropped continues with the oldest available line. Logs and readers
// have no goroutines.
//
//	log, err := containerlog.New(containerlog.Config{})
//	fmt.Fprintln(log.Writer(containerlog.Stdout), "hello")
//	io.Copy(os.Stdout, log.Read(ctx, containerlog.Options{Follow: true})) // ends with log.Close
package containerlog

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// Stream identifies the stream of a line.
type Stream string

// The streams of a container.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

const (
	// timeLayout is the kubelet's format of times. It has a fixed width.
	timeLayout = "2006-01-02T15:04:05.000000000Z07:00"
	// maxLine is the longest text of an entry, in bytes; longer lines are split. containerd has the
	// same limit.
	maxLine = 16 << 10
	// DefaultMaxBytes is the default size limit of a log. It equals the kubelet's default
	// containerLogMaxSize.
	DefaultMaxBytes = 10 << 20
)

// Config configures a log.
type Config struct {
	// Path is the file of the current half; the file of the previous half has the suffix ".1". If
	// Path is empty, the log is in memory.
	Path string
	// MaxBytes is the maximum size of the log, including times and stream names; 0 means
	// DefaultMaxBytes.
	MaxBytes int64
}

// Log is the output of one container. It is safe for concurrent use.
type Log struct {
	config Config

	mu      sync.Mutex
	halves  []half // one or two, oldest first
	partial map[Stream][]byte
	ended   bool
	changed chan struct{} // closed at the next change; nil if no reader waits
	err     error         // the first error of the file
}

// half is one of the two parts of a log.
type half struct {
	base, size int64 // offset of its first byte, and its length
	memory     []byte
	file       *os.File
}

// New returns an empty log. It replaces an existing file.
func New(config Config) (*Log, error) {
	if config.MaxBytes == 0 {
		config.MaxBytes = DefaultMaxBytes
	}
	l := &Log{config: config, partial: map[Stream][]byte{}}
	if err := l.addHalf(); err != nil {
		return nil, err
	}
	return l, nil
}

// Open returns the closed log that an earlier process left at a path.
func Open(path string) (*Log, error) {
	l := &Log{config: Config{Path: path, MaxBytes: DefaultMaxBytes}, ended: true}
	for _, name := range []string{path + ".1", path} {
		file, err := os.Open(name)
		if os.IsNotExist(err) && name != path {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open container log: %w", err)
		}
		info, err := file.Stat()
		if err != nil {
			return nil, fmt.Errorf("open container log: %w", err)
		}
		l.halves = append(l.halves, half{base: l.end(), size: info.Size(), file: file})
	}
	return l, nil
}

// Append adds a line, without its newline, with the given time.
func (l *Log) Append(at time.Time, stream Stream, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.append(at, stream, 'F', line) // Close returns the error
}

// Writer returns a writer that appends lines when they are complete. Closing the log appends a last
// line without newline. Write fails only if the log's file does, as on a full disk. The lines that
// could not be written are lost; later ones may succeed.
func (l *Log) Writer(stream Stream) *Writer { return &Writer{log: l, stream: stream} }

// Writer writes to one stream of a log.
type Writer struct {
	log    *Log
	stream Stream
}

// Write appends the complete lines of p and buffers the rest.
func (w *Writer) Write(p []byte) (int, error) {
	l := w.log
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	line := l.partial[w.stream]
	var failed error
	add := func(tag byte) {
		if err := l.append(now, w.stream, tag, string(line)); err != nil {
			failed = err
		}
		line = line[:0]
	}
	for _, c := range p {
		switch {
		case c == '\n':
			add('F')
			continue
		case len(line) == maxLine:
			add('P')
		}
		line = append(line, c)
	}
	l.partial[w.stream] = line
	return len(p), failed
}

// Close ends the log: readers that follow it reach its end. The contents can still be read. Close
// returns the first error of the log's file. It may be called more than once.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return l.err
	}
	for _, stream := range []Stream{Stdout, Stderr} {
		if line := l.partial[stream]; len(line) > 0 {
			_ = l.append(time.Now(), stream, 'F', string(line)) // the result is in err
		}
	}
	l.ended = true
	l.notify()
	return l.err
}

// Release closes the log and frees its files or memory. All readers reach the end.
func (l *Log) Release() {
	l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.halves {
		if h.file != nil {
			h.file.Close()
		}
	}
	l.halves = []half{{base: l.end()}}
}

// append adds an entry. The caller holds mu. After an error, the log does not have the entry.
func (l *Log) append(at time.Time, stream Stream, tag byte, line string) (err error) {
	if l.ended {
		return nil
	}
	defer func() {
		if l.err == nil {
			l.err = err
		}
	}()
	entry := make([]byte, 0, len(timeLayout)+len(line)+12)
	entry = at.UTC().AppendFormat(entry, timeLayout)
	entry = append(entry, ' ')
	entry = append(entry, stream...)
	entry = append(entry, ' ', tag, ' ')
	entry = append(entry, line...)
	entry = append(entry, '\n')

	if last := l.halves[len(l.halves)-1]; last.size > 0 && last.size+int64(len(entry)) > l.config.MaxBytes/2 {
		if err := l.addHalf(); err != nil {
			return err
		}
	}
	h := &l.halves[len(l.halves)-1]
	if h.file != nil {
		// The next entry overwrites one that was written in part.
		if _, err := h.file.WriteAt(entry, h.size); err != nil {
			return fmt.Errorf("write container log: %w", err)
		}
	} else {
		h.memory = append(h.memory, entry...)
	}
	h.size += int64(len(entry))
	l.notify()
	return nil
}

// addHalf starts a new half and drops the oldest one if there are more than two. The caller holds
// mu.
func (l *Log) addHalf() error {
	next := half{base: l.end()}
	if path := l.config.Path; path != "" {
		if len(l.halves) > 0 {
			// An earlier attempt may have renamed the file and then failed.
			if err := os.Rename(path, path+".1"); err != nil && !os.IsNotExist(err) {
				return fmt.Errorf("rotate container log: %w", err)
			}
		}
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return fmt.Errorf("create container log: %w", err)
		}
		next.file = file
	}
	l.halves = append(l.halves, next)
	if len(l.halves) > 2 {
		if file := l.halves[0].file; file != nil {
			file.Close()
		}
		l.halves = l.halves[1:]
	}
	return nil
}

// end returns the offset after the last byte. The caller holds mu, unless the log is not shared
// yet.
func (l *Log) end() int64 {
	if len(l.halves) == 0 {
		return 0
	}
	last := l.halves[len(l.halves)-1]
	return last.base + last.size
}

func (l *Log) notify() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}
