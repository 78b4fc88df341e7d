package apitest_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/apitest"
)

// firstRevision is the revision of the first write.
const firstRevision = 2

// futureReads returns the paths of the reads at a revision that wait for it.
func futureReads(revision uint64) []string {
	at := fmt.Sprintf("resourceVersion=%d", revision)
	return []string{
		maps + "/a?" + at,
		maps + "?" + at,
		maps + "?resourceVersionMatch=NotOlderThan&" + at,
		maps + "?resourceVersionMatch=Exact&" + at,
		maps + "?limit=1&" + at,
		maps + "?fieldSelector=metadata.name=a&" + at,
	}
}

// A read at a revision that no write has yet waits for it, up to three seconds, as in
// kube-apiserver.
func TestReadsAtFutureRevision(t *testing.T) {
	t.Run("reached", func(t *testing.T) {
		for _, path := range futureReads(firstRevision + 1) {
			synctest.Test(t, func(t *testing.T) {
				p := apitest.New(t)
				p.Want(t, 201, "POST", maps, configMap("a", ""))
				now := p.Store.Snapshot().Revision()
				require.Equalf(t, now, firstRevision, "the first write has revision")
				begin := time.Now()
				time.AfterFunc(time.Second, func() { p.Want(t, 201, "POST", maps, configMap("b", "")) })
				p.Want(t, 200, "GET", path, "")
				assert.Equalf(t, time.Since(begin), time.Second, "%s", path)
			})
		}
	})
	t.Run("never", func(t *testing.T) {
		for _, path := range futureReads(9) {
			synctest.Test(t, func(t *testing.T) {
				p := apitest.New(t)
				p.Want(t, 201, "POST", maps, configMap("a", ""))
				begin := time.Now()
				resp := p.Do(t, "GET", path, "")
				body := require.Body(t, resp)
				if resp.StatusCode != 504 || resp.Header.Get("Retry-After") != "1" ||
					!strings.Contains(string(body), "Too large resource version: 9, current: 2") {
					t.Errorf("%s: %d %v %s", path, resp.StatusCode, resp.Header, body)
				}
				assert.Equalf(t, time.Since(begin), 3*time.Second, "%s", path)
			})
		}
	})
	// kube-apiserver reads events from etcd, which does not wait.
	t.Run("events", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := apitest.New(t)
			begin := time.Now()
			for _, path := range []string{"/a?resourceVersion=9", "?resourceVersion=9",
				"?resourceVersion=9&resourceVersionMatch=Exact"} {
				status := p.Want(t, 504, "GET", "/api/v1/namespaces/default/events"+path, "")
				if details := status["details"].(apitest.Object); details["retryAfterSeconds"] != nil {
					t.Errorf("%s: %v", path, details)
				}
			}
			assert.Equal(t, time.Since(begin), 0)
		})
	})
	t.Run("initial events", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := apitest.New(t)
			p.Want(t, 201, "POST", maps, configMap("a", ""))
			begin := time.Now()
			time.AfterFunc(time.Second, func() { p.Want(t, 201, "POST", maps, configMap("b", "")) })
			events := p.Watch(t, maps+"?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&resourceVersion=3")
			assert.Equal(t, time.Since(begin), time.Second)
			events.Expect(t, "ADDED a", "ADDED b")
			events.Close()
		})
	})
}
