// Package soak runs an operator with two replicas on a faulty server, and looks for lost and
// duplicated work.
//
// Each round runs in virtual time, with a seed: a server, two replicas that are stopped, killed and
// partitioned, a user who creates, changes and deletes orders, and another client that deletes
// pods. Every request of a replica may fail, before or after the server executed it, or be late;
// every watch may be cut, stall or be late. An operator that ends because it lost its Lease is
// started again, as a Deployment does. In half of the rounds the replicas elect a leader; in the
// others they share the objects.
//
// Work is duplicated if an order ever has more pods than it specifies. Work is lost if, after the
// faults have ended, an order has too few pods, an old status or an old report, or if pods of a
// deleted order remain.
package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/require"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/leader"
)

// No work is lost or done twice. KELSON_SOAK is the real time to run for; KELSON_SEED repeats one
// round.
func TestSoak(t *testing.T) {
	// Without KELSON_SOAK, the test runs one round of each mode.
	length := time.Duration(0)
	if text := os.Getenv("KELSON_SOAK"); text != "" {
		var err error
		length, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	if text := os.Getenv("KELSON_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		w := run(t, seed, modes[seed%2], correct)
		w.report(t)
		return
	}
	total := map[string]int{}
	rounds := 0
	for begin := time.Now(); (rounds < 2 || time.Since(begin) < length) && !t.Failed(); rounds++ {
		mode := uint64(rounds % len(modes))
		seed := rand.Uint64()&^1 | mode // so that KELSON_SEED selects the mode too
		w := run(t, seed, modes[mode], correct)
		w.report(t)
		for name, n := range w.counts {
			total[name] += n
		}
	}
	t.Logf("%d rounds: %v", rounds, total)
	for _, what := range []string{"500 after execution", "cut after execution", "409", "late request", "late response",
		"cut watch", "stalled watch",
		"stopped", "killed", "partitioned", "pods", "orders", "deleted"} {
		if total[what] == 0 {
			t.Errorf("%q never happened", what)
		}
	}
}

// The oracle detects incorrect reconcilers.
func TestSoakDetectsErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		reconciler variant
		want       string
	}{
		"forgetful": {forgets, "duplicated"},
		"careless":  {doesNotCare, "lost"},
	} {
		t.Run(name, func(t *testing.T) {
			const rounds = 30 // most seeds find it; goroutines run in any order
			for seed := range uint64(rounds) {
				w := run(t, seed, "election", tt.reconciler)
				if slices.ContainsFunc(w.findings, func(f string) bool { return strings.HasPrefix(f, tt.want) }) {
					return
				}
			}
			t.Errorf("%d rounds found no %s work", rounds, tt.want)
		})
	}
}

// modes are the ways in which replicas divide their work.
var modes = []string{"election", "shards"}

const (
	replicas   = 2
	ordersMade = 15
	// faultTime is the duration of the faults, and quietTime is the duration of the time without
	// faults that follows. quietTime is long because a stalled watch is noticed only when its
	// timeout ends, and a reconcile may wait for its next attempt.
	faultTime = 8 * time.Minute
	quietTime = 20 * time.Minute
	// recovery is how long after the last fault an operator may end because of it: until the Lease
	// of its predecessor or its own has expired, and until it has tried to catch up for two
	// minutes.
	recovery = 3 * time.Minute
)

// system has the server of a run, the networks of the operator's replicas, and the findings.
type system struct {
	server     *apitest.Server
	seed       uint64
	mode       string
	reconciler variant

	mu       sync.Mutex
	findings []string
	counts   map[string]int
	networks []*network
}

func (w *system) report(t *testing.T) {
	t.Helper()
	for _, f := range w.findings {
		t.Error(f)
	}
	if t.Failed() {
		t.Logf("%s: repeat this round with KELSON_SEED=%d", w.mode, w.seed)
	}
}

