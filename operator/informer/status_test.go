package informer_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest"
)

// forbid rejects a verb on pods.
func forbid(verb string) apitest.Faults {
	return apitest.Faults{NoStreaming: true, Intercept: func(w http.ResponseWriter, r *http.Request) bool {
		asked := "list"
		if r.URL.Query().Get("watch") != "" {
			asked = "watch"
		}
		if asked != verb || !strings.HasSuffix(r.URL.Path, "/pods") || r.URL.Query().Get("sendInitialEvents") != "" {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":"not you"}`))
		return true
	}}
}

// The status of every watch, as readiness checks use it.
func TestStatuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, func(c *informer.Config) { c.Scope.Namespaces = []string{"one", "two"} })
		w.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "one", Name: "a"}})
		w.pods()
		_, err := w.set.For(&corev1.Node{})
		w.must(err)
		check := func(when, want string) {
			t.Helper()
			synctest.Wait()
			var lines []string
			for _, s := range w.set.Statuses() {
				lines = append(lines, s.String())
			}
			assert.Equalf(t, strings.Join(lines, "\n"), want, "%s", when)
		}
		check("not running", "Node: not synced yet\nPod: not synced yet")
		w.server.SetFaults(forbid("list"))
		w.run()
		missing := `the verb "list" on pods is missing (grant list and watch by a RoleBinding in `
		check("no list", "Node: synced\n"+
			"Pod in one: not synced: "+missing+"one): not you\nPod in two: not synced: "+missing+"two): not you")
		failing := w.set.Statuses()[1]
		var permission *informer.MissingPermission
		if !errors.As(failing.Err, &permission) || permission.Verb != "list" ||
			permission.Resource.Resource != "pods" || permission.Namespace != "one" {
			t.Errorf("error %#v", failing.Err)
		}
		if !failing.Since.Equal(time.Now()) || !failing.Progress.IsZero() {
			t.Errorf("failing since %v, progress %v", failing.Since, failing.Progress)
		}
		assert.Containsf(t, w.log.String(), `the verb \"list\" on pods is missing`, "log")

		begin := time.Now()
		time.Sleep(time.Hour)
		if s := w.set.Statuses()[1]; !s.Since.Equal(begin) {
			t.Errorf("failing since %v, want %v", s.Since, begin)
		}
		w.server.SetFaults(forbid("watch"))
		time.Sleep(time.Minute)
		s := w.set.Statuses()[1]
		if !errors.As(s.Err, &permission) || permission.Verb != "watch" || !s.Synced ||
			s.Progress.Before(begin.Add(time.Hour)) {
			t.Errorf("no watch: %+v", s)
		}
		w.server.SetFaults(apitest.Faults{})
		// longer than any wait between attempts, and before the first bookmark
		time.Sleep(50 * time.Second)
		check("all is well", "Node: synced\nPod in one: synced\nPod in two: synced")

		begin = time.Now()
		time.Sleep(time.Second)
		w.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "two", Name: "b"}})
		synctest.Wait()
		if one, two := w.set.Statuses()[1], w.set.Statuses()[2]; !two.Progress.Equal(time.Now()) ||
			one.Progress.After(begin) {
			t.Errorf("progress: %v, %v", one.Progress, two.Progress)
		}
	})
}

// The status shows that the server rejects a list or watch for a time, and the requests wait as
// long as the server asks.
func TestStatusOfBusyServer(t *testing.T) {
	for verb, query := range map[string]string{"list": "", "watch": "true"} {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				w.pods()
				begin := time.Now()
				var mu sync.Mutex // guards the following variables
				busy := true
				var asked []time.Duration
				w.server.SetFaults(apitest.Faults{Intercept: func(rw http.ResponseWriter, r *http.Request) bool {
					mu.Lock()
					defer mu.Unlock()
					if !busy || !strings.HasSuffix(r.URL.Path, "/pods") || r.URL.Query().Get("watch") != query {
						return false
					}
					asked = append(asked, time.Since(begin))
					rw.Header().Set("Retry-After", "20")
					http.Error(rw, "too many requests", http.StatusTooManyRequests)
					return true
				}})
				w.run()
				for range 10 {
					time.Sleep(5 * time.Second)
					if s := w.set.Statuses()[0]; s.Err == nil || !strings.Contains(s.Err.Error(), verb+": ") ||
						!s.Since.Equal(begin) || s.Synced != (verb == "watch") {
						t.Errorf("after %v: %+v", time.Since(begin), s)
					}
				}
				mu.Lock()
				for n, at := range asked {
					if n > 0 && at < asked[n-1]+20*time.Second {
						t.Errorf("requests at %v", asked)
					}
				}
				assert.Lenf(t, asked, 3, "requests at")
				busy = false
				mu.Unlock()
				time.Sleep(time.Minute)
				if s := w.set.Statuses()[0]; s.Err != nil || !s.Synced {
					t.Errorf("at the end: %+v", s)
				}
			})
		})
	}
}

// An informer that keeps only metadata receives complete objects from the server; handlers get the
// type without content.
func TestMetadataForm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, func(c *informer.Config) {
			c.Forms = map[client.Object]informer.Form{&corev1.Pod{}: informer.Metadata}
		})
		a := labelled(pod("a"), "1")
		a.Spec.NodeName = "n1"
		w.create(a)
		inf := w.pods()
		w.must(inf.AddIndex("v", func(obj client.Object) []string { return []string{obj.(*corev1.Pod).Labels["v"]} }))
		h := &recorder{}
		w.handle(inf, h)
		w.run()
		w.must(w.set.WaitForSync(t.Context()))
		synctest.Wait()
		whole, err := client.Get[corev1.Pod](t.Context(), w.client, client.KeyOf(a))
		if err != nil || whole.Spec.NodeName != "n1" {
			t.Errorf("from the server: %v %v", whole, err)
		}
		held, _ := inf.Get(client.KeyOf(a))
		if p := held.(*corev1.Pod); p.Labels["v"] != "1" || p.Spec.NodeName != "" || p.UID != a.UID || p.Kind != "Pod" {
			t.Errorf("held: %+v", p)
		}
		if found, err := inf.ByIndex("v", "1"); len(found) != 1 || err != nil {
			t.Errorf("by index: %v %v", found, err)
		}
		if all := inf.List("default"); len(all) != 1 || all[0].(*corev1.Pod).Spec.NodeName != "" {
			t.Errorf("list: %v", all)
		}
		pods, err := client.List[corev1.Pod](t.Context(), w.client)
		if err != nil || len(pods) != 1 || pods[0].Spec.NodeName != "n1" {
			t.Errorf("list from the server: %v %v", pods, err)
		}
		meta := &metav1.PartialObjectMetadata{}
		meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		w.must(w.client.Get(t.Context(), client.KeyOf(a), meta))
		synctest.Wait()
		assert.Equalf(t, w.server.Watches(), 1, "watches")
		if s := w.set.Statuses(); len(s) != 1 || s[0].Form != informer.Metadata {
			t.Errorf("statuses: %v", s)
		}
		w.must(w.direct.Delete(t.Context(), a))
		w.expectCalls(h, "+a initial, -a")
	})
}
