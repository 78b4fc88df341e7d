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
	next  *nextPage     // nil if none is on its way
}

type nextPage struct {
	query url.Values
	into  *bytes.Buffer
	done  chan struct{} // is closed when there is
	page  document
	err   error
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
	page, memory, err := a.take(ctx, c, r)
	if err != nil {
		return err
	}
	if token := page.continueIn(page.data); token != "" {
		a.begin(ctx, c, r, token, largerLimit(o.Limit, r.query, len(page.data)))
	}
	err = page.decode(page.data, into, kind)
	a.spare = memory
	return err
}

// take is the page that a request asks for, and the memory that it is in.
func (a *Ahead) take(ctx context.Context, c *restClient, r request) (document, *bytes.Buffer, error) {
	if next := a.next; next != nil {
		a.next = nil
		<-next.done
		if next.err == nil && isSamePage(next.query, r.query) {
			return next.page, next.into, nil
		}
		// It is asked for once more: what was wrong may be over.
	}
	r.answer = a.memory()
	page, err := c.read(ctx, r)
	return page, r.answer, err
}

// begin reads the page behind a token.
func (a *Ahead) begin(ctx context.Context, c *restClient, r request, token string, limit int64) {
	r.query = maps.Clone(r.query)
	r.query.Set("continue", token)
	r.query.Del("resourceVersion") // the token has it
	r.query.Del("resourceVersionMatch")
	if limit > 0 {
		r.query.Set("limit", strconv.FormatInt(limit, 10))
	}
	r.answer = a.memory()
	next := &nextPage{query: r.query, into: r.answer, done: make(chan struct{})}
	a.next = next
	go func() {
		defer close(next.done)
		next.page, next.err = c.read(ctx, r)
	}()
}

func (a *Ahead) memory() *bytes.Buffer {
	b := a.spare
	if a.spare = nil; b == nil {
		b = &bytes.Buffer{}
	}
	b.Reset()
	return b
}

// isSamePage says that two requests ask for the same page, whatever its length.
func isSamePage(a, b url.Values) bool {
	return a.Get("continue") == b.Get("continue") && a.Get("labelSelector") == b.Get("labelSelector") && a.Get("fieldSelector") == b.Get("fieldSelector")
}

// largerLimit is how many objects the next page should have, after one of so many bytes.
func largerLimit(asked int64, query url.Values, size int) int64 {
	had, _ := strconv.ParseInt(query.Get("limit"), 10, 64)
	if had <= 0 || size == 0 {
		return asked
	}
	return max(asked, min(maxPage, had*pageBytes/int64(size)))
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
