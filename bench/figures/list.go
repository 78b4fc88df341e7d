package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// list measures a whole LIST, from the request to the last byte, by one client that does not
// decode, and reports the median of several.
func (l *life) list(ctx context.Context) error {
	if !l.wanted("list-cr") {
		return nil
	}
	if l.stock == 0 {
		return errNothing
	}
	c := l.client(l.http2)
	defer c.transport.CloseIdleConnections()
	defer l.profile(ctx, "list-cr")()
	buf := make([]byte, 1<<20)
	var all []time.Duration
	begin, size := time.Now(), int64(0)
	before, err := l.cpu()
	if err != nil {
		return err
	}
	// The first LIST fills the caches of both sides; its time does not count.
	for len(all) < 4 || len(all) < 30 && time.Since(begin) < l.length {
		start := time.Now()
		resp, err := c.transport.RoundTrip(c.request(ctx, http.MethodGet, widgets, "", nil))
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("list: %s", resp.Status)
		}
		n, err := io.CopyBuffer(onlyWriter{io.Discard}, onlyReader{resp.Body}, buf)
		resp.Body.Close()
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		if size = n; n < int64(l.stock)*1000 {
			return fmt.Errorf("list: %d bytes for %d objects", n, l.stock)
		}
		all = append(all, time.Since(start))
	}
	after, err := l.cpu()
	if err != nil {
		return err
	}
	cpu := (after - before) / time.Duration(len(all))
	all = all[1:]
	slices.Sort(all)
	l.set("list-cr", figure{
		measured: true, value: float64(all[len(all)/2]), cpu: cpu, note: fmt.Sprintf("%.1f MB", float64(size)/1e6),
	})
	return nil
}

// io.CopyBuffer uses its buffer only with types that have no ReadFrom and WriteTo.
type onlyReader struct{ io.Reader }
type onlyWriter struct{ io.Writer }
