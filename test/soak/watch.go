package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// watches are the watches of a soak.
type watches struct {
	wg     sync.WaitGroup
	events atomic.Int64 // events, and reads of binary frames

	mu   sync.Mutex
	errs []error
}

// watched are the resources and encodings of watches, in turn.
var watched = [][2]string{
	{core + "/events", jsonMedia}, {core + "/pods", jsonMedia}, {core + "/configmaps", jsonMedia}, {widgets, jsonMedia},
	{core + "/events", protobuf + ";stream=watch"}, {core + "/pods", protobuf + ";stream=watch"},
	{core + "/pods", partial}, {widgets, partial}, {core + "/events", table}, {"/api/v1/namespaces", jsonMedia},
	{core + "/configmaps", protobuf + ";stream=watch"}, {"/apis/coordination.k8s.io/v1/leases", jsonMedia},
}

// watchAll starts watches that continue until ctx ends.
func watchAll(ctx context.Context, srv *server, number int) *watches {
	w := &watches{}
	for i := range number {
		next := watched[i%len(watched)]
		// They end at different times.
		seconds := 120 + 7*i
		w.wg.Go(func() { w.follow(ctx, srv, next[0], next[1], seconds) })
	}
	return w
}

func (w *watches) wait() { w.wg.Wait() }

// problems returns the error of each watch that the server disturbed.
func (w *watches) problems() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.errs) == 0 {
		return nil
	}
	return fmt.Errorf("%d watches were disturbed: %w", len(w.errs), errors.Join(w.errs...))
}

// follow watches a resource as an informer does: when the server ends the watch after its time, it
// continues with the last revision. It ends with ctx, or with an error that an informer would have
// to answer with a new list.
func (w *watches) follow(ctx context.Context, srv *server, path, accept string, seconds int) {
	revision, err := srv.revision(ctx, path)
	for err == nil && ctx.Err() == nil {
		revision, err = w.once(ctx, srv, fmt.Sprintf(
			"%s?watch=1&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%s", path, seconds, revision),
			accept, revision)
	}
	if err != nil && ctx.Err() == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.errs = append(w.errs, fmt.Errorf("watch %s as %s: %w", path, accept, err))
	}
}

// once follows one watch to its end, and returns the revision from which to continue.
func (w *watches) once(ctx context.Context, srv *server, path, accept, revision string) (string, error) {
	resp, err := srv.open(ctx, http.MethodGet, path, "", accept, nil)
	if err != nil {
		return revision, err
	}
	defer resp.Body.Close()
	if accept != jsonMedia && accept != partial && accept != table {
		return w.binary(ctx, srv, resp.Body, path)
	}
	lines := bufio.NewReaderSize(resp.Body, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return revision, nil
		}
		if err != nil {
			return revision, err
		}
		w.events.Add(1)
		next, err := revisionOf(line)
		if err != nil {
			return revision, err
		}
		if next != "" {
			revision = next
		}
	}
}

// binary reads a watch in an encoding that this program does not decode. It continues from the
// newest revision.
func (w *watches) binary(ctx context.Context, srv *server, body io.Reader, path string) (string, error) {
	begin := time.Now()
	buffer := make([]byte, 32<<10)
	for {
		_, err := body.Read(buffer)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		w.events.Add(1)
	}
	// Each has at least two minutes, unless an error ended it.
	if early := time.Since(begin); early < time.Minute {
		return "", fmt.Errorf("ended after %s", early.Round(time.Second))
	}
	return srv.revision(ctx, pathOnly(path))
}

func pathOnly(path string) string {
	for i := range path {
		if path[i] == '?' {
			return path[:i]
		}
	}
	return path
}

// revisionOf returns the revision of an event, or "" if it has none, as a row of a table.
func revisionOf(line []byte) (string, error) {
	var frame struct {
		Type   string
		Object struct {
			Metadata      struct{ ResourceVersion string }
			Code          int
			Message, Kind string
		}
	}
	if err := json.Unmarshal(line, &frame); err != nil {
		return "", err
	}
	if frame.Type == "ERROR" {
		return "", fmt.Errorf("%d: %s", frame.Object.Code, frame.Object.Message)
	}
	return frame.Object.Metadata.ResourceVersion, nil
}

// revision returns the newest revision of a resource, from a short list.
func (s *server) revision(ctx context.Context, path string) (string, error) {
	body, err := s.send(ctx, http.MethodGet, path+"?limit=1", "", nil)
	if err != nil {
		return "", err
	}
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	err = json.Unmarshal(body, &list)
	return list.Metadata.ResourceVersion, err
}
