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

// Options choose what of a log is read. The zero value is everything there is now, without times.
type Options struct {
	// Follow waits for more until the log is closed.
	Follow bool
	// Since skips lines printed before it; zero: none.
	Since time.Time
	// Tail, when not nil, begins that many lines before the end.
	Tail *int64
	// Limit, when not nil, ends after that many bytes, perhaps within a line.
	Limit *int64
	// Timestamps puts the time in front of each line.
	Timestamps bool
	// Stream, when not empty, reads only that stream.
	Stream Stream
}

// Read returns a reader of the log. Its Read blocks only with Follow; it ends with io.EOF, or with ctx's error when ctx ends
// first. Close may be called at any time, a blocked Read then returns. The reader is for one goroutine (and Close for another).
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
	offset  int64 // of the next byte to take from the log
	stop    int64 // where a reader that does not follow ends
	limited bool
	left    int64

	raw    []byte // whole entries taken and not yet rendered, perhaps with the beginning of one at the end
	ready  []byte // rendered and not yet read
	middle bool   // the last rendered entry was partial: the next one of it has no time in front
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

// fill takes more bytes from the log, waiting for them when it follows.
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
			if at != r.offset { // the log dropped what came in between
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

// render turns the whole entries of raw into what the caller asked for.
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

// parse splits an entry without its newline.
func parse(entry []byte) (at []byte, stream Stream, tag string, text []byte, ok bool) {
	parts := bytes.SplitN(entry, []byte{' '}, 4)
	if len(parts) != 4 {
		return nil, "", "", nil, false
	}
	return parts[0], Stream(parts[1]), string(parts[2]), parts[3], true
}

// readAt reads at an offset, or at the oldest byte there is; at says where. n is 0 at the end. Called with the lock.
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

// tail is the offset at which the last n lines begin. Called with the lock.
func (l *Log) tail(n int64) int64 {
	n = min(max(n, 0), l.config.MaxBytes) // no line is shorter than a byte
	starts := make([]int64, 0, 64)        // of the last n+1 lines, as a ring
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
			return starts[next%len(starts)] // fewer than n lines: next is 0, the first start
		}
		for i, c := range chunk[:got] {
			if c == '\n' {
				push(at + int64(i) + 1)
			}
		}
		offset = at + int64(got)
	}
}

// FromPodLogOptions takes the options of a pod's log that choose lines.
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
