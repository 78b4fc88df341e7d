package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const (
	// maxAttempts bounds how often a request is sent if the server asks for a retry or the
	// connection breaks.
	maxAttempts = 10
	// maxRetryAfter bounds a single wait that the server asks for.
	maxRetryAfter = 30 * time.Second
	// smallAnswer is a size that most responses don't exceed.
	smallAnswer = 4 << 10
	// reconnectDelay is the wait before a read is retried over a new connection.
	reconnectDelay = 100 * time.Millisecond
)

var statusKind = metav1.SchemeGroupVersion.WithKind("Status")

// A request describes one HTTP request and how to read its response.
type request struct {
	method      string
	path        string // below the base URL, beginning with a slash
	query       url.Values
	contentType string
	accept      string
	body        []byte
	stream      bool          // the response is a stream: no overall timeout
	reports     bool          // the caller itself waits as long as the server asks
	share       *sharing      // shared parts of the decoded values
	answer      *bytes.Buffer // buffer for the response; nil to allocate one

	// For errors whose body is not a Status.
	resource schema.GroupResource
	name     string
}

// send sends the request and returns a response with a 2xx code, whose body the caller closes.
// Every other outcome is an error. send retries reads if the connection broke. Unless r.reports is
// set, it also retries 429 and 503 with Retry-After, after that time.
func (c *restClient) send(ctx context.Context, r request) (*http.Response, error) {
	if r.method != http.MethodGet || r.stream {
		return c.sendPatiently(ctx, r)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	resp, err := c.sendPatiently(ctx, r)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	late := time.AfterFunc(answerWithin, func() { cancel(errSilent) })
	resp.Body = &audible{ReadCloser: resp.Body, ctx: ctx, cancel: cancel, late: late}
	return resp, nil
}

var errSilent = fmt.Errorf("the server sent nothing for %v", answerWithin)

// audible is a response body whose reads fail if nothing arrives for answerWithin: a load balancer
// may have lost the server in the middle of a large list.
type audible struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	late   *time.Timer // cancels ctx
}

func (b *audible) Read(p []byte) (int, error) {
	b.late.Reset(answerWithin)
	n, err := b.ReadCloser.Read(p)
	if err != nil && context.Cause(b.ctx) == errSilent {
		err = errSilent
	}
	return n, err
}

func (b *audible) Close() error {
	b.late.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}

// sendPatiently is send without a limit on the time that the body takes.
func (c *restClient) sendPatiently(ctx context.Context, r request) (*http.Response, error) {
	target := *c.base
	target.Path += r.path
	target.RawQuery = r.query.Encode()
	client := c.http
	switch {
	case r.stream:
		client = c.streams
	case r.resource.Group == coordinationv1.GroupName:
		client = c.leases
	}
	for attempt := 1; ; attempt++ {
		var body io.Reader
		if r.body != nil {
			body = bytes.NewReader(r.body)
		}
		req, err := http.NewRequestWithContext(ctx, r.method, "/", body)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", r.method, r.path, err)
		}
		req.URL, req.Host = &target, target.Host
		req.Header.Set("Accept", r.accept)
		// otherwise the transport sets it, on a copy of the request
		req.Header.Set("User-Agent", c.agent)
		if r.contentType != "" {
			req.Header.Set("Content-Type", r.contentType)
		}
		if r.stream && !c.compress {
			req.Header.Set("Accept-Encoding", "identity")
		}
		resp, err := client.Do(req)
		var wait time.Duration
		switch {
		case err != nil:
			if r.method != http.MethodGet || ctx.Err() != nil || attempt == maxAttempts || !isBroken(err) {
				return nil, err // the error contains method and address
			}
			wait = reconnectDelay
		default:
			c.passWarnings(ctx, resp.Header)
			if resp.StatusCode >= 200 && resp.StatusCode < 300 {
				c.detectProtobuf(resp)
				return resp, nil
			}
			after, again := retryAfter(resp)
			err = c.errorOf(r, resp)
			if !again || r.reports || attempt == maxAttempts {
				return nil, err
			}
			wait = after
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

// read is send for a response that is a single document.
func (c *restClient) read(ctx context.Context, r request) (document, error) {
	resp, err := c.send(ctx, r)
	if err != nil {
		return document{}, err
	}
	defer resp.Body.Close()
	data, err := readAll(resp, r.answer)
	if err != nil {
		return document{}, fmt.Errorf("%s %s: read response: %w", r.method, r.path, err)
	}
	return document{data, codecOf(resp, r.share)}, nil
}

// Document reads a JSON document that is not an object, such as discovery, /version or /openapi/v3.
func Document(ctx context.Context, c Client, path string, into any) error {
	r, ok := c.(*restClient)
	if !ok {
		return fmt.Errorf("GET %s: a %T cannot read documents", path, c)
	}
	return r.getDocument(ctx, path, into)
}

// getDocument implements Document.
func (c *restClient) getDocument(ctx context.Context, path string, into any) error {
	doc, err := c.read(ctx, request{method: http.MethodGet, path: path, accept: jsonType})
	if err != nil {
		return err
	}
	if err := unmarshal(doc.data, into); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

func (c *restClient) passWarnings(ctx context.Context, header http.Header) {
	if len(header["Warning"]) == 0 {
		return
	}
	warnings, _ := utilnet.ParseWarningHeaders(header["Warning"]) // ignore malformed headers
	for _, w := range warnings {
		if w.Code == 299 && w.Text != "" {
			c.warnings(ctx, w.Text)
		}
	}
}

// errorOf returns the error in a response, and closes its body.
func (c *restClient) errorOf(r request, resp *http.Response) error {
	defer resp.Body.Close()
	data, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var status metav1.Status
	if codecOf(resp, nil).decode(data, &status, statusKind) == nil &&
		codecOf(resp, nil).kindIn(data).Kind == statusKind.Kind && status.Status != metav1.StatusSuccess {
		if status.Code == 0 {
			status.Code = int32(resp.StatusCode)
		}
		if wait, ok := retryAfter(resp); ok && (status.Details == nil || status.Details.RetryAfterSeconds == 0) {
			if status.Details == nil {
				status.Details = &metav1.StatusDetails{}
			}
			status.Details.RetryAfterSeconds = int32(wait / time.Second)
		}
		return &apierrors.StatusError{ErrStatus: status}
	}
	if resp.StatusCode == http.StatusNotFound { // the server does not serve the path
		c.forget(r.resource.Group)
	}
	after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return apierrors.NewGenericServerResponse(resp.StatusCode, r.method, r.resource, r.name,
		strings.TrimSpace(string(data)), after, true)
}

func retryAfter(resp *http.Response) (time.Duration, bool) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0, false
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter), true
}

// isBroken reports whether a connection ended during a request, as happens when the server
// restarts.
func isBroken(err error) bool {
	return utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsProbableEOF(err)
}

// readAll reads a response, into b if it is not nil.
func readAll(resp *http.Response, b *bytes.Buffer) ([]byte, error) {
	if n := resp.ContentLength; b == nil && n > 0 && n < 1<<30 {
		data := make([]byte, n)
		_, err := io.ReadFull(resp.Body, data)
		return data, err
	}
	if b == nil {
		// io.ReadAll starts with such a small buffer that it would copy most responses several
		// times.
		b = bytes.NewBuffer(make([]byte, 0, smallAnswer))
	}
	_, err := b.ReadFrom(resp.Body)
	return b.Bytes(), err
}
