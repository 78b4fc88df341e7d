package internal_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"kelson.dev/apiserver/bounded"
	"kelson.dev/internal/require"
)

// server answers every request with size bytes.
type server struct{ size int }

func (s server) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Retry-After": {"3600"}},
		Body: io.NopCloser(strings.NewReader(strings.Repeat("x", s.size))),
	}, nil
}

// read returns the size of a response.
func read(t *testing.T, client *http.Client) (int, error) {
	t.Helper()
	resp, err := client.Get("http://example.com")
	require.NoError(t, err)
	defer resp.Body.Close()
	if got := resp.Header.Get("Retry-After"); got != "1" {
		t.Errorf("the response asks for a pause of %s seconds", got)
	}
	body, err := io.ReadAll(resp.Body)
	return len(body), err
}

func TestTransport(t *testing.T) {
	for _, size := range []int{10, 11} {
		n, err := read(t, &http.Client{Transport: bounded.Transport{RoundTripper: server{size}, Max: 10}})
		var tooLarge *http.MaxBytesError
		if n != 10 || errors.As(err, &tooLarge) != (size > 10) {
			t.Errorf("%d bytes: read %d, %v", size, n, err)
		}
	}
}

// A client in an unexported field of a library's value is limited, too, or the caller gets an
// error.
func TestInside(t *testing.T) {
	type inner struct{ Client *http.Client }
	type library struct {
		client *http.Client
		hook   *inner
		empty  *inner
	}
	l := &library{client: &http.Client{Transport: server{11}}, hook: &inner{&http.Client{Transport: server{11}}},
		empty: nil}
	require.NoError(t, errors.Join(bounded.Inside(10, l, "client"), bounded.Inside(10, l, "hook", "Client")))
	for _, client := range []*http.Client{l.client, l.hook.Client} {
		if n, err := read(t, client); n != 10 || err == nil {
			t.Errorf("read %d, %v", n, err)
		}
	}
	for _, field := range [][]string{{"hook"}, {"hook", "Missing"}, {"missing"}, {"empty", "Client"}} {
		if bounded.Inside(10, l, field[0], field[1:]...) == nil {
			t.Errorf("%v: no error", field)
		}
	}
	if bounded.Inside(10, *l, "client") == nil {
		t.Error("not a pointer: no error")
	}
}
