package client

import (
	"bytes"
	"context"
	"maps"
	"net/url"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/tree"
)

// Ahead reads a list ahead: while one page is decoded, the next is on its way already. It is for the pages of one list, one after the other (see
// ListOptions.Ahead), and for one goroutine. The zero value is ready. What it holds is freed with it, a page that nobody asked for when the context of
// the call ends that the page came after.
type Ahead struct {
	share *sharing
	spare *bytes.Buffer // of the page before
	next  *page         // nil if none is on its way
}

// page is one page of a list, as it came.
type page struct {
	document
	query url.Values
	into  *bytes.Buffer
	err   error
	done  chan struct{} // is closed when it is there
}

const (
	// pageBytes is about how much a page should be: servers take the longer for a list the more pages there are. Limits are made larger for that, up to
	// maxPage objects.
	pageBytes = 8 << 20
	maxPage   = 10000
)

// listAhead is a list with o.Ahead. r is the request for the page.
func (c *restClient) listAhead(ctx context.Context, r request, into ObjectList, kind schema.GroupVersionKind, o ListOptions) error {
	a := o.Ahead
	if a.share == nil {
		a.share = newSharing(o.Shared)
	}
	r.share = a.share
	got := a.take(r.query)
	if got == nil {
		got = a.begin(ctx, c, r, 0)
		<-got.done
	}
	if got.err != nil {
		return got.err
	}
	if token := got.continueIn(got.data); token != "" {
		r.query = maps.Clone(r.query)
		r.query.Set("continue", token)
		r.query.Del("resourceVersion") // the token has it
		r.query.Del("resourceVersionMatch")
		limit, size := got.nextLimit(o.Limit)
		if limit > 0 {
			r.query.Set("limit", strconv.FormatInt(limit, 10))
		}
		a.next = a.begin(ctx, c, r, size)
	}
	err := got.decode(got.data, into, kind)
	a.spare = got.into
	return err
}

// take is the page that was read ahead, if that is the one that a query is for; else nil.
func (a *Ahead) take(query url.Values) *page {
	next := a.next
	if a.next = nil; next == nil {
		return nil
	}
	<-next.done
	if next.err != nil || !isSamePage(next.query, query) {
		return nil // it is asked for once more: what was wrong may be over
	}
	return next
}

// begin reads a page of about so many bytes.
func (a *Ahead) begin(ctx context.Context, c *restClient, r request, size int) *page {
	r.answer = a.memory(size)
	p := &page{query: r.query, into: r.answer, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.document, p.err = c.read(ctx, r)
	}()
	return p
}

// memory has room for so many bytes: what grows while it is read is copied again and again.
func (a *Ahead) memory(size int) *bytes.Buffer {
	b := a.spare
	if a.spare = nil; b == nil || b.Cap() < size {
		b = bytes.NewBuffer(make([]byte, 0, size))
	}
	b.Reset()
	return b
}

// isSamePage says that two requests ask for the same page, whatever its length.
func isSamePage(a, b url.Values) bool {
	return a.Get("continue") == b.Get("continue") && a.Get("labelSelector") == b.Get("labelSelector") && a.Get("fieldSelector") == b.Get("fieldSelector")
}

// nextLimit is how many objects the next page should have, where so many are asked for, and about how many bytes these are. Pages grow step by step: of a
// short list the most would else come in one, with nothing to decode meanwhile.
func (p *page) nextLimit(asked int64) (limit int64, size int) {
	had, _ := strconv.ParseInt(p.query.Get("limit"), 10, 64)
	if had <= 0 || len(p.data) == 0 {
		return asked, 0
	}
	limit = max(asked, min(maxPage, 2*had, had*pageBytes/int64(len(p.data))))
	size = int(limit * int64(len(p.data)) / had)
	return limit, size + size/8
}

// continueIn is the token of the page behind a list; empty if there is none, or the list is not written as lists are.
func (jsonCodec) continueIn(data []byte) string {
	p := tree.Parser{Data: data}
	var token string
	_ = p.Each(func(key []byte) error { // what is wrong is found by whoever decodes it
		if string(key) != "metadata" {
			return p.Skip()
		}
		err := p.Each(func(key []byte) (err error) {
			if string(key) != "continue" {
				return p.Skip()
			}
			token, err = p.Text()
			return err
		})
		if err == nil {
			err = errEnough
		}
		return err
	})
	return token
}

func (protobufCodec) continueIn(data []byte) string {
	const listContinue = 3
	raw, _, err := open(data)
	if err != nil {
		return ""
	}
	var token string
	_ = eachField(raw, func(n protowire.Number, v []byte) error {
		if n != listMeta {
			return errEnough
		}
		return eachField(v, func(n protowire.Number, v []byte) error {
			if n == listContinue {
				token = string(v)
			}
			return nil
		})
	})
	return token
}