func run(t *testing.T, seed uint64, mode string, reconciler variant) *system {
	var w *system
	synctest.Test(t, func(t *testing.T) {
		w = &system{
			server: apitest.New(orders), seed: seed,
			mode: mode, reconciler: reconciler, counts: map[string]int{},
		}
		ctx, cancel := context.WithTimeout(t.Context(), faultTime)
		defer cancel()
		var all, faulting sync.WaitGroup
		end := make(chan struct{})
		for n := range replicas {
			faulting.Add(1)
			all.Go(func() { w.replica(ctx, n, faulting.Done, end) })
		}
		faulting.Go(func() { w.user(ctx, t) })
		faulting.Wait()
		w.mu.Lock()
		for _, n := range w.networks {
			if !n.isDown() { // networks of killed replicas stay down
				n.set(true, false)
			}
		}
		w.mu.Unlock()
		time.Sleep(quietTime)
		w.judge()
		close(end)
		all.Wait()
		for _, n := range w.networks {
			for name, count := range n.faults {
				w.counts[name] += count
			}
		}
	})
	return w
}

func (w *system) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

func (w *system) found(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.findings = append(w.findings, fmt.Sprintf(format, args...))
}

// mayEnd reports whether an operator may end with an error while there are faults: it lost its
// Lease, or its watches stalled for as long as a new leader tries to catch up.
func (w *system) mayEnd(err error) bool {
	switch {
	case errors.Is(err, leader.ErrLost), errors.Is(err, leader.ErrStillWorking):
		w.count("lost its Lease")
	case err != nil && strings.HasPrefix(err.Error(), "catch up with the writes of other replicas: "):
		w.count("did not catch up")
	default:
		return false
	}
	return true
}

// replica runs an operator, and starts it again whenever it ends, until end is closed. Until ctx
// ends, it stops, kills and partitions the operator; then it calls faultsEnded.
func (w *system) replica(ctx context.Context, n int, faultsEnded func(), end <-chan struct{}) {
	random := rand.New(rand.NewPCG(w.seed, uint64(100+n)))
	var quietSince time.Time // zero during the faults
	for life := 0; ; life++ {
		link, stop, ended := w.start(fmt.Sprintf("%c%d", 'a'+n, life), uint64(1000*(n+1)+life))
		link.set(!quietSince.IsZero(), false)
		for alive := true; alive; {
			var next <-chan time.Time
			faultsEnd := ctx.Done()
			if quietSince.IsZero() {
				next = time.After(time.Duration(20+random.IntN(100)) * time.Second)
			} else {
				faultsEnd = nil
			}
			select {
			case <-end:
				stop()
				return
			case <-faultsEnd:
				quietSince = time.Now()
				faultsEnded()
			case err := <-ended:
				if !w.mayEnd(err) || !quietSince.IsZero() && time.Since(quietSince) > recovery {
					w.found("ended: %v", err)
				}
				stop()
				alive = false
			case <-next:
				alive = w.disturb(random, link, stop)
			}
		}
		time.Sleep(time.Duration(random.IntN(5000)) * time.Millisecond)
	}
}

// disturb stops, kills or partitions an operator, and reports whether it still runs.
func (w *system) disturb(random *rand.Rand, link *network, stop func()) (alive bool) {
	switch random.IntN(3) {
	case 0:
		w.count("stopped")
		stop()
	case 1:
		w.count("killed")
		link.set(false, true)
		stop()
	default:
		w.count("partitioned")
		link.set(false, true)
		time.Sleep(time.Duration(1+random.IntN(20)) * time.Second)
		link.set(false, false)
		return true
	}
	return false
}

// start runs an operator.
func (w *system) start(name string, stream uint64) (link *network, stop func(), ended chan error) {
	link = newNetwork(observed{w}, w.seed, stream)
	w.mu.Lock()
	w.networks = append(w.networks, link)
	w.mu.Unlock()
	cfg := operator.Config{REST: &rest.Config{Host: "http://apitest", Transport: link}, Log: quiet}
	opts := []operator.Option{operator.Owns[corev1.Pod](), operator.Concurrency(3)}
	if w.mode == "election" {
		cfg.Election = &leader.Config{Lease: client.Key{Namespace: "system", Name: "soak"}, Identity: name}
	} else {
		opts = append(opts, operator.Sharded())
	}
	r := &reconciler{name: name, random: rand.New(rand.NewPCG(w.seed, stream+1))}
	ctx, cancel := context.WithCancel(context.Background())
	ended = make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- operator.Run(ctx, cfg, operator.Name("soak"), operator.AddToScheme(addOrders),
			w.reconciler(r, opts...))
	}()
	return link, func() { cancel(); <-done }, ended
}

