package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const selfReview = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

// unreadProbes requests health checks with long responses that flow control never lets the server
// send: at most 300 on each of 40 connections, and as many again whenever the server ends some.
func unreadProbes(ctx context.Context, t *target) error {
	var path strings.Builder
	path.WriteString("/healthz?verbose")
	for i := range 1_500 {
		fmt.Fprintf(&path, "&exclude=n%d", i)
	}
	t.connections(ctx, anonymous, 40, 400, 0, 300, func(s *stream) {
		for i := 0; i < 600 && s.request(ctx, http.MethodGet, path.String(), false) == nil; i++ {
		}
		s.wait(ctx)
	})
	return nil
}

// unsentBodies announces request bodies that it never sends: 250 on each of two connections.
func unsentBodies(ctx context.Context, t *target) error {
	t.connections(ctx, norole, 2, 40, 65_535, 250, func(s *stream) {
		for i := 0; i < 2_000 && s.request(ctx, http.MethodPost, selfReview, true, "content-type", "application/json",
			"content-length", "1000") == nil; i++ {
		}
		s.wait(ctx)
	})
	return nil
}

// slowReaders lists large objects 300 times and reads each response at a kilobyte a second.
func slowReaders(ctx context.Context, t *target) error {
	t.connections(ctx, editor, 10, 100, 16<<10, 30, func(s *stream) {
		go s.trickle(ctx, 1<<10)
		for i := 0; i < 120 && s.request(ctx, http.MethodGet, defaultMaps, false) == nil; i++ {
		}
		s.wait(ctx)
	})
	return nil
}

// unreadWatches opens 2,700 watches that start with all objects, reads none of them, and changes
// two of the objects each second.
func unreadWatches(ctx context.Context, t *target) error {
	go t.flood(ctx, 1, 60, func(i int) (string, string, string, string, string, []string) {
		sleep(ctx, 500*time.Millisecond)
		return editor, http.MethodPatch, fmt.Sprintf("%s/large%d", defaultMaps, i%20), "application/merge-patch+json",
			fmt.Sprintf(`{"data":{"b":"%d"}}`, i), nil
	})
	t.connections(ctx, editor, 27, 54, 0, 100, func(s *stream) {
		const query = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
		for i := 0; i < 100 && s.request(ctx, http.MethodGet, defaultMaps+query, false) == nil; i++ {
		}
		s.wait(ctx)
	})
	return nil
}

// wait waits until the connection or ctx ends.
func (s *stream) wait(ctx context.Context) {
	select {
	case <-s.conn.Done():
	case <-ctx.Done():
	}
}

const defaultMaps = "/api/v1/namespaces/default/configmaps"

// largeObjects creates 20 MB of objects; mediumObjects one MB.
func largeObjects(ctx context.Context, t *target) error { return fill(ctx, t, "large", 20, 1<<20-4096) }

func mediumObjects(ctx context.Context, t *target) error {
	return fill(ctx, t, "medium", 100, 10_000)
}

func fill(ctx context.Context, t *target, name string, n, bytes int) error {
	value := strings.Repeat("x", bytes)
	for i := range n {
		if err := t.create(ctx, editor, [][2]string{{defaultMaps, configMap(fmt.Sprint(name, i), value)}}); err != nil {
			return err
		}
	}
	return nil
}
