package chain_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// stream is an open watch.
type stream struct {
	resp  *http.Response
	lines *bufio.Reader
}

func (p *plane) watch(t *testing.T, path string, header ...string) *stream {
	t.Helper()
	resp := p.do(t, "GET", path, "", header...)
	if resp.StatusCode != 200 {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("watch %s: %d\n%s", path, resp.StatusCode, body)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return &stream{resp, bufio.NewReader(resp.Body)}
}

// next reads one event; ok is false at the end of the stream.
func (s *stream) next(t *testing.T) (typ string, obj object, ok bool) {
	t.Helper()
	line, err := s.lines.ReadBytes('\n')
	if err == io.EOF && len(line) == 0 {
		return "", nil, false
	}
	if err != nil {
		t.Fatal(err)
	}
	var event struct {
		Type   string
		Object object
	}
	if err := json.Unmarshal(line, &event); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return event.Type, event.Object, true
}

// expect reads events and compares them, written as "TYPE name".
func (s *stream) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		typ, obj, ok := s.next(t)
		if got := fmt.Sprint(typ, " ", at(obj, "metadata", "name")); !ok || got != w {
			t.Fatalf("event %q %v, want %q", got, obj, w)
		}
	}
}

const maps = "/api/v1/namespaces/default/configmaps"

func configMap(name, labels string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"labels":{%s}}}`, name, labels)
}

const mergePatch = "Content-Type: application/merge-patch+json"

// API-07
func TestWatchSelector(t *testing.T) {
	p := newPlane(t)
	p.want(t, 201, "POST", maps, configMap("a", `"on":"yes"`))
	p.want(t, 201, "POST", maps, configMap("b", ``))
	s := p.watch(t, maps+"?watch=1&labelSelector=on=yes")
	s.expect(t, "ADDED a")
	p.want(t, 200, "PATCH", maps+"/b", `{"metadata":{"labels":{"on":"yes"}}}`, mergePatch)
	s.expect(t, "ADDED b")
	p.want(t, 200, "PATCH", maps+"/b", `{"data":{"k":"v"}}`, mergePatch)
	s.expect(t, "MODIFIED b")
	left := p.want(t, 200, "PATCH", maps+"/b", `{"metadata":{"labels":null},"data":{"k":"w"}}`, mergePatch)
	typ, obj, _ := s.next(t)
	if typ != "DELETED" || at(obj, "data", "k") != "v" || at(obj, "metadata", "resourceVersion") != at(left, "metadata", "resourceVersion") {
		t.Errorf("an object that leaves the selection is shown as it last was in it, at the revision of the update: %s %v", typ, obj)
	}
	p.want(t, 200, "DELETE", maps+"/b", "")
	before := p.want(t, 200, "GET", maps+"/a", "")
	p.want(t, 200, "DELETE", maps+"/a", "")
	typ, obj, _ = s.next(t)
	if typ != "DELETED" || at(obj, "metadata", "name") != "a" || at(obj, "metadata", "resourceVersion") == at(before, "metadata", "resourceVersion") {
		t.Errorf("the deletion has a revision of its own: %s %v", typ, obj)
	}
}

// API-07
func TestWatchFrom(t *testing.T) {
	p := newPlane(t)
	a := p.want(t, 201, "POST", maps, configMap("a", ""))
	p.want(t, 201, "POST", maps, configMap("b", ""))
	p.want(t, 201, "POST", "/api/v1/namespaces/other/configmaps", configMap("x", ""))
	rv := at(a, "metadata", "resourceVersion").(string)
	p.watch(t, maps+"?watch=1&resourceVersion="+rv).expect(t, "ADDED b")
	p.watch(t, maps+"?watch=1&resourceVersion=0").expect(t, "ADDED a", "ADDED b")
	p.watch(t, maps+"?watch=1&fieldSelector=metadata.name=b").expect(t, "ADDED b")
	p.watch(t, "/api/v1/watch/namespaces/default/configmaps/b").expect(t, "ADDED b")
	p.watch(t, "/api/v1/configmaps?watch=1").expect(t, "ADDED a", "ADDED b", "ADDED x")

	s := p.watch(t, maps+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
	s.expect(t, "ADDED a", "ADDED b")
	typ, obj, _ := s.next(t)
	if typ != "BOOKMARK" || at(obj, "metadata", "annotations", "k8s.io/initial-events-end") != "true" || obj["kind"] != "ConfigMap" {
		t.Errorf("%s %v", typ, obj)
	}
	s = p.watch(t, maps+"?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
	p.want(t, 201, "POST", maps, configMap("c", ""))
	s.expect(t, "ADDED c")

	s = p.watch(t, maps+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999")
	if typ, obj, _ := s.next(t); typ != "ERROR" || obj["code"] != 504.0 {
		t.Errorf("%s %v", typ, obj)
	}
	status := p.want(t, 422, "GET", maps+"?watch=1&sendInitialEvents=true", "")
	if !strings.Contains(status["message"].(string), "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan") {
		t.Error(status)
	}
}

// API-07
func TestWatchBookmarksAndTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t)
		created := p.want(t, 201, "POST", "/api/v1/namespaces/default/secrets", configMap("s", ""))
		start := time.Now()
		s := p.watch(t, maps+"?watch=1&allowWatchBookmarks=true&timeoutSeconds=150")
		var types []string
		var last object
		for {
			typ, obj, ok := s.next(t)
			if !ok {
				break
			}
			types, last = append(types, typ), obj
		}
		if !slices.Equal(types, []string{"BOOKMARK", "BOOKMARK", "BOOKMARK"}) || time.Since(start) != 150*time.Second {
			t.Errorf("%v after %v", types, time.Since(start))
		}
		if at(last, "metadata", "resourceVersion") != at(created, "metadata", "resourceVersion") {
			t.Errorf("a bookmark tells of writes to other kinds too: %v", last)
		}
	})
}

// API-03
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t)
		s := p.watch(t, maps+"?watch=1")
		if err := p.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		if typ, obj, ok := s.next(t); ok {
			t.Errorf("after shutdown: %s %v", typ, obj)
		}
		resp := p.do(t, "GET", maps, "")
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%d %v", resp.StatusCode, resp.Header)
		}
	})
}
