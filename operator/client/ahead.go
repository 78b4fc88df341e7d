package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"strconv"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/tree"
)

// Ahead reads a list ahead: while a page is decoded, the next one is on its way, and the one behind that is asked for as soon as the beginning of the
// next says which it is. It is for the pages of one list, one after the other (see ListOptions.Ahead), and for one goroutine. The zero value is ready. What
// it holds is freed with the last page; of a list that nobody reads to its end, when the context of its first call ends.
type Ahead struct {
	share *sharing
	line  *line
	next  *page // nil if none is on its way
}

// line is what the pages of one list have in common, each of which asks for the one behind it.
type line struct {
	client *restClient
	asked  int64 // the limit that the caller wants at least
	rooms  chan *bytes.Buffer
	size   atomic.Int64 // of an object, in bytes, in the page that came last; 0 before there is one
	cancel context.CancelFunc
}

// page is one page of a list, as it came.
type page struct {
	document
	query url.Values
	room  *bytes.Buffer
	next  *page // the one behind it; nil if there is none
	err   error
	done  chan struct{} // is closed when all this is known
}

const (
	// pagesHeld is how many pages are in memory: one that is decoded, one that comes, one that the server is making.
	pagesHeld = 3
	// pageBytes is about how much a page should be: servers take the longer for a list the more pages there are. Limits are made larger for that, up to
	// maxPage objects.
	pageBytes = 8 << 20
	maxPage   = 10000
	// headBytes are enough for the metadata of a list, with which lists begin.
	headBytes = 4 << 10
)

// listAhead is a list with o.Ahead. r is the request for the page.
func (c *restClient) listAhead(ctx context.Context, r request, into ObjectList, kind schema.GroupVersionKind, o ListOptions) error {
	a := o.Ahead
	if a.share == nil {
		a.share = newSharing(o.Shared)
	}
	r.share = a.share
	got, err := a.take(ctx, r.query)
	if err == nil && got == nil {
		got, err = a.begin(ctx, c, r, o.Limit)
	}
	if err != nil {
		a.end()
		return err
	}
	err = got.decode(got.data, into, kind)
	a.line.rooms <- got.room
	if a.next = got.next; a.next == nil || err != nil {
		a.end()
	}
	return err
}

// take is the page that was read ahead, if that is the one that a query is for and nothing was wrong with it; else nil.
func (a *Ahead) take(ctx context.Context, query url.Values) (*page, error) {
	if a.next == nil {
		return nil, nil
	}
	if err := a.next.await(ctx); err != nil {
		return nil, err
	}
	if a.next.err != nil || !isSamePage(a.next.query, query) {
		a.end() // it is asked for once more: what was wrong may be over
	}
	return a.next, nil
}

// begin reads a page that was not read ahead.
func (a *Ahead) begin(ctx context.Context, c *restClient, r request, asked int64) (*page, error) {
	lasting, cancel := context.WithCancel(ctx)
	a.line = &line{client: c, asked: asked, rooms: make(chan *bytes.Buffer, pagesHeld), cancel: cancel}
	for range pagesHeld {
		a.line.rooms <- &bytes.Buffer{}
	}
	first := a.line.begin(lasting, r)
	if err := first.await(ctx); err != nil {
		return nil, err
	}
	return first, first.err
}

// await waits until it is known what became of a page.
func (p *page) await(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end forgets what is on its way.
func (a *Ahead) end() {
	a.line.cancel()
	a.next = nil
}

func (l *line) begin(ctx context.Context, r request) *page {
	p := &page{query: r.query, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = l.read(ctx, r, p)
	}()
	return p
}

// read reads a page into a room, as soon as one is free. The page behind it begins as soon as it is known which that is and how long it should be.
func (l *line) read(ctx context.Context, r request, p *page) error {
	select {
	case p.room = <-l.rooms:
	case <-ctx.Done():
		return ctx.Err()
	}
	limit, _ := strconv.ParseInt(r.query.Get("limit"), 10, 64)
	expected := min(limit*l.size.Load(), pageBytes)
	p.room.Reset()
	p.room.Grow(int(expected + expected/8)) // what grows while it is read is copied again and again
	resp, err := l.client.send(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	p.codec = codecOf(resp, r.share)
	known := false
	if expected > 0 {
		if _, err = p.room.ReadFrom(io.LimitReader(resp.Body, headBytes)); err == nil {
			known = l.follow(ctx, r, p, limit)
		}
	}
	if err == nil {
		p.data, err = readAll(resp, p.room)
	}
	if err != nil {
		return fmt.Errorf("%s %s: read answer: %w", r.method, r.path, err)
	}
	if limit > 0 {
		l.size.Store(max(1, int64(len(p.data))/limit))
	}
	if !known {
		l.follow(ctx, r, p, limit)
	}
	return nil
}

// follow begins the page behind the one in p.room, if there is one; false if what is in the room does not tell yet.
func (l *line) follow(ctx context.Context, r request, p *page, limit int64) bool {
	token, known := p.continueIn(p.room.Bytes())
	if token == "" {
		return known
	}
	r.query = maps.Clone(r.query)
	r.query.Set("continue", token)
	r.query.Del("resourceVersion") // the token has it
	r.query.Del("resourceVersionMatch")
	if limit > 0 {
		// Pages grow step by step: of a short list the most would else come in one, with nothing to decode meanwhile.
		r.query.Set("limit", strconv.FormatInt(max(l.asked, min(maxPage, 2*limit, pageBytes/l.size.Load())), 10))
	}
	p.next = l.begin(ctx, r)
	return true
}

// isSamePage says that two requests ask for the same page, whatever its length.
func isSamePage(a, b url.Values) bool {
	return a.Get("continue") == b.Get("continue") && a.Get("labelSelector") == b.Get("labelSelector") && a.Get("fieldSelector") == b.Get("fieldSelector")
}

// continueIn is the token of the page behind a list, of which the beginning may be all that there is; empty if there is none, or the list is not written as
// lists are. It is not known while its metadata is not there.
func (jsonCodec) continueIn(data []byte) (token string, known bool) {
	p := tree.Parser{Data: data}
	_ = p.Each(func(key []byte) error { // what is wrong is found by whoever decodes it
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
