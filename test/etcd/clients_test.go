package etcd_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// clients use ConfigMaps of one namespace through some servers, and record all responses and
// events. mu guards the slices.
type clients struct {
	t       *testing.T
	servers []typed.ConfigMapInterface
	began   time.Time
	acked   atomic.Uint64 // the newest acknowledged revision

	mu       sync.Mutex
	uses     []porcupine.Operation
	told     map[uint64]string // revision → the write at this revision, from responses and events
	segments []segment
	unknown  int
	expired  int
}

// segment holds the events that one watch received: all after a revision, up to another.
type segment struct {
	after, until uint64
	revisions    []uint64
}

// use is one operation on a key.
type use struct {
	key, verb     string
	expect, value string // the payload that an update or deletion replaces, and the new one
}

// outcome is the result of a use.
type outcome struct {
	kind string // ok, refused or unknown
	saw  string // payload of a get; "" means not found
}

const clientKeys = 4

// connect creates clients of servers.
func connect(t *testing.T, servers ...*server) *clients {
	t.Helper()
	c := &clients{t: t, began: time.Now(), told: map[uint64]string{}}
	for _, s := range servers {
		config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
		require.NoError(t, err)
		config.QPS = -1
		set, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		c.servers = append(c.servers, set.CoreV1().ConfigMaps("default"))
	}
	return c
}

func (c *clients) any(r *rand.Rand) typed.ConfigMapInterface {
	return c.servers[r.IntN(len(c.servers))]
}

// work performs operations on keys until the test ends, each through a random server.
func (c *clients) work(ctx context.Context, r *rand.Rand, who int) {
	for i := 0; ctx.Err() == nil; i++ {
		u := use{key: fmt.Sprint("k", r.IntN(clientKeys)), verb: "get"}
		now := c.do(ctx, r, who, u, nil)
		if now != nil { // the server responded
			u.value = fmt.Sprint(who, ".", i)
			switch u.expect = now.Data["payload"]; {
			case now.Name == "" || r.IntN(8) == 0:
				u.verb, u.expect = "create", ""
			case r.IntN(4) == 0:
				u.verb, u.value = "delete", ""
			default:
				u.verb = "update"
			}
			c.do(ctx, r, who, u, now)
		}
		pause(ctx, time.Duration(r.IntN(10))*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// do performs one use and records its outcome. For a get it returns the object, an empty one if it
// does not exist, and nil if there was no response.
func (c *clients) do(ctx context.Context, r *rand.Rand, who int, u use, over *corev1.ConfigMap) *corev1.ConfigMap {
	ask, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	server, acknowledged := c.any(r), c.acked.Load()
	wanted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: u.key}, Data: map[string]string{"payload": u.value}}
	var got *corev1.ConfigMap
	var err error
	call := time.Since(c.began)
	switch u.verb {
	case "get":
		got, err = server.Get(ask, u.key, metav1.GetOptions{})
	case "create":
		got, err = server.Create(ask, wanted, metav1.CreateOptions{})
	case "update":
		wanted.ResourceVersion = over.ResourceVersion
		got, err = server.Update(ask, wanted, metav1.UpdateOptions{})
	case "delete":
		err = server.Delete(ask, u.key, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &over.UID,
			ResourceVersion: &over.ResourceVersion}})
	}
	end := time.Since(c.began)
	o := outcome{kind: "ok"}
	switch {
	case err == nil && u.verb == "get":
		o.saw = got.Data["payload"]
	case u.verb == "get" && apierrors.IsNotFound(err):
		got = &corev1.ConfigMap{}
	case u.verb == "get":
		return nil // unknown outcome
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		o.kind = "refused"
	case err != nil:
		o.kind, end = "unknown", time.Hour
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uses = append(c.uses, porcupine.Operation{ClientId: who, Input: u, Output: o, Call: int64(call),
		Return: int64(end)})
	if o.kind == "unknown" {
		c.unknown++
	}
	if err == nil && (u.verb == "create" || u.verb == "update") {
		revision := number(c.t, got.ResourceVersion)
		if revision <= acknowledged {
			c.t.Errorf("%s of %s got revision %d after %d had been acknowledged", u.verb, u.key, revision, acknowledged)
		}
		c.announce(revision, u.key+" "+u.value)
		c.acked.Store(max(c.acked.Load(), revision)) // while mu is held
	}
	return got
}

// announce records the write of a revision. The caller holds mu.
func (c *clients) announce(revision uint64, what string) {
	if other, twice := c.told[revision]; twice && other != what {
		c.t.Errorf("revision %d is of %q and of %q", revision, other, what)
	}
	c.told[revision] = what
}

func number(t *testing.T, revision string) uint64 {
	n, err := strconv.ParseUint(revision, 10, 64)
	assert.NoError(t, err)
	return n
}

// follow lists and watches until it has seen the end. When a watch breaks, it continues at any
// server from the last revision; when that revision is compacted, it lists again.
func (c *clients) follow(ctx context.Context, r *rand.Rand) {
	after := uint64(0)
	for ctx.Err() == nil {
		if after == 0 {
			list, err := c.any(r).List(ctx, metav1.ListOptions{})
			if err != nil {
				pause(ctx, 50*time.Millisecond)
				continue
			}
			after = number(c.t, list.ResourceVersion)
			if slices.ContainsFunc(list.Items, func(m corev1.ConfigMap) bool { return m.Name == "end" }) {
				return
			}
		}
		w, err := c.any(r).Watch(ctx, metav1.ListOptions{ResourceVersion: fmt.Sprint(after), AllowWatchBookmarks: true})
		switch {
		case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
			after = c.gone()
		case err != nil:
			pause(ctx, 50*time.Millisecond)
		default:
			seen, expired, ended := c.drain(ctx, r, w, after)
			if after = seen; ended {
				return
			}
			if expired {
				after = c.gone()
			}
		}
	}
	c.t.Error("a watcher did not receive the end")
}

func (c *clients) gone() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expired++
	return 0
}

// drain reads a watch to its end, or until the client ends it.
func (c *clients) drain(ctx context.Context, r *rand.Rand, w watch.Interface,
	after uint64) (until uint64, expired, ended bool) {
	defer w.Stop()
	s := segment{after: after, until: after}
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.segments = append(c.segments, s)
	}()
	enough := time.After(time.Duration(500+r.IntN(4000)) * time.Millisecond)
	for {
		var e watch.Event
		var ok bool
		select {
		case e, ok = <-w.ResultChan():
		case <-enough:
			return s.until, false, false
		case <-ctx.Done():
		}
		if !ok {
			return s.until, false, false
		}
		if e.Type == watch.Error {
			return s.until, apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) ||
				apierrors.IsGone(apierrors.FromObject(e.Object)), false
		}
		object := e.Object.(*corev1.ConfigMap)
		revision := number(c.t, object.ResourceVersion)
		if revision < s.until || e.Type != watch.Bookmark && revision == s.until {
			c.t.Errorf("%s of revision %d after %d", e.Type, revision, s.until)
		}
		s.until = revision
		if e.Type == watch.Bookmark {
			continue
		}
		s.revisions = append(s.revisions, revision)
		what := object.Name + " " + object.Data["payload"]
		if e.Type == watch.Deleted {
			what = object.Name + " "
		}
		c.mu.Lock()
		c.announce(revision, what)
		c.mu.Unlock()
		if object.Name == "end" {
			return s.until, false, true
		}
	}
}

// finish writes the end of the history for all watchers.
func (c *clients) finish() {
	c.t.Helper()
	wanted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "end"}}
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		_, err := c.servers[0].Create(c.t.Context(), wanted, metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("writes still fail: %v", err)
		}
	}
}

// check checks that all responses and events are consistent.
func (c *clients) check() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	revisions := slices.Sorted(maps.Keys(c.told))
	events := 0
	for _, s := range c.segments {
		events += len(s.revisions)
		var want []uint64
		for _, revision := range revisions {
			if revision > s.after && revision <= s.until {
				want = append(want, revision)
			}
		}
		assert.Slicef(c.t, s.revisions, want, "a watch after %d until %d had revisions", s.after, s.until)
	}
	last := map[string]string{}
	for _, revision := range revisions {
		key, payload, _ := strings.Cut(c.told[revision], " ")
		last[key] = payload
	}
	for i, server := range c.servers {
		for n := range clientKeys {
			key := fmt.Sprint("k", n)
			now, err := server.Get(c.t.Context(), key, metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				c.t.Fatal(err)
			}
			if err != nil {
				now = &corev1.ConfigMap{}
			}
			if got := now.Data["payload"]; got != last[key] {
				c.t.Errorf("server %d has %q as %s, the last event had %q", i, got, key, last[key])
			}
		}
	}
	c.t.Logf("%d uses of keys, %d of them of unknown outcome; %d revisions; %d events in %d watches, %d of which got the error that their revision was compacted",
		len(c.uses), c.unknown, len(revisions), events, len(c.segments), c.expired)
	if len(revisions) < 20 || events < 20 {
		c.t.Error("too few operations succeeded")
	}
	result := porcupine.CheckOperationsTimeout(storedKey.ToModel(), c.uses, time.Minute)
	assert.Equalf(c.t, result, porcupine.Ok, "keys are not linearizable")
}

// storedKey is the model of a key. The key has the value of the last write. Writes check their
// precondition. A write with unknown outcome may or may not have happened. A state is a payload;
// each payload is written once.
var storedKey = porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, op := range history {
			key := op.Input.(use).key
			byKey[key] = append(byKey[key], op)
		}
		return slices.Collect(maps.Values(byKey))
	},
	Init: func() []any { return []any{""} },
	Step: func(state, input, output any) []any {
		now, u, o := state.(string), input.(use), output.(outcome)
		fits := now == u.expect // for a creation: the key does not exist
		switch {
		case u.verb == "get" && now == o.saw, o.kind == "refused" && !fits:
			return []any{now}
		case u.verb == "get", o.kind == "refused", o.kind == "ok" && !fits:
			return nil
		case o.kind == "ok":
			return []any{u.value}
		case fits:
			return []any{now, u.value}
		}
		return []any{now}
	},
	Equal: func(a, b any) bool { return a == b },
}

// run runs clients during harm, and checks their responses.
func (c *clients) run(seed uint64, harm func(*rand.Rand)) {
	c.t.Helper()
	random := func(who int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(who))) }
	working, stop := context.WithCancel(c.t.Context())
	defer stop()
	var workers, followers sync.WaitGroup
	for i := range 5 {
		workers.Go(func() { c.work(working, random(i), i) })
	}
	following, end := context.WithCancel(c.t.Context())
	defer end()
	for i := range 4 {
		followers.Go(func() { c.follow(following, random(100+i)) })
	}
	harm(random(1000))
	stop()
	workers.Wait()
	c.finish()
	time.AfterFunc(time.Minute, end)
	followers.Wait()
	c.check()
}
