package informer_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest"
)

// seen returns the objects of an informer as name=label.
func seen(inf informer.Informer) map[string]string {
	all := map[string]string{}
	for _, obj := range inf.List("") {
		all[obj.GetNamespace()+"/"+obj.GetName()] = obj.GetLabels()["v"]
	}
	return all
}

// After CatchUp, all earlier writes of others can be read, in any form of the informer.
func TestCatchUp(t *testing.T) {
	const lag = 500 * time.Millisecond
	change := map[string]func(w *fixture){
		"nothing": func(w *fixture) {},
		"create":  func(w *fixture) { w.create(labelled(pod("new"), "1")) },
		"update":  func(w *fixture) { w.must(w.direct.Update(w.ctx, labelled(pod("a"), "2"))) },
		"delete":  func(w *fixture) { w.must(w.direct.Delete(w.ctx, pod("a"))) },
		"again": func(w *fixture) {
			w.must(w.direct.Delete(w.ctx, pod("a")))
			w.create(labelled(pod("a"), "3"))
		},
		"another kind": func(w *fixture) {
			w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cm"}})
		},
		"all": func(w *fixture) { w.must(w.direct.DeleteAllOf(w.ctx, &corev1.Pod{}, client.InNamespace("default"))) },
	}
	for name, tt := range map[string]struct {
		config func(*informer.Config)
		opaque bool
	}{
		"whole":    {config: func(*informer.Config) {}},
		"metadata": {config: func(c *informer.Config) { c.Form = informer.Metadata }},
		"scope": {config: func(c *informer.Config) {
			c.Scope.Labels = labels.SelectorFromSet(labels.Set{"v": "1"})
		}},
		"namespaces": {config: func(c *informer.Config) { c.Scope.Namespaces = []string{"default", "other"} }},
		"opaque":     {config: func(*informer.Config) {}, opaque: true},
	} {
		for what, do := range change {
			t.Run(name+"/"+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newFixture(t, tt.config)
					if tt.opaque {
						w.server.SetOpaque()
					}
					w.create(labelled(pod("a"), "1"), labelled(pod("b"), "1"))
					inf := w.pods()
					w.run()
					w.must(w.set.WaitForSync(w.ctx))
					w.lag(lag)
					time.Sleep(time.Minute)
					before := fmt.Sprint(seen(inf))
					do(w)
					require.Equalf(t, fmt.Sprint(seen(inf)), before, "no lag")
					begin := time.Now()
					w.must(w.set.CatchUp(w.ctx))
					want := map[string]string{}
					pods, err := client.List[corev1.Pod](w.ctx, w.direct)
					w.must(err)
					for _, p := range pods {
						if v := p.Labels["v"]; name != "scope" || v == "1" {
							want[p.Namespace+"/"+p.Name] = v
						}
					}
					if got := fmt.Sprint(seen(inf)); got != fmt.Sprint(want) {
						t.Errorf("got %s, want %v", got, want)
					}
					if took := time.Since(begin); took > 10*time.Second ||
						(what == "nothing" || what == "another kind") && took > 0 {
						t.Errorf("took %v", took)
					}
				})
			})
		}
	}
}

// A watch that stalled unnoticed is opened again.
func TestCatchUpWithDeadWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLagging(t)
		w.server.SetFaults(apitest.Faults{})
		w.lag(100 * time.Hour)
		w.create(pod("a"))
		w.server.SetFaults(apitest.Faults{}) // applies to new watches
		begin := time.Now()
		w.must(w.set.CatchUp(w.ctx))
		if took := time.Since(begin); w.get("a") == nil || took > 2*time.Second {
			t.Errorf("after %v: %v", took, w.get("a"))
		}
	})
}

// After a restore of the server's storage, CatchUp waits until the copy was read again, also if the
// watch stalled unnoticed.
func TestCatchUpWithRestoredServer(t *testing.T) {
	for name, stalled := range map[string]bool{"ended": false, "stalled": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				w.create(pod("a"), pod("b"), pod("c"))
				inf := w.pods()
				if stalled {
					w.server.SetFaults(apitest.Faults{Intercept: func(rw http.ResponseWriter, r *http.Request) bool {
						if watch := r.URL.Query().Get("watch"); watch != "" {
							rw.Header().Set("Content-Type", "application/json")
							rw.(http.Flusher).Flush()
							<-r.Context().Done()
							return true
						}
						return false
					}})
				}
				w.run()
				w.must(w.set.WaitForSync(w.ctx))
				synctest.Wait()
				w.server.SetFaults(apitest.Faults{})
				w.server.SetRevision(1)
				w.create(pod("restored"))
				w.must(w.set.CatchUp(w.ctx))
				assert.Equal(t, fmt.Sprint(seen(inf)), "map[default/restored:]")
			})
		})
	}
}

// The objects are compared page by page, and only as far as necessary.
func TestCatchUpCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		for n := range 1200 {
			w.create(pod(fmt.Sprintf("p%04d", n)))
		}
		w.pods()
		w.run()
		w.must(w.set.WaitForSync(w.ctx))
		requests := 0
		w.server.SetFaults(apitest.Faults{Intercept: func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet && r.URL.Query().Get("watch") == "" {
				requests++
				if !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") ||
					r.URL.Query().Get("resourceVersion") != "" {
					t.Errorf("requested %s, %v", r.URL, r.Header)
				}
			}
			return false
		}})
		w.must(w.set.CatchUp(w.ctx))
		assert.Equalf(t, requests, 1, "requests where the copy is up to date")
		w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}) // a new revision
		requests = 0
		w.must(w.set.CatchUp(w.ctx))
		assert.Equalf(t, requests, 2, "requests for 1200 objects")
	})
}

// CatchUp returns the server's error, and that of its context while the watch is behind. A kind
// that is no longer served does not fail it.
func TestCatchUpFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.pods()
		w.run()
		w.must(w.set.WaitForSync(w.ctx))
		w.server.SetFaults(apitest.Faults{Intercept: func(rw http.ResponseWriter, r *http.Request) bool {
			http.Error(rw, "broken", http.StatusInternalServerError)
			return true
		}})
		assert.ErrorContains(t, w.set.CatchUp(w.ctx), "catch up with /v1, Kind=Pod")
		w.server.SetFaults(apitest.Faults{WatchLag: 100 * time.Hour})
		w.server.CutWatches()
		time.Sleep(time.Minute)
		w.create(pod("a"))
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
		assert.ErrorIs(t, w.set.CatchUp(ctx), context.DeadlineExceeded)
		w.server.SetFaults(apitest.Faults{})
		w.server.RemoveKind("pods")
		w.must(w.set.CatchUp(w.ctx))
	})
}