// observed is the server. It checks each pod that is created.
type observed struct{ w *system }

func (o observed) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := o.w.server.RoundTrip(r)
	if err == nil && r.Method == http.MethodPost && resp.StatusCode == http.StatusCreated &&
		strings.HasSuffix(r.URL.Path, "/pods") {
		o.w.count("pods")
		o.w.judgeCounts()
	}
	return resp, err
}

// judgeCounts finds orders with too many pods.
func (w *system) judgeCounts() map[string]int {
	pods := map[string]int{}
	for _, obj := range w.server.Objects("pods") {
		pods[parse[corev1.Pod](obj).Labels[ofLabel]]++
	}
	for _, obj := range w.server.Objects("orders") {
		if o := parse[Order](obj); pods[o.Name] > o.Spec.Want {
			w.found("duplicated: order %s wants %d pods and has %d", o.Name, o.Spec.Want, pods[o.Name])
		}
	}
	return pods
}

// judge compares the final state with the expected one.
func (w *system) judge() {
	pods := w.judgeCounts()
	reports := map[string]string{}
	for _, obj := range w.server.Objects("configmaps") {
		cm := parse[corev1.ConfigMap](obj)
		reports[cm.Name] = cm.Data["want"]
	}
	for _, obj := range w.server.Objects("orders") {
		o := parse[Order](obj)
		if o.DeletionTimestamp != nil {
			w.found("lost: the deletion of order %s", o.Name)
			continue
		}
		if pods[o.Name] < o.Spec.Want {
			w.found("lost: order %s wants %d pods and has %d", o.Name, o.Spec.Want, pods[o.Name])
		}
		if o.Status.Made != o.Spec.Want || o.Status.ObservedGeneration != o.Generation {
			w.found("lost: order %s wants %d in generation %d, its status is %+v", o.Name, o.Spec.Want, o.Generation,
				o.Status)
		}
		if got := reports[o.Name+"-report"]; got != strconv.Itoa(o.Spec.Want) {
			w.found("lost: order %s wants %d, its report has %q", o.Name, o.Spec.Want, got)
		}
		delete(pods, o.Name)
	}
	for name, n := range pods {
		w.found("lost: %d pods of the deleted order %s are left", n, name)
	}
}

// user creates, changes and deletes orders, and deletes pods, until ctx ends.
func (w *system) user(ctx context.Context, t *testing.T) {
	random := rand.New(rand.NewPCG(w.seed, 7))
	c, err := client.New(client.Config{REST: w.server.REST()})
	if err != nil {
		t.Error(err)
		return
	}
	if err := addOrders(c.Scheme()); err != nil {
		t.Error(err)
		return
	}
	made := 0
	for ctx.Err() == nil {
		_ = sleep(ctx, time.Duration(random.IntN(4000))*time.Millisecond)
		name := fmt.Sprint("o", random.IntN(made+1))
		switch luck := random.IntN(10); {
		case made < ordersMade && (made == 0 || luck < 4):
			if err := c.Create(ctx, order(fmt.Sprint("o", made), 1+random.IntN(2))); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			made++
			w.count("orders")
		case luck < 6: // the number of pods of an order never decreases
			o := order(name, 0)
			if c.Get(ctx, client.KeyOf(o), o) == nil && o.Spec.Want < 6 {
				o.Spec.Want++
				_ = c.Update(ctx, o)
			}
		case luck < 7:
			if made > ordersMade/2 && c.Delete(ctx, order(name, 0)) == nil {
				w.count("deleted")
			}
		case luck < 9:
			if pods := w.server.Objects("pods"); len(pods) > 0 {
				pod := parse[corev1.Pod](pods[random.IntN(len(pods))])
				_ = c.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}})
			}
		}
	}
}
