package informer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest"
)

// Informers under random faults: dropped history, cut watches, slow responses, errors, conflicts,
// unreachable servers, and servers restored from an old backup. No read returns a state from before
// the reader's own write, no handler misses an event or gets it twice, and in the end every copy
// equals the server's state. Each round has a new fixture and a seed. KELSON_SOAK is the real time
// to run for; KELSON_SEED repeats one round.
func TestSoak(t *testing.T) {
	if form != informer.Full {
		t.Skip("each round chooses its form")
	}
	length := time.Second
	if text := os.Getenv("KELSON_SOAK"); text != "" {
		var err error
		length, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	if text := os.Getenv("KELSON_SEED"); text != "" {
		var seed uint64
		_, err := fmt.Sscan(text, &seed)
		must(t, err)
		soak(t, seed)
		return
	}
	rounds := 0
	for begin := time.Now(); time.Since(begin) < length && !t.Failed(); rounds++ {
		soak(t, rand.Uint64())
	}
	t.Logf("%d rounds", rounds)
}

// mirror is the state that a handler derives from its calls.
type mirror struct {
	name string
	t    *testing.T
	slow time.Duration

	mu   sync.Mutex
	objs map[string]string // name → uid and version
}

func identityOf(obj client.Object) string {
	return fmt.Sprintf("%s at %s", obj.GetUID(), obj.GetResourceVersion())
}

func (m *mirror) OnAdd(obj client.Object, _ bool) {
	time.Sleep(m.slow)
	m.mu.Lock()
	defer m.mu.Unlock()
	if was, ok := m.objs[obj.GetName()]; ok {
		m.t.Errorf("%s: %s is added as %s, and was %s", m.name, obj.GetName(), identityOf(obj), was)
	}
	m.objs[obj.GetName()] = identityOf(obj)
}

func (m *mirror) OnUpdate(old, obj client.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if was := m.objs[obj.GetName()]; was != identityOf(old) {
		m.t.Errorf("%s: %s is updated from %s, and was %s", m.name, obj.GetName(), identityOf(old), was)
	}
	m.objs[obj.GetName()] = identityOf(obj)
}

func (m *mirror) OnDelete(obj client.Object, _ bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.objs[obj.GetName()]; !ok {
		m.t.Errorf("%s: %s is deleted, and was not there", m.name, obj.GetName())
	}
	delete(m.objs, obj.GetName())
}

// injector decides which faults occur. It is safe for concurrent use.
type injector struct {
	mu     sync.Mutex
	random *rand.Rand
	calm   bool
	away   bool // the server is unreachable
}

func (w *injector) set(calm, away bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calm, w.away = calm, away
}

// intercept rejects, delays or drops some requests.
func (w *injector) intercept(rw http.ResponseWriter, r *http.Request) bool {
	w.mu.Lock()
	calm, away, luck, delay := w.calm, w.away, w.random.IntN(100), time.Duration(w.random.IntN(3000))*time.Millisecond
	w.mu.Unlock()
	answer := func(code int, reason metav1.StatusReason) bool {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(code)
		_ = json.NewEncoder(rw).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status: metav1.StatusFailure,
			Code:   int32(code), Reason: reason, Message: "bad luck"})
		return true
	}
	switch {
	case calm:
	case away:
		return answer(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
	case luck < 6:
		return answer(http.StatusInternalServerError, metav1.StatusReasonInternalError)
	case luck < 9:
		return answer(http.StatusGone, metav1.StatusReasonExpired)
	case luck < 12:
		rw.Header().Set("Retry-After", "1")
		return answer(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
	case luck < 16 && r.Method != http.MethodGet:
		return answer(http.StatusConflict, metav1.StatusReasonConflict)
	case luck < 30:
		time.Sleep(delay)
	}
	return false
}

func soak(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 1))
		form := []informer.Form{informer.Full, informer.Compact}[random.IntN(2)]
		defer func() {
			if t.Failed() {
				t.Logf("repeat this round with KELSON_SEED=%d", seed)
			}
		}()
		w := newFixture(t, func(c *informer.Config) { c.Form = form })
		faulty := &injector{random: rand.New(rand.NewPCG(seed, 2))}
		faults := apitest.Faults{Intercept: faulty.intercept,
			WatchLag: time.Duration(random.IntN(40)) * time.Millisecond, NoStreaming: random.IntN(3) == 0}
		w.server.SetFaults(faults)
		pods := w.pods()
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		heads, err := w.set.For(metadata)
		w.must(err)
		mirrors := []*mirror{{name: "pods"}, {name: "slow", slow: 20 * time.Millisecond}, {name: "metadata"}}
		for n, m := range mirrors {
			m.t, m.objs = t, map[string]string{}
			w.handle([]informer.Informer{pods, pods, heads}[n], m)
		}
		w.run()

		ctx, cancel := context.WithCancel(w.ctx)
		var all sync.WaitGroup
		all.Go(func() { w.injectFaults(ctx, faulty, random) })
		var writers sync.WaitGroup
		for n := range 4 {
			writers.Go(func() { w.writeAndCompare(rand.New(rand.NewPCG(seed, 10+uint64(n))), fmt.Sprint("own", n)) })
		}
		all.Go(func() { // another client
			other := rand.New(rand.NewPCG(seed, 3))
			for ctx.Err() == nil {
				time.Sleep(time.Duration(other.IntN(200)) * time.Millisecond)
				p := labelled(pod(fmt.Sprint("other", other.IntN(5))), fmt.Sprint(other.IntN(9)))
				switch other.IntN(3) {
				case 0:
					_ = w.direct.Create(ctx, p)
				case 1:
					_ = w.direct.Delete(ctx, p)
				default:
					_ = w.direct.Patch(ctx, p, client.MergeFrom(pod(p.Name)))
				}
			}
		})
		writers.Wait()
		cancel()
		all.Wait()
		faulty.set(true, false)
		// a stalled watch may be noticed only when its timeout ends
		time.Sleep(30 * time.Minute)
		synctest.Wait()

		truth := map[string]string{}
		list, err := client.List[corev1.Pod](t.Context(), w.direct)
		w.must(err)
		for _, p := range list {
			truth[p.Name] = identityOf(p)
		}
		for n, i := range []informer.Informer{pods, heads} {
			held := map[string]string{}
			for _, obj := range i.List("") {
				held[obj.GetName()] = identityOf(obj)
			}
			if !maps.Equal(held, truth) {
				t.Errorf("informer %d has %v, the server %v", n, held, truth)
			}
		}
		for _, m := range mirrors {
			m.mu.Lock()
			if !maps.Equal(m.objs, truth) {
				t.Errorf("handler %s got %v, the server has %v", m.name, m.objs, truth)
			}
			m.mu.Unlock()
		}
		w.names()
		w.isDrained()
		for _, s := range w.set.Statuses() {
			if !s.Synced || s.Err != nil {
				t.Errorf("status %s", s)
			}
		}
	})
}

