// Package bounded limits what this server accepts from the servers that it calls. Kubernetes'
// clients read a response as a whole, so a webhook or an issuer that sends without end would use
// all memory. They also pause for as long as a response asks for.
//
//	client := &http.Client{Transport: bounded.Transport{RoundTripper: http.DefaultTransport}, Timeout: bounded.Timeout}
//
// docs/reference/security.md lists all calls with their limits. Responses that are passed on to
// clients as they arrive, such as those of aggregated servers, are not limited: they use one
// buffer.
package bounded

import (
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"time"
)

const (
	// MaxResponse is the maximum size of a response in bytes, many times that of a stored object.
	MaxResponse = 16 << 20
	// MaxObject is the maximum size of a response that contains one object, in bytes: more than two
	// stored objects. Decoded values take many times the memory of their text.
	MaxObject = 4 << 20
	// Timeout is how long a call may take that has no timeout of its own, with the time in which
	// the response arrives. It is that of Kubernetes' webhook clients.
	Timeout = 30 * time.Second
)

// Transport limits the bodies of responses. Reading more than the limit returns an
// [http.MaxBytesError]. It shortens the pause that a response requests with the header Retry-After
// to one second, because client-go waits that long before it sends the request again. It does not
// limit the time of a call: use the Timeout of [http.Client].
type Transport struct {
	http.RoundTripper
	// Max is the maximum size of a response in bytes; 0 means MaxResponse.
	Max int64
}

// RoundTrip implements [http.RoundTripper].
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(req)
	if err != nil {
		return resp, err
	}
	most := t.Max
	if most == 0 {
		most = MaxResponse
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, most)
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 1 {
		resp.Header.Set("Retry-After", "1")
	}
	return resp, nil
}

// WrappedRoundTripper returns the wrapped transport, for code that looks for its connections.
func (t Transport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// Wrap returns rt with the limits of Transport, for rest.Config.Wrap.
func Wrap(rt http.RoundTripper) http.RoundTripper { return Transport{RoundTripper: rt} }

// Inside limits the responses of the client that an unexported field of a library's value holds,
// where the library offers no other way. most is the maximum size, as in Transport. of points to a
// struct whose field is a *http.Client, or a pointer to a struct from which the exported fields in
// path lead to one. Inside returns an error if there is no such field, so that a new version of the
// library cannot remove the limit silently. Call it before the client is used.
func Inside(most int64, of any, field string, path ...string) error {
	v := reflect.ValueOf(of)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("limit responses of %T: not a pointer to a struct", of)
	}
	if v = v.Elem().FieldByName(field); !v.IsValid() || v.Kind() != reflect.Pointer || v.IsNil() {
		return fmt.Errorf("limit responses of %T: no pointer in field %s", of, field)
	}
	// The field is unexported, but the value that it points to may be used.
	v = reflect.NewAt(v.Type().Elem(), v.UnsafePointer())
	for _, name := range path {
		if v = v.Elem().FieldByName(name); !v.IsValid() || v.Kind() != reflect.Pointer || v.IsNil() {
			return fmt.Errorf("limit responses of %T: no pointer in field %s.%s", of, field, name)
		}
	}
	client, ok := v.Interface().(*http.Client)
	if !ok {
		return fmt.Errorf("limit responses of %T: field %s holds %s", of, field, v.Type())
	}
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	client.Transport = Transport{RoundTripper: next, Max: most}
	return nil
}
