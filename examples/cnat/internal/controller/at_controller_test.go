package controller_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"

	cnat "kelson.dev/examples/cnat/api/v1alpha1"
	"kelson.dev/examples/cnat/internal/controller"
)

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, cnat.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// newEnv returns a control plane with the operator and a node.
func newEnv(t *testing.T, node controlplane.Node) *testenv.Env {
	t.Helper()
	return testenv.New(t, testenv.Scheme(scheme(t)), testenv.CRDs("../../config/crd/bases"),
		testenv.RBAC("../../config/rbac"), testenv.Nodes(node),
		testenv.Operator(controller.Parts()...))
}

func at(schedule, command string) *cnat.At {
	return &cnat.At{
		ObjectMeta: metav1.ObjectMeta{Name: "example-at", Namespace: "default"},
		Spec:       cnat.AtSpec{Schedule: schedule, Command: command},
	}
}

func in(d time.Duration) string { return time.Now().UTC().Add(d).Format(time.RFC3339) }

// wantPhase reads the At and checks its phase.
func wantPhase(t *testing.T, env *testenv.Env, at *cnat.At, want cnat.AtPhase) {
	t.Helper()
	env.Get(t, at)
	if at.Status.Phase != want {
		t.Fatalf("phase is %q, want %q; status: %+v", at.Status.Phase, want, at.Status)
	}
}

// wantComplete checks the Complete condition.
func wantComplete(t *testing.T, at *cnat.At, status metav1.ConditionStatus, reason, message string) {
	t.Helper()
	c, ok := reconcile.GetCondition(at, cnat.ConditionComplete)
	if !ok || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) ||
		c.ObservedGeneration != at.Generation {
		t.Fatalf("condition Complete is %+v, want %s because of %s (%s)", c, status, reason, message)
	}
}

func pods(t *testing.T, env *testenv.Env) []*corev1.Pod {
	t.Helper()
	list, err := client.List[corev1.Pod](t.Context(), env.Client(), client.InNamespace("default"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Thirty days of virtual time pass immediately, and nothing runs before they have passed.
func TestRunsAfterThirtyDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newEnv(t, controlplane.Simulated{})
		at := at(in(30*24*time.Hour), "echo YAY && sleep 2 && echo done")
		env.Create(t, at)
		env.Settle(t)
		wantPhase(t, env, at, cnat.Pending)
		wantComplete(t, at, metav1.ConditionFalse, "Waiting", at.Spec.Schedule)

		time.Sleep(30*24*time.Hour - 2*time.Second)
		env.Settle(t)
		wantPhase(t, env, at, cnat.Pending)
		if have := pods(t, env); len(have) != 0 {
			t.Fatalf("a pod was created before the time: %v", have[0].Name)
		}

		time.Sleep(time.Hour)
		env.Settle(t)
		wantPhase(t, env, at, cnat.Done)
		wantComplete(t, at, metav1.ConditionTrue, "Succeeded", "has run")
		have := pods(t, env)
		if len(have) != 1 || have[0].Name != at.Status.Pod || !metav1.IsControlledBy(have[0], at) {
			t.Fatalf("want one pod, owned by the At; have %v", have)
		}
		if at.Status.StartTime.Time.Before(at.CreationTimestamp.Add(30*24*time.Hour-time.Second)) ||
			at.Status.CompletionTime.Before(at.Status.StartTime) {
			t.Fatalf("the times are wrong: %+v", at.Status)
		}
		// the Event Scheduled was thirty days ago, and Events are kept for an hour
		wantEvents(t, env, "Started", "Completed")
	})
}

// wantEvents checks the reasons of the events about Ats.
func wantEvents(t *testing.T, env *testenv.Env, want ...string) {
	t.Helper()
	list, err := client.List[corev1.Event](t.Context(), env.Client(), client.InNamespace("default"))
	if err != nil {
		t.Fatal(err)
	}
	list = slices.DeleteFunc(list, func(e *corev1.Event) bool { return e.InvolvedObject.Kind != "At" })
	var reasons []string
	for _, e := range list {
		reasons = append(reasons, e.Reason)
	}
	slices.Sort(reasons)
	slices.Sort(want)
	if !slices.Equal(reasons, want) {
		t.Fatalf("events are %v, want %v", reasons, want)
	}
}

// A time in the past is due immediately, and all phases are observed.
func TestPhases(t *testing.T) {
	for _, tc := range []struct {
		name, command string
		want          []cnat.AtPhase
		reason        string
	}{
		{"done", `echo "a" && sleep 1`, []cnat.AtPhase{"", cnat.Pending, cnat.Running, cnat.Done}, "Succeeded"},
		{"failed", "echo a; exit 3", []cnat.AtPhase{"", cnat.Pending, cnat.Running, cnat.Failed}, "CommandFailed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				env := newEnv(t, controlplane.Simulated{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var phases []cnat.AtPhase
				seen := make(chan struct{})
				go func() {
					defer close(seen)
					for e, err := range client.Events[cnat.At](ctx, env.Client(), client.InNamespace("default")) {
						if err != nil {
							return
						}
						if p := e.Object.Status.Phase; !slices.Contains(phases, p) {
							phases = append(phases, p)
						}
					}
				}()
				env.Settle(t)
				at := at(in(-365*24*time.Hour), tc.command)
				env.Create(t, at)
				time.Sleep(time.Minute)
				env.Settle(t)
				cancel()
				<-seen
				if !slices.Equal(phases, tc.want) {
					t.Fatalf("phases are %q, want %q", phases, tc.want)
				}
				env.Get(t, at)
				wantComplete(t, at, metav1.ConditionTrue, tc.reason, "")
			})
		})
	}
}

