package main

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// bodies are buffers for request bodies, one per client.
func bodies(n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = make([]byte, 0, 2<<10)
	}
	return all
}

// fill stores the objects that later rows read and list: the same number of ConfigMaps and widgets,
// with 16 clients. It also measures the rows of these creations.
func (l *life) fill(ctx context.Context) error {
	clients := l.clients(l.options, 16)
	defer closeAll(clients)
	for _, kind := range []struct {
		id     string
		create func(context.Context, *client, []byte) error
	}{{"create-cm-16", l.createConfigMap}, {"create-cr-16", l.createWidget}} {
		var made atomic.Int64
		bufs := bodies(len(clients))
		done, err := l.drive(ctx, clients, 0, func(ctx context.Context, c *client, clientNumber int) error {
			if made.Add(1) > int64(l.objects) {
				return errEnough
			}
			return kind.create(ctx, c, bufs[clientNumber])
		})
		if err != nil {
			return fmt.Errorf("%s: %w", kind.id, err) // later rows need the objects
		}
		l.set(kind.id, done.figure())
	}
	l.stock, l.widgets = l.objects, nil // later rows only read the fill's widgets
	return nil
}

// reads measures GETs of random stored objects.
func (l *life) reads(ctx context.Context) error {
	if l.stock == 0 {
		return errNothing
	}
	for _, n := range []int{16, 64} {
		for _, kind := range []struct{ id, path, prefix string }{{"get-cm", configMaps, "c"},
			{"get-cr", widgets, "w"}} {
			id := fmt.Sprintf("%s-%d", kind.id, n)
			if !l.wanted(id) {
				continue
			}
			var paths []string
			for i := range l.stock {
				number := i + 1
				if kind.prefix == "w" { // their numbers come after those of the ConfigMaps
					number += l.stock
				}
				paths = append(paths, fmt.Sprintf("%s/%s-%07d", kind.path, kind.prefix, number))
			}
			at := make([]int, n)
			err := l.verb(ctx, id, n, func(ctx context.Context, c *client, clientNumber int) error {
				at[clientNumber]++
				return c.do(ctx, http.MethodGet, paths[(clientNumber*7919+at[clientNumber]*31)%len(paths)], "", nil)
			})
			if err := l.lost(ctx, err, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// verb measures one row.
func (l *life) verb(ctx context.Context, id string, n int,
	op func(ctx context.Context, c *client, clientNumber int) error) error {
	return l.verbFor(ctx, id, n, l.length, op)
}

// verbFor does the same as verb, for a given duration; 0 means until all work is done.
func (l *life) verbFor(ctx context.Context, id string, n int, d time.Duration,
	op func(ctx context.Context, c *client, clientNumber int) error) error {
	clients := l.clients(l.options, n)
	defer closeAll(clients)
	defer l.profile(ctx, id)()
	done, err := l.drive(ctx, clients, d, op)
	if err != nil {
		return err
	}
	l.set(id, done.figure())
	return nil
}

// writes measures the verbs that write, on their own widgets and ConfigMaps.
func (l *life) writes(ctx context.Context) error {
	bufs := bodies(64)
	if l.wanted("create-cm-64") {
		err := l.verb(ctx, "create-cm-64", 64, func(ctx context.Context, c *client, clientNumber int) error {
			return l.createConfigMap(ctx, c, bufs[clientNumber])
		})
		if err := l.lost(ctx, err, "create-cm-64"); err != nil {
			return err
		}
	}
	if !l.wanted("create-cr-64", "status-cr-16", "status-cr-64", "patch-cr-16", "patch-cr-64", "apply-cr-16",
		"apply-cr-64", "delete-cr-16", "delete-cr-64") {
		return nil
	}
	err := l.verb(ctx, "create-cr-64", 64, func(ctx context.Context, c *client, clientNumber int) error {
		return l.createWidget(ctx, c, bufs[clientNumber])
	})
	if err != nil {
		return err
	}
	for _, verb := range []struct {
		id string
		do func(ctx context.Context, c *client, w *widget, buf []byte) error
	}{
		{"status-cr", func(ctx context.Context, c *client, w *widget, buf []byte) error {
			return c.do(ctx, http.MethodPut, w.path+"/status", jsonMedia, statusBody(buf, w))
		}},
		{"patch-cr", func(ctx context.Context, c *client, w *widget, buf []byte) error {
			return c.do(ctx, http.MethodPatch, w.path, mergeMedia, patchBody(buf, w))
		}},
		{"apply-cr", func(ctx context.Context, c *client, w *widget, buf []byte) error {
			return c.do(ctx, http.MethodPatch, w.path+"?fieldManager=figures&force=true", applyMedia,
				widgetBody(buf, w.name, w.count))
		}},
	} {
		for _, n := range []int{16, 64} {
			id := fmt.Sprintf("%s-%d", verb.id, n)
			if !l.wanted(id) {
				continue
			}
			at := make([]int, n)
			err := l.verb(ctx, id, n, func(ctx context.Context, c *client, clientNumber int) error {
				// Each client has its own widgets, and therefore their newest state.
				mine := len(l.widgets) / n
				w := l.widgets[clientNumber*mine+at[clientNumber]%mine]
				at[clientNumber]++
				w.count++ // so that every write changes something
				if err := verb.do(ctx, c, w, bufs[clientNumber]); err != nil {
					return err
				}
				w.revision = string(field(c.answer, "resourceVersion"))
				return nil
			})
			if err := l.lost(ctx, err, id); err != nil {
				return err
			}
		}
	}
	return l.deletes(ctx)
}

// deletes measures DELETE of the objects that the other verbs created, half of them per number of
// clients.
func (l *life) deletes(ctx context.Context) error {
	half := len(l.widgets) / 2
	for i, n := range []int{16, 64} {
		id := fmt.Sprintf("delete-cr-%d", n)
		if !l.wanted(id) {
			continue
		}
		mine := l.widgets[i*half : (i+1)*half]
		var at atomic.Int64
		err := l.verbFor(ctx, id, n, 0, func(ctx context.Context, c *client, _ int) error {
			next := int(at.Add(1)) - 1
			if next >= len(mine) {
				return errEnough
			}
			return c.do(ctx, http.MethodDelete, mine[next].path, "", nil)
		})
		if err := l.lost(ctx, err, id); err != nil {
			return err
		}
	}
	return nil
}
