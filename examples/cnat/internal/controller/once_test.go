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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
		body := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"injected","reason":"` +
			map[int]string{500: "InternalError", 403: "Forbidden"}[code] + `"}`
		return &http.Response{
			StatusCode: code, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(body)),
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
	return testenv.New(t, testenv.Scheme(scheme), testenv.CRDs("../../config/crd/bases"),
		testenv.RBAC("../../config/rbac"), testenv.Nodes(controlplane.Simulated{}),
		testenv.Run(func(ctx context.Context, config *rest.Config) error {
			config.Wrap(func(next http.RoundTripper) http.RoundTripper { return faults{next, answer} })
			return operator.Run(ctx, operator.Config{REST: config}, controller.Parts()...)
		}))
}

// createsPod reports whether a request creates a pod, by a create or an apply, releasesPod whether
// it lets one run, and writesStatus whether it writes the status of an object.
func createsPod(r *http.Request) bool {
	return strings.Contains(r.URL.Path, "/pods") &&
		(r.Method == http.MethodPost || r.Header.Get("Content-Type") == string(types.ApplyYAMLPatchType))
}

func writesStatus(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/status") }

func releasesPod(r *http.Request) bool {
	return strings.Contains(r.URL.Path, "/pods") && r.Header.Get("Content-Type") == string(types.MergePatchType)
}

// The command runs at most once, even if status writes fail from the moment at which its pod may
// run until the pod has been deleted.
func TestRunsOnceWhileStatusWritesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var created, released atomic.Int64
		var broken atomic.Bool
		env := newFaultyEnv(t, func(r *http.Request) int {
			switch {
			case createsPod(r):
				created.Add(1)
			case releasesPod(r):
				released.Add(1)
				broken.Store(true)
			case broken.Load() && writesStatus(r):
				return http.StatusInternalServerError
			}
			return 0
		})
		at := at(in(-time.Second), "sleep 3600")
		env.Create(t, at)
		time.Sleep(time.Minute)
		have := pods(t, env)
		if len(have) != 1 || have[0].Status.Phase != corev1.PodRunning {
			t.Fatalf("pods %v, want one that runs", have)
		}
		if err := env.Client().Delete(t.Context(), have[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		broken.Store(false)
		time.Sleep(time.Hour)
		env.Settle(t)
		if n := created.Load(); n != 1 || released.Load() != 1 || len(pods(t, env)) != 0 {
			t.Errorf("%d pods were created and %d released, want 1 and 1", n, released.Load())
		}
		wantPhase(t, env, at, cnat.Failed)
		wantComplete(t, at, metav1.ConditionTrue, "PodLost", "not run again")
	})
}

// A pod does not run before the status names it. If it is deleted before that, or the command
// changes, another pod runs.
func TestPodWaitsForTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var released atomic.Int64
		var broken atomic.Bool
		env := newFaultyEnv(t, func(r *http.Request) int {
			switch {
			case createsPod(r):
				broken.Store(released.Load() == 0)
			case releasesPod(r):
				released.Add(1)
			case broken.Load() && writesStatus(r):
				return http.StatusInternalServerError
			}
			return 0
		})
		at := at(in(-time.Second), "true")
		env.Create(t, at)
		time.Sleep(time.Hour)
		have := pods(t, env)
		if len(have) != 1 || have[0].Status.Phase != corev1.PodPending || released.Load() != 0 {
			t.Fatalf("pods %v, want one that waits", have)
		}
		if err := env.Client().Delete(t.Context(), have[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		env.Get(t, at)
		at.Spec.Command = "echo other"
		if err := env.Client().Update(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		broken.Store(false)
		time.Sleep(time.Hour)
		env.Settle(t)
		wantPhase(t, env, at, cnat.Done)
		ran := 0
		for _, pod := range pods(t, env) {
			if pod.Status.Phase == corev1.PodPending {
				continue
			}
			if ran++; pod.Name != at.Status.Pod || pod.UID != at.Status.PodUID ||
				pod.Spec.Containers[0].Command[2] != "echo other" {
				t.Errorf("pod %s has run %q; the status has pod %s", pod.Name, pod.Spec.Containers[0].Command,
					at.Status.Pod)
			}
		}
		if ran != 1 || released.Load() != 1 {
			t.Errorf("%d pods have run and %d were released, want 1 and 1", ran, released.Load())
		}
	})
}

// If the operator ends while it starts a command, the next process continues.
func TestEndsWhileStarting(t *testing.T) {
	for name, at := range map[string]func(*http.Request) bool{
		"before the creation": createsPod,
		"before the status":   writesStatus,
		"before the release":  releasesPod,
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { endsAt(t, at) }) })
	}
}

// endsAt runs an operator whose first process ends at a request: the first one for which last
// returns true, after the process has begun to create a pod.
func endsAt(t *testing.T, last func(*http.Request) bool) {
	var starts, ended atomic.Bool
	env := testenv.New(t, testenv.Scheme(scheme(t)), testenv.CRDs("../../config/crd/bases"),
		testenv.RBAC("../../config/rbac"), testenv.Nodes(controlplane.Simulated{}),
		testenv.Run(func(ctx context.Context, config *rest.Config) error {
			for ctx.Err() == nil {
				process, end := context.WithCancel(ctx)
				own := rest.CopyConfig(config)
				own.Wrap(func(next http.RoundTripper) http.RoundTripper {
					return faults{next, func(r *http.Request) int {
						if createsPod(r) {
							starts.Store(true)
						}
						if starts.Load() && last(r) && ended.CompareAndSwap(false, true) {
							end()
						}
						if process.Err() != nil {
							return http.StatusInternalServerError
						}
						return 0
					}}
				})
				if err := operator.Run(process, operator.Config{REST: own}, controller.Parts()...); err != nil &&
					process.Err() == nil {
					return err
				}
				end()
			}
			return nil
		}))
	at := at(in(-time.Second), "true")
	env.Create(t, at)
	time.Sleep(time.Hour)
	env.Settle(t)
	wantPhase(t, env, at, cnat.Done)
	if have := pods(t, env); !ended.Load() || len(have) != 1 || have[0].UID != at.Status.PodUID {
		t.Errorf("ended %v, pods %v, want that of the status", ended.Load(), have)
	}
}

// A pod that the server refuses to create has not run: the operator tries again.
func TestRefusedPodIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused atomic.Int64
		env := newFaultyEnv(t, func(r *http.Request) int {
			if createsPod(r) && refused.Add(1) <= 3 {
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
			if createsPod(r) {
				created.Add(1)
			}
			if !strings.HasSuffix(r.URL.Path, "/status") || !strings.Contains(r.URL.Path, "/ats/") ||
				writes.Add(1) != 2 {
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
