package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// client is a client with its own connection. It does little work itself: bodies are prepared, and
// responses are read but not decoded. Only one goroutine may use it.
type client struct {
	transport *http.Transport
	base      *url.URL
	answer    []byte // to the last request
	body      bytes.Reader
	headers   map[string]http.Header
}

// client returns a client of one of the servers. Only one goroutine may call it.
func (s *server) client(http2 bool) *client {
	base, err := url.Parse(s.urls[s.given%len(s.urls)])
	s.given++
	if err != nil {
		panic(err) // the URL is a constant of this program
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(http2)
	return &client{base: base, headers: map[string]http.Header{}, transport: &http.Transport{
		TLSClientConfig: s.tls.Clone(), Protocols: protocols, DisableCompression: true, MaxIdleConnsPerHost: 1,
	}}
}

func (s *server) clients(o *options, n int) []*client {
	clients := make([]*client, n)
	for i := range clients {
		clients[i] = s.client(o.http2)
	}
	return clients
}

func closeAll(clients []*client) {
	for _, c := range clients {
		c.transport.CloseIdleConnections()
	}
}

// request returns a request; the headers of a media type are created once.
func (c *client) request(ctx context.Context, method, path, media string, body []byte) *http.Request {
	header := c.headers[media]
	if header == nil {
		header = http.Header{"Accept": {"application/json"}, "User-Agent": {"figures"}}
		if media != "" {
			header.Set("Content-Type", media)
		}
		c.headers[media] = header
	}
	target := *c.base
	target.Path, target.RawQuery, _ = strings.Cut(path, "?")
	req := &http.Request{Method: method, URL: &target, Host: target.Host, Header: header, Proto: "HTTP/1.1",
		ProtoMajor: 1, ProtoMinor: 1}
	if body != nil {
		c.body.Reset(body)
		req.Body, req.ContentLength = io.NopCloser(&c.body), int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	return req.WithContext(ctx)
}

// do sends a request and reads the whole response. Status codes other than 200 and 201 are errors.
func (c *client) do(ctx context.Context, method, path, media string, body []byte) error {
	resp, err := c.transport.RoundTrip(c.request(ctx, method, path, media, body))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	c.answer, err = readAll(resp.Body, c.answer[:0])
	resp.Body.Close()
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s %s: %s %.300s", method, path, resp.Status, c.answer)
	}
	return nil
}

func readAll(r io.Reader, into []byte) ([]byte, error) {
	for {
		if len(into) == cap(into) {
			into = append(into, 0)[:len(into)]
		}
		n, err := r.Read(into[len(into):cap(into)])
		into = into[:len(into)+n]
		if err == io.EOF {
			return into, nil
		}
		if err != nil {
			return into, err
		}
	}
}

// field finds the string value of a name in JSON. The name must not occur before it in other
// values.
func field(data []byte, name string) []byte {
	i := bytes.Index(data, []byte(`"`+name+`":"`))
	if i < 0 {
		return nil
	}
	data = data[i+len(name)+4:]
	return data[:max(0, bytes.IndexByte(data, '"'))]
}
