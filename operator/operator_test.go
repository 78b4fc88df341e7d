package operator_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/reconcile"
	"kelson.dev/operator/trace"
)

// Timer is a kind whose objects request a pod of their name at a time.
type Timer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              TimerSpec   `json:"spec,omitempty"`
	Status            TimerStatus `json:"status,omitempty"`
}

type TimerSpec struct {
	At string `json:"at,omitempty"`
}

type TimerStatus struct {
	Phase              string             `json:"phase,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

type TimerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Timer `json:"items"`
}

func (t *Timer) DeepCopyObject() runtime.Object     { return copyOf(t) }
func (l *TimerList) DeepCopyObject() runtime.Object { return copyOf(l) }

func copyOf[T any](v *T) *T {
	data, _ := json.Marshal(v)
	c := new(T)
	_ = json.Unmarshal(data, c)
	return c
}

var timers = apitest.NewKind("example.com", "v1", "Timer", "timers")

func addTimer(s *runtime.Scheme) error {
	gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
	s.AddKnownTypes(gv, &Timer{}, &TimerList{})
	metav1.AddToGroupVersion(s, gv)
	return nil
}

type TimerReconciler struct{ client operator.Client }

func NewTimerReconciler(c operator.Client) *TimerReconciler { return &TimerReconciler{client: c} }

func (r *TimerReconciler) Reconcile(ctx context.Context, timer *Timer) (operator.Result, error) {
	due, err := time.Parse(time.RFC3339, timer.Spec.At)
	if err != nil {
		return operator.Invalid("spec.at", err)
	}
	if wait := time.Until(due); wait > 0 {
		timer.Status.Phase = "Pending"
		return operator.After(wait), nil
	}
	pod, err := operator.Apply(ctx, r.client, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: timer.Name}})
	if err != nil {
		return operator.Result{}, err
	}
	timer.Status.Phase = "Running"
	if pod.Status.Phase == corev1.PodSucceeded {
		timer.Status.Phase = "Done"
	}
	return operator.Result{}, nil
}

// fixture has an API server, and an operator that runs until the test ends.
type fixture struct {
	*apitest.Server
	client.Client
	stop func() error // stops the operator and returns the error of Run
	mu   sync.Mutex
	log  []trace.Record
}

func newFixture(t *testing.T, parts ...operator.Part) *fixture {
	t.Helper()
	w := &fixture{Server: apitest.New(timers)}
	scheme := runtime.NewScheme()
	_ = corev1.AddToScheme(scheme)
	_ = addTimer(scheme)
	c, err := client.New(client.Config{REST: w.REST(), Scheme: scheme})
	must(t, err)
	w.Client = c
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	sink := trace.Func(func(r trace.Record) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.log = append(w.log, r)
	})
	cfg := operator.Config{REST: w.REST(), Trace: sink, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	go func() {
		ended <- operator.Run(ctx, cfg, append(parts, operator.AddToScheme(addTimer), operator.Name("test"))...)
	}()
	w.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		assert.NoErrorf(t, w.stop(), "the operator ended")
	})
	return w
}

// records waits until the operator is idle, and returns its trace so far.
func (w *fixture) records() []trace.Record {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}

func (w *fixture) timer(t *testing.T, name string) *Timer {
	t.Helper()
	timer, err := client.Get[Timer](t.Context(), w.Client, client.Key{Namespace: "default", Name: name})
	must(t, err)
	return timer
}

func (w *fixture) create(t *testing.T, obj client.Object) {
	t.Helper()
	must(t, w.Create(t.Context(), obj))
}

func newTimer(name, at string) *Timer {
	return &Timer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: TimerSpec{At: at}}
}

// The example operator waits until the time of its object, creates a Pod and follows its end. It
// writes each status once.
func TestTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, operator.For(NewTimerReconciler, operator.Owns[corev1.Pod](), operator.Concurrency(4)))
		w.create(t, newTimer("tea", time.Now().Add(30*24*time.Hour).Format(time.RFC3339)))
		time.Sleep(time.Second)
		require.Equalf(t, w.timer(t, "tea").Status.Phase, "Pending", "the timer")
		if pods := w.Objects("pods"); len(pods) > 0 {
			t.Fatalf("pods before time: %v", pods)
		}

		time.Sleep(31 * 24 * time.Hour)
		timer := w.timer(t, "tea")
		if timer.Status.Phase != "Running" || timer.Status.ObservedGeneration != 1 {
			t.Fatalf("the timer is %+v", timer.Status)
		}
		pod, err := client.Get[corev1.Pod](t.Context(), w.Client, client.KeyOf(timer))
		must(t, err)
		if ref := metav1.GetControllerOf(pod); ref == nil || ref.UID != timer.UID || ref.Kind != "Timer" {
			t.Errorf("the pod's controller is %v", ref)
		}

		pod.Status.Phase = corev1.PodSucceeded
		must(t, w.Subresource("status").Update(t.Context(), pod, nil))
		time.Sleep(time.Second)
		assert.Equalf(t, w.timer(t, "tea").Status.Phase, "Done", "the timer")
		assert.NoError(t, w.stop())
		w.checkChains(t)
		// The operator wrote a pod and three statuses; the other writes are the test's.
		writes := slices.DeleteFunc(w.Requests(), func(r string) bool {
			return !strings.HasPrefix(r, "PATCH /apis/example.com")
		})
		if len(writes) != 3 {
			t.Errorf("wrote the status %d times, want 3: %q", len(writes), writes)
		}
	})
}

// checkChains checks the trace: every reconcile has a cause, and events of a reconcile's writes
// name that reconcile.
func (w *fixture) checkChains(t *testing.T) {
	t.Helper()
	chained, log := 0, w.records()
	for _, r := range log {
		if len(r.Causes.All()) == 0 {
			t.Errorf("reconcile %d has no cause", r.ID)
		}
		for _, c := range r.Causes.All() {
			if c.By == 0 {
				continue
			}
			chained++
			i := slices.IndexFunc(log, func(o trace.Record) bool { return o.ID == c.By })
			if i < 0 || !slices.ContainsFunc(log[i].Writes, func(wr trace.Write) bool {
				return wr.Kind == c.Kind && wr.Key == c.Key && wr.ResourceVersion == c.ResourceVersion && wr.Changed
			}) {
				t.Errorf("reconcile %d: cause %+v is not what reconcile %d wrote", r.ID, c, c.By)
			}
		}
	}
	if chained == 0 {
		t.Error("no cause names the reconcile that made it")
	}
}

// An invalid object gets a condition and one Event and is not retried. A corrected one is accepted.
func TestInvalid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, operator.For(NewTimerReconciler))
		w.create(t, newTimer("tea", "at five"))
		time.Sleep(time.Hour)
		c, ok := reconcile.GetCondition(w.timer(t, "tea"), reconcile.ConditionAccepted)
		if !ok || c.Status != metav1.ConditionFalse || !strings.HasPrefix(c.Message, "spec.at: parsing time") ||
			c.ObservedGeneration != 1 {
			t.Fatalf("the condition is %+v", c)
		}
		if n := len(w.records()); n > 2 {
			t.Errorf("reconciled %d times", n)
		}
		events := w.Objects("events")
		if len(events) != 1 || events[0]["reason"] != "Invalid" || events[0]["type"] != "Warning" {
			t.Errorf("events: %v", events)
		}

		timer := w.timer(t, "tea")
		timer.Spec.At = time.Now().Add(time.Hour).Format(time.RFC3339)
		must(t, w.Update(t.Context(), timer))
		time.Sleep(time.Minute)
		timer = w.timer(t, "tea")
		if !reconcile.IsTrue(timer, reconcile.ConditionAccepted) || timer.Status.Phase != "Pending" {
			t.Errorf("the status is %+v", timer.Status)
		}
	})
}

// A method that maps watched objects to requests causes a reconcile with the watched object as its
// cause.
func TestWatchesByMethod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, operator.For(NewTimerReconciler, operator.Watches((*TimerReconciler).usersOf)))
		w.create(t, newTimer("tea", "9999-01-01T00:00:00Z"))
		time.Sleep(time.Second)
		before := len(w.records())
		w.create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tea"}})
		time.Sleep(time.Second)
		log := w.records()
		require.Equalf(t, len(log), before+1, "reconciles")
		want := trace.Cause{Event: trace.Add, Kind: "ConfigMap", Key: client.Key{Namespace: "default", Name: "tea"}}
		got := log[before].Causes.All()[0]
		got.ResourceVersion = ""
		assert.Equalf(t, got, want, "the cause")
	})
}

func (r *TimerReconciler) usersOf(_ context.Context, cm *corev1.ConfigMap) []operator.Request {
	return []operator.Request{{NamespacedName: client.KeyOf(cm)}}
}

type plainReconciler struct{ seen chan operator.Request }

func (r *plainReconciler) Reconcile(_ context.Context, req operator.Request) (operator.Result, error) {
	r.seen <- req
	return operator.Result{}, nil
}

// A reconciler of requests also gets the request of a deleted object.
func TestForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &plainReconciler{make(chan operator.Request, 10)}
		w := newFixture(t, operator.ForRequests[corev1.ConfigMap](func(operator.Deps) *plainReconciler {
			return r
		}, operator.Named("plain")))
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
		w.create(t, cm)
		<-r.seen
		must(t, w.Delete(t.Context(), cm))
		req := <-r.seen
		assert.Equalf(t, req.Name, "a", "got %v", req)
	})
}

func newOfConfigMaps(operator.Client) *departing { return nil }

// Each mistake in the parts is an error of Run that names it.
func TestStartErrors(t *testing.T) {
	tests := []struct {
		name  string
		parts []operator.Part
		want  string
	}{
		{"no scheme", []operator.Part{operator.For(NewTimerReconciler)}, "is its AddToScheme among the parts?"},
		{"constructor", []operator.Part{operator.AddToScheme(addTimer), operator.For(func(int) *TimerReconciler {
			return nil
		})},
			"takes a int: it must take an operator.Client or operator.Deps"},
		{"foreign method", []operator.Part{operator.AddToScheme(addTimer),
			operator.ForRequests[Timer](func(operator.Deps) *plainReconciler { return nil },
				operator.Watches((*TimerReconciler).usersOf))}, "the reconciler is a *operator_test.plainReconciler"},
		{"same name", []operator.Part{operator.For(newOfConfigMaps), operator.For(newOfConfigMaps)},
			`controller for v1.ConfigMap: new controller: the manager already has a controller named "configmap": set a different name (operator.Named`},
		{"concurrency", []operator.Part{operator.For(newOfConfigMaps, operator.Concurrency(-1))},
			"Config.Concurrency (-1)"},
		{"timeout", []operator.Part{operator.For(newOfConfigMaps, operator.Timeout(-time.Second))},
			"Config.ReconcileTimeout (-1s)"},
		{"resync", []operator.Part{operator.For(newOfConfigMaps, operator.Resync(-time.Second))},
			"Resync(-1s): the period must not be negative"},
		{"scheme", []operator.Part{operator.AddToScheme(func(*runtime.Scheme) error {
			return errors.New("broken")
		})}, "broken"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := operator.Run(ctx, operator.Config{REST: apitest.New().REST()}, tt.parts...)
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

// departing is a reconciler whose cleanup ends at a time.
type departing struct {
	end   time.Time
	steps chan string
}

func (d *departing) Reconcile(context.Context, *corev1.ConfigMap) (operator.Result, error) {
	d.steps <- "reconcile"
	return operator.Result{}, nil
}

func (d *departing) Finalize(context.Context, *corev1.ConfigMap) (operator.Result, error) {
	if len(d.steps) > 0 {
		d.steps <- "done"
		return operator.Result{}, nil
	}
	d.steps <- "wait"
	return operator.After(time.Until(d.end)), nil
}

// After with a time that has passed reconciles again immediately, and keeps the finalizer.
func TestAfterInThePast(t *testing.T) {
	for name, end := range map[string]time.Duration{"past": -time.Minute, "now": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &departing{time.Now().Add(end), make(chan string, 9)}
				w := newFixture(t, operator.For(func(operator.Client) *departing { return d }))
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
				w.create(t, cm)
				time.Sleep(time.Second)
				for len(d.steps) > 0 {
					assert.Equalf(t, <-d.steps, "reconcile", "first")
				}
				d.end = time.Now().Add(end)
				must(t, w.Delete(t.Context(), cm))
				time.Sleep(10 * time.Millisecond)
				if len(d.steps) != 2 || <-d.steps != "wait" || <-d.steps != "done" {
					t.Error("Finalize was not called again")
				}
				if left := w.Objects("configmaps"); len(left) > 0 {
					t.Errorf("the object is still there: %v", left)
				}
			})
		})
	}
}
