package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/leader"
)

// link is the network between one candidate and the server. Its rules may change at any time.
type link struct {
	server http.RoundTripper

	mu    sync.Mutex
	cut   bool
	stuck bool // requests ignore their context, as while a credential plugin runs
	delay func(*http.Request) (before, after time.Duration)
}

func (l *link) set(f func(*link)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l)
}

var errCut = errors.New("the network is cut")

func (l *link) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	cut, stuck, delay := l.cut, l.stuck, l.delay
	l.mu.Unlock()
	if stuck {
		time.Sleep(time.Hour)
	}
	if cut {
		return nil, errCut
	}
	var before, after time.Duration
	if delay != nil && r.URL.Query().Get("watch") == "" {
		before, after = delay(r)
	}
	sleep(r.Context(), before)
	// A request that was sent is executed, even if the client no longer waits for the response.
	resp, err := l.server.RoundTrip(r)
	sleep(r.Context(), after)
	if r.Context().Err() != nil {
		return nil, context.Cause(r.Context())
	}
	return resp, err
}

func linked(t *testing.T, server *apitest.Server) (*link, client.Client) {
	t.Helper()
	l := &link{server: server}
	c, err := client.New(client.Config{REST: &rest.Config{Host: "http://apitest", Transport: l}})
	must(t, err)
	return l, c
}

// The response that acquires the Lease is late, and a partition follows. The Lease counts from the
// time of the request.
func TestLateAcquisition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.New()
		s := &stage{t: t}
		near, a := linked(t, server)
		near.delay = func(r *http.Request) (before, after time.Duration) {
			if r.Method != http.MethodGet {
				return 0, 9500 * time.Millisecond
			}
			return 0, 0
		}
		first := s.enter(a, "a", 0)
		synctest.Wait()
		begin := time.Now()
		_, b := linked(t, server)
		second := s.enter(b, "b", 0)
		time.Sleep(9500 * time.Millisecond)
		synctest.Wait()
		near.set(func(l *link) { l.cut = true })
		if err := <-first.ended; err != nil && !errors.Is(err, leader.ErrLost) {
			t.Error(err)
		}
		if led := time.Since(begin); led > 10*time.Second {
			t.Errorf("it led until %v after its request", led)
		}
		time.Sleep(20 * time.Second) // b fails the test if a still leads
		assert.Equalf(t, s.leader(), "b", "leads")
		second.cancel()
		must(t, <-second.ended)
	})
}

// A leader stops in time even if a request does not return when its context ends.
func TestStuckRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.New()
		s := &stage{t: t}
		near, a := linked(t, server)
		first := s.enter(a, "a", 0)
		time.Sleep(time.Minute)
		near.set(func(l *link) { l.stuck = true })
		begin := time.Now()
		if err := <-first.ended; !errors.Is(err, leader.ErrLost) || time.Since(begin) > 10*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		time.Sleep(2 * time.Hour)
	})
}

// A Lease whose work has not stopped is not released.
func TestNotReleasedWhileWorking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, apitest.New())
		e, err := leader.New(leader.Config{Client: c, Lease: key, Identity: "a", Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- e.Run(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				return fmt.Errorf("stop: %w", leader.ErrStillWorking)
			})
		}()
		time.Sleep(time.Minute)
		cancel()
		assert.ErrorIs(t, <-ended, leader.ErrStillWorking)
		lease, err := client.Get[coordinationv1.Lease](t.Context(), c, key)
		must(t, err)
		assert.Equalf(t, *lease.Spec.HolderIdentity, "a", "it was released: %+v", lease.Spec)
	})
}

// The duration in the Lease has whole seconds, which other candidates use.
func TestLeaseDurationHasWholeSeconds(t *testing.T) {
	c := newClient(t, apitest.New())
	_, err := leader.New(leader.Config{Client: c, Lease: key, Duration: 15900 * time.Millisecond,
		RenewDeadline: 15500 * time.Millisecond, RetryPeriod: time.Second})
	if err == nil {
		t.Error("a leader may lead longer than its Lease lasts")
	}
}

// Candidates that saw a Lease treat it as held until it would have expired, even if it is deleted.
func TestDeletedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.New()
		s := &stage{t: t}
		near, a := linked(t, server)
		first := s.enter(a, "a", 0)
		time.Sleep(time.Minute)
		_, b := linked(t, server)
		second := s.enter(b, "b", 0)
		time.Sleep(time.Minute)
		near.set(func(l *link) { l.cut = true })
		must(t, newClient(t, server).Delete(t.Context(),
			&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
		<-first.ended
		time.Sleep(16 * time.Second)
		assert.Equalf(t, s.leader(), "b", "leads")
		second.cancel()
		must(t, <-second.ended)
	})
}

// With requests that are late, lost or cut off, there are never two leaders at the same time, and
// there is one when the network works again.
func TestFencing(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { fencing(t, rand.New(rand.NewPCG(seed, 6))) })
		})
	}
}

func fencing(t *testing.T, random *rand.Rand) {
	var mu sync.Mutex
	calm := false
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		if calm {
			return 0
		}
		return random.IntN(n)
	}
	// Tight timings reveal errors of one retry period.
	timing := []leader.Config{
		{},
		{Duration: 15 * time.Second, RenewDeadline: 14 * time.Second, RetryPeriod: 13 * time.Second},
		{Duration: 3 * time.Second, RenewDeadline: 2900 * time.Millisecond, RetryPeriod: 500 * time.Millisecond},
	}[draw(3)]
	server := apitest.New()
	s := &stage{t: t}
	type member struct {
		link *link
		*candidate
	}
	members := map[string]*member{}
	join := func(name string) {
		l, c := linked(t, server)
		l.delay = func(*http.Request) (before, after time.Duration) {
			span := []int{1, 1, 100, 5000, 20000}
			return time.Duration(draw(span[draw(len(span))])) * time.Millisecond,
				time.Duration(draw(span[draw(len(span))])) * time.Millisecond
		}
		cfg := timing
		cfg.Client, cfg.Lease, cfg.Identity, cfg.Log = c, key, name, slog.New(slog.DiscardHandler)
		e, err := leader.New(cfg)
		must(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		m := &member{l, &candidate{cancel, make(chan error, 1)}}
		go func() { m.ended <- e.Run(ctx, s.lead(name, 0)) }()
		members[name] = m
	}
	for n := range 3 {
		join(fmt.Sprint("m", n))
	}
	for step := range 60 {
		for name, m := range members {
			select {
			case <-m.ended: // it lost the election; its process starts again with another name
				delete(members, name)
				join(fmt.Sprint("m", step, "-", name))
				continue
			default:
			}
			switch draw(8) {
			case 0:
				m.link.set(func(l *link) { l.cut = true })
			case 1, 2:
				m.link.set(func(l *link) { l.cut = false })
			case 3:
				if draw(4) == 0 {
					m.cancel()
				}
			}
		}
		time.Sleep(time.Duration(draw(10000)) * time.Millisecond)
	}
	mu.Lock()
	calm = true
	mu.Unlock()
	for _, m := range members {
		m.link.set(func(l *link) { l.cut = false })
	}
	join("last")
	time.Sleep(2 * time.Minute)
	if s.leader() == "" {
		t.Error("no leader")
	}
	for _, m := range members {
		m.cancel()
		<-m.ended
	}
	t.Logf("%d terms", len(s.order))
}
