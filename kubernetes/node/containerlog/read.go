package containerlog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Options select what to read from a log. The zero value reads everything that the log has now,
// without times.
type Options struct {
	// Follow waits for more output until the log is closed.
	Follow bool
	// Since skips entries with earlier times; the zero time skips none.
	Since time.Time
	// Tail, if not nil, is the number of lines before the end at which to start.
	Tail *int64
	// Limit, if not nil, is the maximum number of bytes to read. The last line may be incomplete.
	Limit *int64
	// Timestamps prefixes each line with its time.
	Timestamps bool
	// Stream, if not empty, selects one stream.
	Stream Stream
}

// Read returns a reader of the log. The reader blocks only with Follow. It ends with io.EOF, or
// with ctx's error if ctx ends first. The reader may be used by one goroutine; Close may be called
// by another and ends a blocked Read.
func (l *Log) Read(ctx context.Context, options Options) io.ReadCloser {
	ctx, cancel := context.WithCancel(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &reader{log: l, ctx: ctx, cancel: cancel, options: options, stop: l.end()}
	if options.Tail != nil {
		r.offset = l.tail(*options.Tail)
	}
	if options.Limit != nil {
		r.limited, r.left = true, *options.Limit
	}
	return r
}

// reader is a cursor into a log.
type reader struct {
	log     *Log
	ctx     context.Context
	cancel  context.CancelFunc
	options Options
	offset  int64 // of the next byte to read from the log
	stop    int64 // where the reader ends without Follow
	limited bool
	left    int64

	raw    []byte // entries not yet rendered; the last one may be incomplete
	ready  []byte // rendered but not yet read
	middle bool   // the last rendered entry was partial, so the next one gets no time
}

func (r *reader) Read(p []byte) (int, error) {
	if r.limited && r.left == 0 {
		return 0, io.EOF
	}
	for len(r.ready) == 0 {
		if err := r.fill(); err != nil {
			return 0, err
		}
		r.render()
	}
	if r.limited && int64(len(p)) > r.left {
		p = p[:r.left]
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	r.left -= int64(n)
	return n, nil
}

func (r *reader) Close() error {
	r.cancel()
	return nil
}

// fill reads more bytes from the log. With Follow, it waits for them.
func (r *reader) fill() error {
	var chunk [32 << 10]byte
	for {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		r.log.mu.Lock()
		if !r.options.Follow && r.offset >= r.stop {
			r.log.mu.Unlock()
			return io.EOF
		}
		n, at, err := r.log.readAt(chunk[:], r.offset)
		if err == nil && n > 0 {
			if at != r.offset { // the log dropped the bytes between
				r.raw = nil
			}
			r.raw = append(r.raw, chunk[:n]...)
			r.offset = at + int64(n)
			r.log.mu.Unlock()
			return nil
		}
		if err == nil && r.log.ended {
			err = io.EOF
		}
		if err != nil {
			r.log.mu.Unlock()
			return err
		}
		if r.log.changed == nil {
			r.log.changed = make(chan struct{})
		}
		changed := r.log.changed
		r.log.mu.Unlock()
		select {
		case <-changed:
		case <-r.ctx.Done():
		}
	}
}

// render converts the complete entries of raw to the requested format.
func (r *reader) render() {
	r.ready = r.ready[:0]
	for {
		end := bytes.IndexByte(r.raw, '\n')
		if end < 0 {
			return
		}
		entry := r.raw[:end]
		r.raw = r.raw[end+1:]
		at, stream, tag, text, ok := parse(entry)
		if !ok || r.options.Stream != "" && r.options.Stream != stream {
			continue
		}
		if !r.options.Since.IsZero() {
			if t, err := time.Parse(time.RFC3339Nano, string(at)); err != nil || t.Before(r.options.Since) {
				continue
			}
		}
		if r.options.Timestamps && !r.middle {
			r.ready = append(append(r.ready, at...), ' ')
		}
		r.ready = append(r.ready, text...)
		r.middle = tag == "P"
		if !r.middle {
			r.ready = append(r.ready, '\n')
		}
	}
}

// parse splits an entry, which has no newline.
func parse(entry []byte) (at []byte, stream Stream, tag string, text []byte, ok bool) {
	parts := bytes.SplitN(entry, []byte{' '}, 4)
	if len(parts) != 4 {
		return nil, "", "", nil, false
	}
	return parts[0], Stream(parts[1]), string(parts[2]), parts[3], true
}

// readAt reads at an offset, or at the oldest available byte if that is later. at is the actual
// offset, and n is 0 at the end. The caller holds mu.
func (l *Log) readAt(p []byte, offset int64) (n int, at int64, err error) {
	for _, h := range l.halves {
		if offset >= h.base+h.size {
			continue
		}
		at = max(offset, h.base)
		from := at - h.base
		if h.file == nil {
			return copy(p, h.memory[from:]), at, nil
		}
		n, err = h.file.ReadAt(p[:min(int64(len(p)), h.size-from)], from)
		if errors.Is(err, io.EOF) && n > 0 {
			err = nil
		}
		return n, at, err
	}
	return 0, offset, nil
}

// tail returns the offset of the n-th line from the end. The caller holds mu.
func (l *Log) tail(n int64) int64 {
	n = min(max(n, 0), l.config.MaxBytes) // a line has at least one byte
	starts := make([]int64, 0, 64)        // a ring of the offsets of the last n+1 lines
	next := 0
	push := func(offset int64) {
		if int64(len(starts)) < n+1 {
			starts = append(starts, offset)
			return
		}
		starts[next] = offset
		next = (next + 1) % len(starts)
	}
	offset := l.halves[0].base
	push(offset)
	var chunk [32 << 10]byte
	for {
		got, at, err := l.readAt(chunk[:], offset)
		if err != nil || got == 0 {
			return starts[next%len(starts)] // with fewer than n lines, next is 0: the first offset
		}
		for i, c := range chunk[:got] {
			if c == '\n' {
				push(at + int64(i) + 1)
			}
		}
		offset = at + int64(got)
	}
}

// FromPodLogOptions converts the options of a pod's log, except those that select the container.
func FromPodLogOptions(opts *corev1.PodLogOptions, now time.Time) Options {
	o := Options{Follow: opts.Follow, Timestamps: opts.Timestamps, Tail: opts.TailLines, Limit: opts.LimitBytes}
	switch {
	case opts.SinceSeconds != nil:
		o.Since = now.Add(-time.Duration(*opts.SinceSeconds) * time.Second)
	case opts.SinceTime != nil:
		o.Since = opts.SinceTime.Time
	}
	if opts.Stream != nil && *opts.Stream != corev1.LogStreamAll {
		o.Stream = Stream(strings.ToLower(*opts.Stream))
	}
	return o
}
