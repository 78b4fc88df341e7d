package inprocess

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// URL is the address of API servers in this process, in URLs and kubeconfigs. It is never resolved.
const URL = "http://kelson.in-process"

// Call is one request to an API server in this process.
//
//	answer, err := inprocess.Call{Method: "PUT", Path: path, Body: configMap}.Do(ctx, transport)
type Call struct {
	Method string // "" means GET
	Path   string // with the query
	// Body is sent unchanged if it is a []byte, and otherwise encoded as JSON; nil means no body.
	Body any
	// ContentType is the media type of the body; "" means application/json.
	ContentType string
	// UserAgent determines the manager of the fields that a write changes.
	UserAgent string
}

// Do sends the request and returns the body of the response. If the response reports an error, Do
// returns it as an [apierrors.APIStatus].
func (c Call) Do(ctx context.Context, transport http.RoundTripper) ([]byte, error) {
	stream, err := c.Open(ctx, transport)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	return io.ReadAll(stream)
}

// Open is like Do for responses that are read while the server writes them. The caller must close
// the stream.
func (c Call) Open(ctx context.Context, transport http.RoundTripper) (io.ReadCloser, error) {
	req, err := c.request(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", c.Method, c.Path, err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", req.Method, c.Path, err)
	}
	if resp.StatusCode < 300 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	return nil, failure(req, resp)
}

func (c Call) request(ctx context.Context) (*http.Request, error) {
	var body io.Reader
	switch b := c.Body.(type) {
	case nil:
	case []byte:
		body = bytes.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, c.Method, URL+c.Path, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		if c.ContentType != "" {
			req.Header.Set("Content-Type", c.ContentType)
		}
	}
	req.Header.Set("User-Agent", c.UserAgent)
	return req, nil
}

// maxError limits how much of an error's body is read, in bytes.
const maxError = 64 << 10

// failure returns the error that a response reports: its Status, or its text.
func failure(req *http.Request, resp *http.Response) error {
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	if err != nil {
		answer = nil // the status code is enough
	}
	status := metav1.Status{}
	if json.Unmarshal(answer, &status) == nil && status.Kind == "Status" {
		return &apierrors.StatusError{ErrStatus: status}
	}
	generic := apierrors.NewGenericServerResponse(resp.StatusCode, req.Method, schema.GroupResource{}, "", "", 0, false)
	generic.ErrStatus.Message = fmt.Sprintf("%s %s: %s: %s", req.Method, req.URL.Path, resp.Status,
		bytes.TrimSpace(answer))
	return generic
}
