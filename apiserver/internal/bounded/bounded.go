// Package bounded limits the size of other servers' responses. Kubernetes' clients read a response
// as a whole, so a webhook or an issuer that sends without end would use all memory.
//
//	client := &http.Client{Transport: bounded.Transport{RoundTripper: http.DefaultTransport}}
package bounded

import "net/http"

// MaxResponse is the maximum size of a response in bytes, many times that of a stored object.
const MaxResponse = 16 << 20

// Transport limits the bodies of responses to MaxResponse. Reading more returns an
// [http.MaxBytesError].
type Transport struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(req)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, MaxResponse)
	}
	return resp, err
}

// WrappedRoundTripper returns the wrapped transport, for code that looks for its connections.
func (t Transport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }
