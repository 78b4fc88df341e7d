package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"kelson.dev/bench/lean"
	"kelson.dev/test/child"
)

const (
	// clients is the number of concurrent clients, each with its own HTTP/1.1 connection. A client
	// sends one request after the other and does not decode responses, so that the figures show the
	// servers' work.
	clients = 16
	// objectCount is the number of objects that the clients create, and then read and list, as in
	// bench/figures.
	objectCount = 10_000
	// deleted is the number of these objects that the clients delete, and patched the number that
	// they change.
	deleted, patched = 5_000, 2_000
	// loadTime is the time for which the clients repeat requests that change nothing.
	loadTime = 3 * time.Second
	// watchers is the number of watchers, and watchedCount the number of objects whose creation
	// they receive.
	watchers, watchedCount = 100, 1_000
)

// load sends requests of several clients to a server.
type load struct {
	side    processes
	base    string // the server's URL
	crowd   [clients]*lean.Client
	streams *http.Transport // for responses that a lean client would keep in memory
	figures map[string]float64
	// crowded is the path of the collection with many objects, watched of the one that clients
	// watch.
	crowded, watched string
}

// loads measures requests per second and the server's processor time for each request, and, if
// memory is true, the memory with many objects. It uses the namespaces kube-public and
// kube-node-lease, which exist in each cluster.
func loads(ctx context.Context, config *rest.Config, side processes, memory bool, figures map[string]float64) error {
	settings, err := rest.TLSConfigFor(config)
	if err != nil {
		return err
	}
	base, err := url.Parse(config.Host)
	if err != nil {
		return err
	}
	const namespaces = "/apis/wardle.example.com/v1alpha1/namespaces/"
	l := &load{side: side, base: config.Host, figures: figures, crowded: namespaces + "kube-public/flunders",
		watched: namespaces + "kube-node-lease/flunders",
		streams: &http.Transport{TLSClientConfig: settings.Clone(), DisableCompression: true}}
	defer l.streams.CloseIdleConnections()
	for i := range l.crowd {
		l.crowd[i] = lean.New(base, settings)
		defer l.crowd[i].Close()
		// The figures do not include the time to connect.
		if err := send(l.crowd[i], http.MethodGet, l.watched, "", ""); err != nil {
			return err
		}
	}
	object := func(n int64) string { return fmt.Sprint(l.crowded, "/l", n%objectCount) }
	if err := l.measure(loadCreate, clients, objectCount, 0, func(c *lean.Client, n int64) error {
		return create(c, l.crowded, n)
	}); err != nil {
		return err
	}
	if memory {
		if figures[crowded], err = side.atRest(); err != nil {
			return err
		}
	}
	if err := l.measure(loadGet, clients, 0, loadTime, func(c *lean.Client, n int64) error {
		return send(c, http.MethodGet, object(n), "", "")
	}); err != nil {
		return err
	}
	if err := l.measure(loadList, 1, 0, loadTime, func(*lean.Client, int64) error {
		list, err := l.stream(ctx, l.crowded)
		if err != nil {
			return err
		}
		defer list.Close()
		_, err = io.Copy(io.Discard, list)
		return err
	}); err != nil {
		return err
	}
	if err := l.measure(loadPatch, clients, patched, 0, func(c *lean.Client, n int64) error {
		return send(c, http.MethodPatch, object(n), "application/merge-patch+json",
			fmt.Sprintf(`{"spec":{"reference":"%d"}}`, n))
	}); err != nil {
		return err
	}
	if err := l.measure(loadApply, clients, patched, 0, func(c *lean.Client, n int64) error {
		body := fmt.Sprintf(`{"apiVersion":"wardle.example.com/v1alpha1","kind":"Flunder","metadata":{"name":"l%d"},"spec":{"reference":"a%d"}}`, n%objectCount, n)
		return send(c, http.MethodPatch, object(n)+"?fieldManager=bench&force=true", "application/apply-patch+yaml",
			body)
	}); err != nil {
		return err
	}
	if err := l.measure(loadDelete, clients, deleted, 0, func(c *lean.Client, n int64) error {
		return send(c, http.MethodDelete, object(n), "", "")
	}); err != nil {
		return err
	}
	return l.watch(ctx)
}

// measure makes some clients send count requests, or send requests for a time d if count is 0. send
// gets the number of the request, from 0.
func (l *load) measure(name string, clients int, count int64, d time.Duration,
	send func(c *lean.Client, n int64) error) error {
	before, err := l.side.processorTime()
	if err != nil {
		return err
	}
	var (
		begun  atomic.Int64
		failed atomic.Pointer[error]
		group  sync.WaitGroup
		first  = time.Now()
	)
	for _, c := range l.crowd[:clients] {
		group.Go(func() {
			for failed.Load() == nil {
				if count == 0 && time.Since(first) >= d {
					return
				}
				n := begun.Add(1) - 1
				if count > 0 && n >= count {
					return
				}
				if err := send(c, n); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return fmt.Errorf("%s: %w", name, *err)
	}
	took := time.Since(first)
	after, err := l.side.processorTime()
	if err != nil {
		return err
	}
	if count == 0 {
		count = begun.Load()
	}
	l.figures[name+perSecond] = float64(count) / took.Seconds()
	l.figures[name+processor] = float64((after - before).Microseconds()) / float64(count)
	return nil
}

// stream returns the body of the response to a GET, which the caller closes.
func (l *load) stream(ctx context.Context, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.base+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := l.streams.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("%s: %s", path, resp.Status)
	}
	return resp.Body, nil
}

// watch measures how many events per second all watchers together receive.
func (l *load) watch(ctx context.Context) error {
	var streams [watchers]io.ReadCloser
	for i := range streams {
		s, err := l.stream(ctx, l.watched+"?watch=true")
		if err != nil {
			return err
		}
		defer s.Close()
		streams[i] = s
	}
	ended := make(chan error, watchers)
	for _, s := range streams {
		go func() {
			lines := bufio.NewReaderSize(s, 64<<10)
			for range watchedCount {
				if _, err := lines.ReadSlice('\n'); err != nil {
					ended <- fmt.Errorf("watch: %w", err)
					return
				}
			}
			ended <- nil
		}()
	}
	begun := time.Now()
	before, err := l.side.processorTime()
	if err != nil {
		return err
	}
	if err := l.measure("creations of watched objects", clients, watchedCount, 0, func(c *lean.Client, n int64) error {
		return create(c, l.watched, n)
	}); err != nil {
		return err
	}
	for range watchers {
		if err := <-ended; err != nil {
			return err
		}
	}
	after, err := l.side.processorTime()
	l.figures[loadWatch+perSecond] = watchers * watchedCount / time.Since(begun).Seconds()
	l.figures[loadWatch+processor] = float64((after - before).Microseconds()) / (watchers * watchedCount)
	return err
}

// create creates the nth object of a collection.
func create(c *lean.Client, collection string, n int64) error {
	body := fmt.Sprintf(`{"apiVersion":"wardle.example.com/v1alpha1","kind":"Flunder","metadata":{"name":"l%d"},"spec":{"reference":%q}}`, n, reference)
	return send(c, http.MethodPost, collection, "application/json", body)
}

func send(c *lean.Client, method, path, media, body string) error {
	_, err := c.Do(method, path, media, []byte(body))
	return err
}

// processorTime returns the processor time that the processes have used.
func (p processes) processorTime() (sum time.Duration, err error) {
	for _, id := range p {
		used, err := child.UsageOf(id)
		if err != nil {
			return 0, err
		}
		sum += used.CPU
	}
	return sum, nil
}
