package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// runMillion loads Kelson with many objects, lists them in pages, restarts it with the same
// directory, and lists them again: the pages must be the same. It does not measure the peer, which
// would take a quarter of an hour.
func (o *options) runMillion(ctx context.Context) error {
	const clients, namespaces = 64, 10
	srv, err := o.start(ctx, alone.sides[1])
	if err != nil {
		return err
	}
	defer srv.stop()
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	c := srv.client(false)
	for i := range namespaces {
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"million-%d"}}`, i)
		if err := c.do(ctx, http.MethodPost, "/api/v1/namespaces", jsonMedia, body); err != nil {
			return err
		}
	}
	data := strings.Repeat("x", o.millionBytes)
	all := srv.clients(o, clients)
	bufs := bodies(clients)
	var next atomic.Int64
	profiled := (&life{options: o, server: srv, column: 1}).profile(ctx, "million-load")
	done, err := srv.drive(ctx, all, 0, func(ctx context.Context, c *client, clientNumber int) error {
		n := next.Add(1)
		if n > int64(o.million) {
			return errEnough
		}
		bufs[clientNumber] = fmt.Appendf(bufs[clientNumber][:0],
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c-%07d"},"data":{"k":"%s"}}`, n, data)
		return c.do(ctx, http.MethodPost, fmt.Sprintf("/api/v1/namespaces/million-%d/configmaps", n%namespaces),
			jsonMedia, bufs[clientNumber])
	})
	closeAll(all)
	profiled()
	if err != nil {
		return err
	}
	say("load: %s objects in %s, %s/s by %d clients, p99 %s, %s of the server's processor time each",
		thousands(float64(done.operations)),
		done.took.Round(time.Millisecond), thousands(done.perSecond()), clients, done.p99.Round(10*time.Microsecond),
		done.cpu.Round(100*time.Nanosecond))
	if err := o.sayMemory(ctx, srv, "after the load"); err != nil {
		return err
	}
	before, err := pages(ctx, c, "/api/v1/configmaps", 500)
	if err != nil {
		return err
	}
	say("list: %s objects in %d pages of 500, %s, the slowest page %s", thousands(float64(before.objects)),
		before.pages, before.took.Round(time.Millisecond),
		before.slowest.Round(10*time.Microsecond))
	if before.objects < o.million {
		return fmt.Errorf("only %d of %d objects were listed", before.objects, o.million)
	}
	start := time.Now()
	whole, err := c.transport.RoundTrip(c.request(ctx, http.MethodGet, "/api/v1/configmaps", "", nil))
	if err != nil {
		return err
	}
	size, err := io.Copy(io.Discard, whole.Body)
	whole.Body.Close()
	if err != nil {
		return err
	}
	say("list at once: %.2f GB in %s", float64(size)/1e9, time.Since(start).Round(time.Millisecond))
	if err := o.sayMemory(ctx, srv, "after the lists"); err != nil {
		return err
	}
	c.transport.CloseIdleConnections()

	p := srv.processes[0]
	begin := time.Now()
	p.Stop(grace)
	say("stop: %s; the data directory has %.2f GB", time.Since(begin).Round(time.Millisecond),
		float64(dirSize(filepath.Join(srv.dir, "data")))/1e9)
	srv.processes, srv.urls = nil, nil
	if err := o.startKelson(ctx, srv, nil, time.Now()); err != nil {
		return err
	}
	say("start over it: %s to /readyz", srv.readyIn.Round(time.Millisecond))
	if err := o.sayMemory(ctx, srv, "after the start"); err != nil {
		return err
	}
	c = srv.client(false)
	after, err := pages(ctx, c, "/api/v1/configmaps", 500)
	if err != nil {
		return err
	}
	if after.objects != before.objects || after.sum != before.sum {
		return fmt.Errorf("the list has %d objects after the restart, %d before, or different ones", after.objects,
			before.objects)
	}
	say("list after the restart: the same %s objects, %s", thousands(float64(after.objects)),
		after.took.Round(time.Millisecond))
	return nil
}

func (o *options) sayMemory(ctx context.Context, s *server, when string) error {
	if err := o.waitIdle(ctx); err != nil {
		return err
	}
	m, err := s.usage()
	if err == nil {
		fmt.Printf("memory %s: %s MiB resident, %s MiB of it anonymous\n", when, thousands(float64(m.Resident>>20)),
			thousands(float64(m.Anonymous>>20)))
	}
	return err
}

// listed summarizes a paged list.
type listed struct {
	pages, objects int
	sum            uint64 // total bytes of all items
	took, slowest  time.Duration
}

var seed = maphash.MakeSeed()

func pages(ctx context.Context, c *client, collection string, limit int) (l listed, err error) {
	var sum maphash.Hash
	sum.SetSeed(seed)
	begin := time.Now()
	for token := ""; ; {
		path := fmt.Sprintf("%s?limit=%d", collection, limit)
		if token != "" {
			path += "&continue=" + url.QueryEscape(token)
		}
		start := time.Now()
		if err := c.do(ctx, http.MethodGet, path, "", nil); err != nil {
			return l, err
		}
		l.slowest = max(l.slowest, time.Since(start))
		l.pages++
		head, items, ok := bytes.Cut(c.answer, []byte(`"items":[`))
		if !ok {
			return l, errors.New("a page without items")
		}
		items = bytes.TrimSuffix(bytes.TrimSpace(items), []byte("]}"))
		if l.objects > 0 && len(items) > 0 {
			sum.WriteByte(',')
		}
		sum.Write(items)
		l.objects += bytes.Count(items, []byte(`"uid":"`))
		token = string(field(head, "continue"))
		if token == "" {
			l.took, l.sum = time.Since(begin), sum.Sum64()
			return l, nil
		}
	}
}

func dirSize(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := os.Stat(filepath.Join(dir, d.Name())); err == nil {
			size += info.Size()
		}
		return nil
	})
	return size
}