// injectFaults causes faults that do not belong to a single request.
func (w *fixture) injectFaults(ctx context.Context, faulty *injector, random *rand.Rand) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)
		switch random.IntN(4) {
		case 0:
			w.server.Compact()
		case 1:
			w.server.CutWatches()
		case 2: // a restart
			faulty.set(false, true)
			w.server.CutWatches()
			time.Sleep(time.Duration(random.IntN(5000)) * time.Millisecond)
			if random.IntN(2) == 0 {
				w.server.Compact() // what it had in memory
			}
			faulty.set(false, false)
		}
	}
}

// writeAndCompare makes random writes to one pod, repeats failed writes, and compares each read
// with the expected state.
func (w *fixture) writeAndCompare(random *rand.Rand, name string) {
	key := client.Key{Namespace: "default", Name: name}
	for step := range 60 {
		time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
		p := labelled(pod(name), fmt.Sprint(step))
		var err error
		gone := false
		switch random.IntN(4) {
		case 0:
			err = w.client.Apply(w.ctx, p)
		case 1:
			err = w.client.Create(w.ctx, p)
		case 2:
			if err = w.client.Get(w.ctx, key, p); err == nil {
				err = w.client.Update(w.ctx, labelled(p, fmt.Sprint(step)))
			}
		default:
			err = w.client.Delete(w.ctx, p)
			gone = err == nil
		}
		if err != nil {
			continue // it was not executed, or the outcome is unknown
		}
		got := &corev1.Pod{}
		readErr := w.client.Get(w.ctx, key, got)
		list, listErr := client.List[corev1.Pod](w.ctx, w.client)
		if listErr == nil && slices.ContainsFunc(list, func(l *corev1.Pod) bool {
			return l.Name == name && (gone || identityOf(l) == identityOf(p))
		}) == gone {
			w.t.Errorf("%s, step %d: the list lacks the write: gone %v, %s", name, step, gone, identityOf(p))
		}
		switch {
		case gone && readErr == nil:
			w.t.Errorf("%s, step %d: %s is there after its deletion", name, step, identityOf(got))
		case gone && apierrors.IsNotFound(readErr), readErr != nil && !apierrors.IsNotFound(readErr):
			// the object is gone, or the server failed
		case readErr != nil:
			w.t.Errorf("%s, step %d: %s is not there after it was written: %v", name, step, identityOf(p), readErr)
		case identityOf(got) != identityOf(p):
			w.t.Errorf("%s, step %d: read %s after %s was written", name, step, identityOf(got), identityOf(p))
		}
	}
}
