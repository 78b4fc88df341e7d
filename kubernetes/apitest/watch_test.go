package apitest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/kubernetes/apitest"
)

const maps = "/api/v1/namespaces/default/configmaps"

func configMap(name, labels string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"labels":{%s}}}`, name, labels)
}

const mergePatch = "Content-Type: application/merge-patch+json"

// An object that begins to match the selector is added, and one that no longer matches is deleted,
// with its last matching state and the revision of the update.
func TestWatchSelector(t *testing.T) {
	p := apitest.New(t)
	p.Want(t, 201, "POST", maps, configMap("a", `"on":"yes"`))
	p.Want(t, 201, "POST", maps, configMap("b", ``))
	s := p.Watch(t, maps+"?watch=1&labelSelector=on=yes")
	s.Expect(t, "ADDED a")
	p.Want(t, 200, "PATCH", maps+"/b", `{"metadata":{"labels":{"on":"yes"}}}`, mergePatch)
	s.Expect(t, "ADDED b")
	p.Want(t, 200, "PATCH", maps+"/b", `{"data":{"k":"v"}}`, mergePatch)
	s.Expect(t, "MODIFIED b")
	left := p.Want(t, 200, "PATCH", maps+"/b", `{"metadata":{"labels":null},"data":{"k":"w"}}`, mergePatch)
	typ, obj, _ := s.Next(t)
	if typ != "DELETED" || apitest.At(obj, "data", "k") != "v" ||
		apitest.At(obj, "metadata", "resourceVersion") != apitest.At(left, "metadata", "resourceVersion") {
		t.Errorf("event of an object that no longer matches: want its last matching state at the update's revision: %s %v", typ, obj)
	}
	p.Want(t, 200, "DELETE", maps+"/b", "")
	before := p.Want(t, 200, "GET", maps+"/a", "")
	p.Want(t, 200, "DELETE", maps+"/a", "")
	typ, obj, _ = s.Next(t)
	if typ != "DELETED" || apitest.At(obj, "metadata", "name") != "a" ||
		apitest.At(obj, "metadata", "resourceVersion") == apitest.At(before, "metadata", "resourceVersion") {
		t.Errorf("want the deletion's own revision: %s %v", typ, obj)
	}
}

// A watch starts after its resourceVersion or with the existing objects. With sendInitialEvents, a
// bookmark marks their end.
func TestWatchFrom(t *testing.T) {
	p := apitest.New(t)
	a := p.Want(t, 201, "POST", maps, configMap("a", ""))
	p.Want(t, 201, "POST", maps, configMap("b", ""))
	p.Want(t, 201, "POST", "/api/v1/namespaces/other/configmaps", configMap("x", ""))
	rv := apitest.At(a, "metadata", "resourceVersion").(string)
	p.Watch(t, maps+"?watch=1&resourceVersion="+rv).Expect(t, "ADDED b")
	p.Watch(t, maps+"?watch=1&resourceVersion=0").Expect(t, "ADDED a", "ADDED b")
	p.Watch(t, maps+"?watch=1&fieldSelector=metadata.name=b").Expect(t, "ADDED b")
	p.Watch(t, "/api/v1/watch/namespaces/default/configmaps/b").Expect(t, "ADDED b")
	p.Watch(t, "/api/v1/configmaps?watch=1").Expect(t, "ADDED a", "ADDED b", "ADDED x")

	s := p.Watch(t, maps+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
	s.Expect(t, "ADDED a", "ADDED b")
	typ, obj, _ := s.Next(t)
	if typ != "BOOKMARK" || apitest.At(obj, "metadata", "annotations", "k8s.io/initial-events-end") != "true" ||
		obj["kind"] != "ConfigMap" {
		t.Errorf("%s %v", typ, obj)
	}
	s = p.Watch(t, maps+"?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
	p.Want(t, 201, "POST", maps, configMap("c", ""))
	s.Expect(t, "ADDED c")

	s = p.Watch(t, maps+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999")
	if typ, obj, _ := s.Next(t); typ != "ERROR" || obj["code"] != 504.0 {
		t.Errorf("%s %v", typ, obj)
	}
	status := p.Want(t, 422, "GET", maps+"?watch=1&sendInitialEvents=true", "")
	if !strings.Contains(status["message"].(string),
		"sendInitialEvents requires setting resourceVersionMatch to NotOlderThan") {
		t.Error(status)
	}
}

// Bookmarks carry the newest revision, also that of writes to other kinds. The watch ends after its
// timeout.
func TestWatchBookmarksAndTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := apitest.New(t)
		start := time.Now()
		s := p.Watch(t, maps+"?watch=1&allowWatchBookmarks=true&timeoutSeconds=150")
		created := p.Want(t, 201, "POST", "/api/v1/namespaces/default/secrets", configMap("s", ""))
		var types []string
		var last apitest.Object
		for {
			typ, obj, ok := s.Next(t)
			if !ok {
				break
			}
			types, last = append(types, typ), obj
		}
		// Bookmarks come after the initial events, after a minute with events but not after one
		// without, and at the end.
		if !slices.Equal(types, []string{"BOOKMARK", "BOOKMARK", "BOOKMARK"}) || time.Since(start) != 150*time.Second {
			t.Errorf("%v after %v", types, time.Since(start))
		}
		if apitest.At(last, "metadata", "resourceVersion") != apitest.At(created, "metadata", "resourceVersion") {
			t.Errorf("want a bookmark with the revision of writes to other kinds: %v", last)
		}
	})
}
