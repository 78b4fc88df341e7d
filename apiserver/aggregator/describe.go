package aggregator

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/kube-openapi/pkg/handler3"

	"kelson.dev/apiserver/openapi"
)

const (
	// describeTimeout bounds the request of one OpenAPI document.
	describeTimeout = time.Minute
	// maxIndex and maxOpenAPI bound the v3 index and the v2 document, in bytes. Kubernetes' own v2
	// document, with all its groups, has four million bytes.
	maxIndex   = 1 << 20
	maxOpenAPI = 8 << 20
)

// describeIfDue reads the backend's OpenAPI documents in the background, if that is due. A server
// that has just started may list its resources before it can answer these requests. So if the first
// attempt finds no document, the next ones follow soon, for about two minutes.
func (b *backend) describeIfDue(ctx context.Context) {
	if !b.describing.CompareAndSwap(false, true) {
		return
	}
	if time.Since(b.describedAt) < describeEvery {
		b.describing.Store(false)
		return
	}
	first := b.describedAt.IsZero()
	b.describedAt = time.Now()
	b.ended.Go(func() {
		defer b.describing.Store(false)
		for wait := firstRetry; !b.describe(ctx) && first && wait <= describeEvery; wait *= 2 {
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
		}
	})
}

// describe reads the OpenAPI documents, and reports whether there is one. If a document cannot be
// read, the last one stays in use.
func (b *backend) describe(ctx context.Context) bool {
	b.mu.Lock()
	next := b.described
	b.mu.Unlock()
	warn := func(document string, err error) {
		if ctx.Err() == nil {
			b.cfg.Log.Warn("read OpenAPI document of backend", "apiservice", b.name, "document", document, "err", err)
		}
	}
	if part, etag, err := b.readV2(ctx); err != nil {
		warn("/openapi/v2", err)
	} else if part != nil {
		next.V2, b.etag = part, etag
	}
	switch hash, found, err := b.readIndex(ctx); {
	case err != nil:
		warn("/openapi/v3", err)
	case found:
		next.V3Hash, next.V3 = hash, b
	case next.V2 != nil:
		if hash, err = next.V2.V3Hash(); err != nil {
			warn("/openapi/v3", err)
		}
		next.V3Hash, next.V3 = hash, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	changed := next.V2 != b.described.V2 || next.V3Hash != b.described.V3Hash ||
		(next.V3 == nil) != (b.described.V3 == nil)
	b.described = next
	if changed && b.backends[b.name] == b {
		b.publish()
	}
	return next.V3Hash != ""
}

// aggregatorUser reads OpenAPI documents, as in kube-aggregator.
var aggregatorUser = identity{user: "system:aggregator"}

// readV2 reads the v2 document. The part is nil if the document has not changed, or if the backend
// has none.
func (b *backend) readV2(ctx context.Context) (part *openapi.Part, etag string, err error) {
	header := http.Header{}
	if b.etag != "" {
		header.Set("If-None-Match", b.etag)
	}
	resp, body, err := b.read(ctx, "/openapi/v2", maxOpenAPI, header)
	if err != nil || resp.StatusCode == http.StatusNotModified || resp.StatusCode == http.StatusNotFound {
		return nil, "", err
	}
	sum := sha256.Sum256(body)
	if sum == b.sum { // the server has no ETags
		return nil, "", nil
	}
	if part, err = openapi.ParseV2(body, b.gv); err == nil {
		b.sum = sum
	}
	return part, resp.Header.Get("Etag"), err
}

// readIndex returns the hash of the backend's v3 document about the group version.
func (b *backend) readIndex(ctx context.Context) (hash string, found bool, err error) {
	resp, body, err := b.read(ctx, "/openapi/v3", maxIndex, nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		return "", false, err
	}
	var index handler3.OpenAPIV3Discovery
	if err := json.Unmarshal(body, &index); err != nil {
		return "", false, fmt.Errorf("decode index: %w", err)
	}
	entry, ok := index.Paths[strings.TrimPrefix(root(b.gv), "/")]
	if !ok {
		return "", false, nil
	}
	if u, err := url.Parse(entry.ServerRelativeURL); err == nil && u.Query().Get("hash") != "" {
		return u.Query().Get("hash"), true, nil
	}
	return fmt.Sprintf("%X", sha256.Sum256([]byte(entry.ServerRelativeURL))), true, nil
}

// read reads a document. Statuses other than OK, Not Modified and Not Found are errors.
func (b *backend) read(ctx context.Context, path string, limit int64,
	header http.Header) (*http.Response, []byte, error) {
	at, err := b.cfg.Services.ResolveEndpoint(b.spec.Service.Namespace, b.spec.Service.Name, b.spec.Service.port())
	if err != nil {
		return nil, nil, err
	}
	at.Path = path
	resp, body, err := b.get(ctx, at.String(), describeTimeout, limit, aggregatorUser, header)
	if err != nil {
		return nil, nil, err
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusNotModified, http.StatusNotFound:
		return resp, body, nil
	}
	return nil, nil, fmt.Errorf("bad status from %v: %d", at, resp.StatusCode)
}
