package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxDelay is how late a request or a response may be. It is shorter than the time between the end
// of a leader's term and the beginning of the next, so that no write is delivered in the next term.
const maxDelay = 3 * time.Second

var errCut = errors.New("connection cut")

// network is the path of one replica to the server. Requests on it fail, are late, or lose their
// responses; watches are cut, late, or stall.
type network struct {
	server http.RoundTripper

	mu        sync.Mutex
	random    *rand.Rand
	faultless bool
	down      bool
	faults    map[string]int // by name: how often each happened
}

func newNetwork(server http.RoundTripper, seed, stream uint64) *network {
	return &network{server: server, random: rand.New(rand.NewPCG(seed, stream)), faults: map[string]int{}}
}

// set changes the state of the network: without faults, or without a connection.
func (n *network) set(faultless, down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faultless, n.down = faultless, down
}

func (n *network) isDown() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.down
}

func (n *network) between(low, high time.Duration) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return low + time.Duration(n.random.Int64N(int64(high-low)))
}

// fault chooses at random what happens to a request.
func (n *network) fault(r *http.Request, isWatch bool) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	luck, name := n.random.IntN(1000), "none"
	isWrite := r.Method != http.MethodGet
	switch {
	case n.down:
		name = "down"
	case n.faultless:
	case isWatch && luck < 600:
		name = "cut watch"
	case isWatch && luck < 700:
		name = "stalled watch"
	case isWatch && luck < 950:
		name = "late watch"
	case isWatch:
		name = "500"
	case luck < 40:
		name = "500"
	case luck < 80:
		name = "500 after execution"
	case luck < 100:
		name = "cut before execution"
	case luck < 130:
		name = "cut after execution"
	case luck < 150 && isWrite:
		name = "409"
	case luck < 170:
		name = "429"
	case luck < 250:
		name = "late request"
	case luck < 330:
		name = "late response"
	}
	n.faults[name]++
	return name
}

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	isWatch := r.URL.Query().Get("watch") == "true"
	if isWatch {
		return n.watch(r)
	}
	switch n.fault(r, false) {
	case "down", "cut before execution":
		return nil, errCut
	case "500":
		return answer(r, 500, "InternalError"), nil
	case "409":
		return answer(r, 409, "Conflict"), nil
	case "429":
		resp := answer(r, 429, "TooManyRequests")
		resp.Header.Set("Retry-After", "1")
		return resp, nil
	case "500 after execution":
		if _, err := n.execute(r, 0); err != nil {
			return nil, err
		}
		return answer(r, 500, "InternalError"), nil
	case "cut after execution":
		_, _ = n.execute(r, 0)
		return nil, errCut
	case "late request":
		return n.execute(r, n.between(0, maxDelay))
	case "late response":
		resp, err := n.execute(r, 0)
		if ctxErr := sleep(r.Context(), n.between(0, maxDelay)); ctxErr != nil {
			return nil, ctxErr
		}
		return resp, err
	}
	return n.execute(r, 0)
}

// execute sends a request after a delay, even if the client stops waiting for it meanwhile.
func (n *network) execute(r *http.Request, delay time.Duration) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}
	sent := r.Clone(context.WithoutCancel(r.Context()))
	sent.Body = io.NopCloser(bytes.NewReader(body))
	if delay == 0 {
		return n.server.RoundTrip(sent)
	}
	type result struct {
		resp *http.Response
		err  error
	}
	done := make(chan result, 1)
	go func() {
		time.Sleep(delay)
		resp, err := n.server.RoundTrip(sent)
		done <- result{resp, err}
	}()
	select {
	case got := <-done:
		return got.resp, got.err
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// watch opens a watch that ends, stalls or is late.
func (n *network) watch(r *http.Request) (*http.Response, error) {
	fault := n.fault(r, true)
	switch fault {
	case "down":
		return nil, errCut
	case "500":
		return answer(r, 500, "InternalError"), nil
	}
	resp, err := n.server.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	body := &watchBody{ReadCloser: resp.Body, ctx: r.Context(), network: n}
	switch fault {
	case "cut watch":
		body.cutAt = time.Now().Add(n.between(time.Second, 90*time.Second))
	case "stalled watch":
		body.stallAt = time.Now().Add(n.between(time.Second, 60*time.Second))
	case "late watch":
		body.lag = n.between(0, maxDelay)
	}
	resp.Body = body
	return resp, nil
}

// watchBody is the response to a watch. A watch on a network that went down stalls.
type watchBody struct {
	io.ReadCloser
	ctx            context.Context
	network        *network
	cutAt, stallAt time.Time
	lag            time.Duration
}

func (b *watchBody) Read(p []byte) (int, error) {
	stop := context.AfterFunc(b.ctx, func() { _ = b.Close() })
	defer stop()
	if !b.cutAt.IsZero() {
		defer time.AfterFunc(time.Until(b.cutAt), func() { _ = b.Close() }).Stop()
	}
	n, err := b.ReadCloser.Read(p)
	switch {
	case err != nil:
		return n, err
	case b.network.isDown() || !b.stallAt.IsZero() && time.Now().After(b.stallAt):
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	}
	return n, sleep(b.ctx, b.lag)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func answer(r *http.Request, code int, reason string) *http.Response {
	text := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":"injected"}`, code, reason)
	return &http.Response{
		StatusCode: code, Status: fmt.Sprint(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)),
	}
}
