package reconcile_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/reconcile"
)

// The server validates the fields of a status once in a while, not for each object.
func TestFieldsAreCheckedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.New(budgets)
		var checks []string
		cfg := server.REST()
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPatch {
					checks = append(checks, r.URL.Query().Get("fieldValidation"))
				}
				return next.RoundTrip(r)
			})
		})
		c, err := client.New(client.Config{REST: cfg})
		must(t, err)
		must(t, c.Create(t.Context(), &budget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}))
		healthy, conditions := int32(0), []metav1.Condition(nil)
		r, err := reconcile.For[budget](step(func(_ context.Context, b *budget) (reconcile.Result, error) {
			b.Status.CurrentHealthy, b.Status.Conditions = healthy, conditions
			return reconcile.Result{}, nil
		}), reconcile.TypedConfig{Client: c})
		must(t, err)
		run := func(when string, want ...string) {
			t.Helper()
			healthy++
			checks = nil
			_, err := r.Reconcile(t.Context(), request)
			must(t, err)
			assert.Slicef(t, checks, want, "%s", when)
		}
		run("first", "") // with observedGeneration
		run("another", "")
		run("other values", "Ignore")
		run("other values again", "Ignore")
		conditions = []metav1.Condition{{Type: "A", Status: "True", Reason: "R", LastTransitionTime: metav1.Now()}}
		run("another field", "")
		time.Sleep(11 * time.Minute)
		run("later", "")
		run("other values", "Ignore")
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
