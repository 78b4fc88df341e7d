package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/tree"
)

// Ahead reads a list ahead: while the caller decodes a page, the client reads the next one, and
// requests the one after it as soon as the beginning of the next page contains the continue token.
// Use one Ahead for all pages of one list, in order (see ListOptions.Ahead), from one goroutine.
// The zero value is ready for use. Ahead frees its memory after the last page, or when the context
// of the first call ends if the caller stops earlier.
//
// Such a list does not retry if the server asks to try later. The caller can read the same page
// again after that time.
type Ahead struct {
	share    *sharing
	pipeline *pipeline
	next     *page // nil if no page is being read ahead
}

// pipeline is the state that the pages of one list share. Each page requests the one after it.
type pipeline struct {
	send    func(context.Context, request) (*http.Response, error)
	asked   int64 // the limit that the caller asked for
	buffers chan *bytes.Buffer
	// average size in bytes of an object in the last page; 0 before the first page
	size   atomic.Int64
	cancel context.CancelFunc
}

// page is one page of a list, undecoded.
type page struct {
	document
	query  url.Values
	buffer *bytes.Buffer
	next   *page // the page after this one; nil if this is the last
	err    error
	done   chan struct{} // closed when all other fields are set
}

const (
	// pagesHeld is how many pages are in memory: one being decoded, one being received, one being
	// prepared by the server.
	pagesHeld = 3
	// pageBytes is the approximate size that a page should have: a list with more pages takes
	// servers longer. For this reason the client increases limits, up to maxPage objects.
	pageBytes = 8 << 20
	maxPage   = 10000
	// headBytes is enough for the metadata of a list, which comes first.
	headBytes = 4 << 10
)

// listAhead is List with o.Ahead. r is the request for the page.
func (c *restClient) listAhead(ctx context.Context, r request, into ObjectList, kind schema.GroupVersionKind,
	o ListOptions) error {
	a := o.Ahead
	if a.share == nil {
		a.share = newSharing(o.Shared)
	}
	r.share, r.reports = a.share, true
	got, err := a.take(ctx, r.query)
	if err == nil && got == nil {
		got, err = a.begin(ctx, c.send, r, o.Limit)
	}
	if err != nil {
		a.end()
		return err
	}
	err = got.decode(got.data, into, kind)
	a.pipeline.buffers <- got.buffer
	if a.next = got.next; a.next == nil || err != nil {
		a.end()
	}
	return err
}

// take returns the page that was read ahead, or nil if that page was not requested by this query or
// failed.
func (a *Ahead) take(ctx context.Context, query url.Values) (*page, error) {
	if a.next == nil {
		return nil, nil
	}
	if err := a.next.await(ctx); err != nil {
		return nil, err
	}
	if !isSamePage(a.next.query, query) {
		a.end()
		return nil, nil
	}
	if err := a.next.err; err != nil {
		a.end()
		if _, later := apierrors.SuggestsClientDelay(err); later {
			return nil, err
		}
		return nil, nil // read it again: the error may be temporary
	}
	return a.next, nil
}

// begin reads a page that was not read ahead.
func (a *Ahead) begin(ctx context.Context, send func(context.Context, request) (*http.Response, error), r request,
	asked int64) (*page, error) {
	listCtx, cancel := context.WithCancel(ctx)
	a.pipeline = &pipeline{send: send, asked: asked, buffers: make(chan *bytes.Buffer, pagesHeld), cancel: cancel}
	for range pagesHeld {
		a.pipeline.buffers <- &bytes.Buffer{}
	}
	first := a.pipeline.begin(listCtx, r)
	if err := first.await(ctx); err != nil {
		return nil, err
	}
	return first, first.err
}

// await waits until the page is read or has failed.
func (p *page) await(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end cancels the reads in progress.
func (a *Ahead) end() {
	a.pipeline.cancel()
	a.next = nil
}

func (l *pipeline) begin(ctx context.Context, r request) *page {
	p := &page{query: r.query, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = l.read(ctx, r, p)
	}()
	return p
}

// read reads a page into a buffer as soon as one is free. It starts to read the next page as soon
// as the continue token and a good limit are known.
func (l *pipeline) read(ctx context.Context, r request, p *page) error {
	select {
	case p.buffer = <-l.buffers:
	case <-ctx.Done():
		return ctx.Err()
	}
	limit, _ := strconv.ParseInt(r.query.Get("limit"), 10, 64)
	expected := min(limit*l.size.Load(), pageBytes)
	p.buffer.Reset()
	// a buffer that grows during the read is copied repeatedly
	p.buffer.Grow(int(expected + expected/8))
	resp, err := l.send(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	p.codec = codecOf(resp, r.share)
	decided := false
	if expected > 0 {
		if _, err = p.buffer.ReadFrom(io.LimitReader(resp.Body, headBytes)); err == nil {
			decided = l.follow(ctx, r, p, limit)
		}
	}
	if err == nil {
		p.data, err = readAll(resp, p.buffer)
	}
	if err != nil {
		return fmt.Errorf("%s %s: read response: %w", r.method, r.path, err)
	}
	if limit > 0 {
		l.size.Store(max(1, int64(len(p.data))/limit))
	}
	if !decided {
		l.follow(ctx, r, p, limit)
	}
	return nil
}

// follow starts to read the page after the one in p.buffer, if there is one. It returns false if
// the buffer does not contain enough to decide.
func (l *pipeline) follow(ctx context.Context, r request, p *page, limit int64) bool {
	token, decided := p.continueIn(p.buffer.Bytes())
	if token == "" {
		return decided
	}
	r.query = maps.Clone(r.query)
	r.query.Set("continue", token)
	r.query.Del("resourceVersion") // the token contains it
	r.query.Del("resourceVersionMatch")
	if limit > 0 {
		// The limit grows in steps. If it started with the largest limit, most of a short list
		// would arrive in one page, with nothing to decode in the meantime.
		r.query.Set("limit", strconv.FormatInt(max(l.asked, min(maxPage, 2*limit, pageBytes/l.size.Load())), 10))
	}
	p.next = l.begin(ctx, r)
	return true
}

// isSamePage reports whether two requests ask for the same page, regardless of their limits.
func isSamePage(a, b url.Values) bool {
	return a.Get("continue") == b.Get("continue") && a.Get("labelSelector") == b.Get("labelSelector") &&
		a.Get("fieldSelector") == b.Get("fieldSelector")
}

// continueIn returns the continue token of a list. data may be only the beginning of the list. The
// token is empty if this is the last page or the list has an unusual layout. known is false if data
// ends before the metadata does.
func (jsonCodec) continueIn(data []byte) (token string, known bool) {
	p := tree.Parser{Data: data}
	_ = p.Each(func(key []byte) error { // the decoder reports malformed data
		if string(key) != "metadata" {
			return p.Skip()
		}
		found := ""
		err := p.Each(func(key []byte) (err error) {
			if string(key) != "continue" {
				return p.Skip()
			}
			found, err = p.Text()
			return err
		})
		if err == nil {
			token, known, err = found, true, errEnough
		}
		return err
	})
	return token, known
}

func (protobufCodec) continueIn(data []byte) (token string, known bool) {
	const listContinue = 3
	raw, isThere := openBegun(data)
	if !isThere {
		return "", false
	}
	_ = eachField(raw, func(n protowire.Number, v []byte) error {
		if n != listMeta {
			return errEnough
		}
		known = true
		return eachField(v, func(n protowire.Number, v []byte) error {
			if n == listContinue {
				token = string(v)
			}
			return nil
		})
	})
	return token, known
}
