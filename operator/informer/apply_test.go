package informer_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
)

// An apply that would have no effect is not sent; it returns the object.
func TestApplyTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		var sent atomic.Int64
		w.server.SetFaults(apitest.Faults{Intercept: func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPatch || r.Method == http.MethodPost {
				sent.Add(1)
			}
			return false
		}})
		w.pods()
		w.run()
		w.must(w.set.WaitForSync(t.Context()))
		apply := func(v string, opts ...client.WriteOption) *corev1.Pod {
			t.Helper()
			p := labelled(pod("a"), v)
			w.must(w.client.Apply(t.Context(), p, opts...))
			if p.UID == "" || p.Labels["v"] != v {
				t.Errorf("answer: %+v", p)
			}
			return p
		}
		check := func(when string, want int64) {
			t.Helper()
			if got := sent.Swap(0); got != want {
				t.Errorf("%s: %d were sent, want %d", when, got, want)
			}
		}
		first := apply("1")
		check("first", 1)
		if again := apply("1"); again.ResourceVersion != first.ResourceVersion || again.UID != first.UID {
			t.Errorf("answer %+v, want %+v", again, first)
		}
		check("before the watch has it", 0)
		synctest.Wait()
		apply("1")
		check("after", 0)
		apply("2")
		check("another document", 1)
		apply("2", client.FieldOwner("other"))
		check("another owner", 1)
		apply("2", client.DryRunAll)
		check("dry run", 1)
		apply("2", client.FieldOwner("other"))
		check("the same owner", 0)

		changed, err := client.Get[corev1.Pod](t.Context(), w.direct, client.KeyOf(first))
		w.must(err)
		w.must(w.direct.Update(t.Context(), labelled(changed, "3")))
		synctest.Wait()
		apply("2", client.FieldOwner("other"))
		check("another client changed it", 1)
		w.must(w.client.Delete(t.Context(), first))
		apply("2", client.FieldOwner("other"))
		check("it was deleted", 1)
	})
}
