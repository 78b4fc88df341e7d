package controller_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/client"

	cnat "kelson.dev/examples/cnat/api/v1alpha1"
	"kelson.dev/examples/cnat/internal/controller"
)

// faults responds to selected requests of the operator with a status code.
type faults struct {
	next   http.RoundTripper
	answer func(*http.Request) int // 0: the server's response
}

func (f faults) RoundTrip(r *http.Request) (*http.Response, error) {
	if code := f.answer(r); code != 0 {
		body := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"injected","reason":"` + map[int]string{500: "InternalError", 403: "Forbidden"}[code] + `"}`
		return &http.Response{
			StatusCode: code, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
		}, nil
	}
	return f.next.RoundTrip(r)
}

// newFaultyEnv does the same as newEnv, with a faulty connection between operator and server.
func newFaultyEnv(t *testing.T, answer func(*http.Request) int) *testenv.Env {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, cnat.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return testenv.New(t, testenv.Scheme(scheme), testenv.CRDs("../../config/crd/bases"), testenv.RBAC("../../config/rbac"), testenv.Nodes(controlplane.NodeSimulated),
		testenv.Run(func(ctx context.Context, config *rest.Config) error {
			config.Wrap(func(next http.RoundTripper) http.RoundTripper { return faults{next, answer} })
			return operator.Run(ctx, operator.Config{REST: config}, controller.Parts()...)
		}))
}

func writesPods(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodDelete && strings.Contains(r.URL.Path, "/pods")
}

// The command runs at most once, even if status writes fail after the creation of its pod until the
// pod has been deleted.
func TestRunsOnceWhileStatusWritesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var created atomic.Int64
		var broken atomic.Bool
		env := newFaultyEnv(t, func(r *http.Request) int {
			switch {
			case writesPods(r):
				created.Add(1)
				broken.Store(true)
			case broken.Load() && strings.HasSuffix(r.URL.Path, "/status"):
				return http.StatusInternalServerError
			}
			return 0
		})
		at := at(in(-time.Second), "sleep 3600")
		env.Create(t, at)
		time.Sleep(time.Minute)
		have := pods(t, env)
		if len(have) != 1 {
			t.Fatalf("%d pods, want 1", len(have))
		}
		if err := env.Client().Delete(t.Context(), have[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		broken.Store(false)
		time.Sleep(time.Hour)
		env.Settle(t)
		if n := created.Load(); n != 1 || len(pods(t, env)) != 0 {
			t.Errorf("%d pods were created, want 1", n)
		}
		wantPhase(t, env, at, cnat.Failed)
		wantComplete(t, at, metav1.ConditionTrue, "PodLost", "not run again")
	})
}

// A pod that the server refuses to create has not run: the operator tries again.
func TestRefusedPodIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused atomic.Int64
		env := newFaultyEnv(t, func(r *http.Request) int {
			if writesPods(r) && refused.Add(1) <= 3 {
				return http.StatusForbidden // a quota, for example
			}
			return 0
		})
		at := at(in(-time.Second), "true")
		env.Create(t, at)
		time.Sleep(time.Hour)
		env.Settle(t)
		wantPhase(t, env, at, cnat.Done)
	})
}

// If the At changes while its command starts, neither this change nor the status is lost.
func TestChangedWhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var env *testenv.Env
		var writes, created atomic.Int64
		env = newFaultyEnv(t, func(r *http.Request) int {
			if writesPods(r) {
				created.Add(1)
			}
			if !strings.HasSuffix(r.URL.Path, "/status") || !strings.Contains(r.URL.Path, "/ats/") || writes.Add(1) != 2 {
				return 0
			}
			now := at("", "") // start makes the second write of the status
			if err := env.Client().Get(r.Context(), client.KeyOf(now), now); err != nil {
				t.Error(err)
			}
			now.Labels = map[string]string{"changed": "yes"}
			if err := env.Client().Update(r.Context(), now); err != nil {
				t.Error(err)
			}
			return 0
		})
		at := at(in(-time.Second), "true")
		env.Create(t, at)
		time.Sleep(time.Hour)
		env.Settle(t)
		wantPhase(t, env, at, cnat.Done)
		if at.Labels["changed"] != "yes" || created.Load() != 1 {
			t.Errorf("labels %v, %d pods created", at.Labels, created.Load())
		}
	})
}