// A lost pod is not replaced, because the command may have had effects.
func TestLostPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newEnv(t, controlplane.Simulated{})
		at := at(in(-time.Second), "sleep 3600")
		env.Create(t, at)
		time.Sleep(time.Minute)
		env.Settle(t)
		wantPhase(t, env, at, cnat.Running)
		wantComplete(t, at, metav1.ConditionFalse, "Running", at.Status.Pod)
		if err := env.Client().Delete(t.Context(), pods(t, env)[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		env.Settle(t)
		wantPhase(t, env, at, cnat.Failed)
		wantComplete(t, at, metav1.ConditionTrue, "PodLost", "not run again")
		if have := pods(t, env); len(have) != 0 {
			t.Fatalf("the pod was replaced by %s", have[0].Name)
		}
	})
}

// A new schedule applies until the command has started. Deleting the At deletes everything.
func TestReschedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newEnv(t, controlplane.Simulated{})
		at := at(in(24*time.Hour), "true")
		env.Create(t, at)
		env.Settle(t)
		at.Spec.Schedule = in(48 * time.Hour)
		env.Get(t, at)
		at.Spec.Schedule = in(48 * time.Hour)
		if err := env.Client().Update(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Hour)
		env.Settle(t)
		wantPhase(t, env, at, cnat.Pending)
		wantComplete(t, at, metav1.ConditionFalse, "Waiting", at.Spec.Schedule)
		time.Sleep(24 * time.Hour)
		env.Settle(t)
		wantPhase(t, env, at, cnat.Done)

		if err := env.Client().Delete(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		env.Settle(t)
		if have := pods(t, env); len(have) != 0 {
			t.Fatalf("the pod outlives its At: %s", have[0].Name)
		}
	})
}

// Objects that violate the schema are rejected by the server.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newEnv(t, nil)
		for _, tc := range []struct{ name, schedule, command, want string }{
			{"no schedule", "", "true", "spec.schedule"},
			{"prose", "tomorrow", "true", "spec.schedule"},
			{"a date", "2027-01-01", "true", "spec.schedule"},
			{"another zone", "2027-01-01T00:00:00+01:00", "true", "spec.schedule"},
			{"no such month", "2027-13-01T00:00:00Z", "true", "spec.schedule"},
			{"no command", "2027-01-01T00:00:00Z", "", "spec.command"},
		} {
			err := env.Client().Create(t.Context(), at(tc.schedule, tc.command))
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: want it refused for %s, got %v", tc.name, tc.want, err)
			}
		}
	})
}

// A schedule that matches the schema but is not a valid time sets a condition and is not retried.
func TestImpossibleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newEnv(t, controlplane.Simulated{})
		at := at("2027-02-30T00:00:00Z", "true")
		if err := env.Client().Create(t.Context(), at); apierrors.IsInvalid(err) {
			return // the pod was deleted already
		} else if err != nil {
			t.Fatal(err)
		}
		env.Settle(t)
		env.Get(t, at)
		version := at.ResourceVersion
		if c, ok := reconcile.GetCondition(at, reconcile.ConditionAccepted); !ok || c.Status != metav1.ConditionFalse ||
			!strings.Contains(c.Message, "spec.schedule") {
			t.Fatalf("condition Accepted is %+v", c)
		}
		time.Sleep(24 * time.Hour)
		env.Settle(t)
		if env.Get(t, at); at.ResourceVersion != version {
			t.Fatalf("the command was retried: %+v", at.Status)
		}
		at.Spec.Schedule = in(-time.Hour)
		if err := env.Client().Update(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		env.Settle(t)
		wantPhase(t, env, at, cnat.Done)
	})
}

// A shell runs any command, with quotes, pipes and variables. This test runs real processes.
func TestShellSyntax(t *testing.T) {
	env := newEnv(t, controlplane.Processes{})
	out := filepath.Join(t.TempDir(), "out")
	at := at("2019-07-03T02:00:00Z", `for w in "it's" 'a "test"'; do echo $w; done | tr a-z A-Z > `+out+
		` && echo $((6*7)) >> `+out)
	env.Create(t, at)
	env.Eventually(t, time.Minute, func() bool {
		env.Get(t, at)
		return at.Status.Phase == cnat.Done || at.Status.Phase == cnat.Failed
	})
	wantPhase(t, env, at, cnat.Done)
	got, err := os.ReadFile(out)
	if want := "IT'S\nA \"TEST\"\n42\n"; err != nil || string(got) != want {
		t.Fatalf("the command wrote %q (%v), want %q", got, err, want)
	}
}
