// Package lean has an HTTP client for benchmarks. It takes about a third of the processor time that
// net/http takes for a small request, so that figures of requests per second show the server's work
// rather than the clients', which share its processors.
package lean

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net/url"

	"github.com/valyala/fasthttp"
)

// Client sends one request after the other over one connection with HTTP/1.1. It reads responses
// whole and does not decode them. Only one goroutine may use it.
type Client struct {
	host     fasthttp.HostClient
	base     string
	request  fasthttp.Request
	response fasthttp.Response
}

// New returns a client of the server at a base URL, which has no path.
func New(base *url.URL, settings *tls.Config) *Client {
	return &Client{base: base.Scheme + "://" + base.Host, host: fasthttp.HostClient{
		Addr: base.Host, IsTLS: base.Scheme == "https", TLSConfig: settings.Clone(),
		NoDefaultUserAgentHeader: true, MaxConns: 1, MaxIdemponentCallAttempts: 1,
		ReadBufferSize: 64 << 10,
	}}
}

// Do sends a request and returns the body of the response, which is valid until the next call.
// Status codes other than 2xx are errors.
func (c *Client) Do(method, path, media string, body []byte) ([]byte, error) {
	c.request.Reset()
	c.request.Header.SetMethod(method)
	c.request.Header.Set("Accept", "application/json")
	c.request.Header.Set("User-Agent", "bench")
	if media != "" {
		c.request.Header.SetContentType(media)
	}
	c.request.SetRequestURI(c.base + path)
	c.request.SetBodyRaw(body)
	if err := c.host.Do(&c.request, &c.response); err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	answer := c.response.Body()
	if code := c.response.StatusCode(); code/100 != 2 {
		return nil, fmt.Errorf("%s %s: %d %s", method, path, code, bytes.TrimSpace(answer[:min(len(answer), 1000)]))
	}
	return answer, nil
}

// Close closes the connection.
func (c *Client) Close() { c.host.CloseIdleConnections() }
