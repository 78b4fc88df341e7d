package leader_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/leader"
	"kelson.dev/operator/reconcile"
)

// field has the objects that several replicas share, and the replica that works on each.
type field struct {
	t      *testing.T
	server *apitest.Server
	size   int

	mu      sync.Mutex
	holders map[int]string
	done    map[int]string // the replica that last worked on each object
	count   int
}

func newField(t *testing.T, size int) *field {
	return &field{t: t, server: apitest.New(), size: size, holders: map[int]string{}, done: map[int]string{}}
}

func (f *field) begin(n int, identity string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if other, held := f.holders[n]; held {
		f.t.Errorf("%d is with %s and %s", n, other, identity)
	}
	f.holders[n] = identity
}

func (f *field) end(n int, identity string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.holders, n)
	f.done[n] = identity
	f.count++
}

// cable is the connection of one replica to the server, which can be cut.
type cable struct {
	http.RoundTripper
	mu    sync.Mutex
	cut   bool
	stall bool // watches deliver nothing, and do not end
	stuck bool // requests ignore their context
}

func (c *cable) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	cut, stuck := c.cut, c.stuck
	c.mu.Unlock()
	if stuck {
		time.Sleep(time.Hour)
	}
	if cut {
		return nil, errors.New("cut off")
	}
	resp, err := c.RoundTripper.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") == "true" {
		resp.Body = stalling{resp.Body, c, r.Context()}
	}
	return resp, err
}

func (c *cable) set(f func(*cable)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

type stalling struct {
	io.ReadCloser
	cable *cable
	ctx   context.Context
}

func (s stalling) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	for {
		s.cable.mu.Lock()
		stalled := s.cable.stall
		s.cable.mu.Unlock()
		if !stalled || s.ctx.Err() != nil {
			return n, err
		}
		sleep(s.ctx, time.Second)
	}
}

type replica struct {
	name   string
	cable  *cable
	cancel context.CancelFunc
	ended  chan error
}

// join starts a replica whose workers take objects at random and hold them for a while.
func (f *field) join(name string) *replica {
	f.t.Helper()
	config := f.server.REST()
	r := &replica{name: name, cable: &cable{RoundTripper: config.Transport}, ended: make(chan error, 1)}
	c, err := client.New(client.Config{REST: &rest.Config{Host: config.Host, Transport: r.cable}})
	must(f.t, err)
	s, err := leader.NewShards(leader.ShardsConfig{Client: c, Group: key, Identity: name,
		Log: slog.New(slog.DiscardHandler)})
	must(f.t, err)
	working, stopWork := context.WithCancel(context.Background())
	running, cancel := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	for w := range 3 {
		random := rand.New(rand.NewPCG(uint64(len(name)), uint64(w)))
		workers.Go(func() {
			for working.Err() == nil {
				n := random.IntN(f.size/3)*3 + w // each object has one worker, as with a queue
				if leave, ours := s.Enter(request(n)); ours {
					f.begin(n, name)
					sleep(working, time.Duration(random.IntN(300))*time.Millisecond)
					f.end(n, name)
					leave()
				} else {
					sleep(working, 100*time.Millisecond)
				}
			}
		})
	}
	// the work ends first, as in a manager
	r.cancel = func() { stopWork(); workers.Wait(); cancel() }
	go func() {
		err := s.Run(running)
		stopWork()
		workers.Wait()
		r.ended <- err
	}()
	return r
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func request(n int) reconcile.Request {
	return reconcile.Request{NamespacedName: client.Key{Namespace: "default", Name: fmt.Sprint(n)}}
}

// shares returns the number of objects that each replica worked on since the last call.
func (f *field) shares(pass time.Duration) map[string]int {
	f.mu.Lock()
	clear(f.done)
	f.mu.Unlock()
	time.Sleep(pass)
	f.mu.Lock()
	defer f.mu.Unlock()
	shares := map[string]int{}
	for _, identity := range f.done {
		shares[identity]++
	}
	return shares
}

func (f *field) want(when string, names ...string) {
	f.t.Helper()
	shares := f.shares(2 * time.Minute)
	all := 0
	for _, name := range names {
		all += shares[name]
		if fair := f.size / len(names); shares[name] < fair/2 || shares[name] > fair*2 {
			f.t.Errorf("%s: %s has %d of %d objects", when, name, shares[name], f.size)
		}
	}
	if all != f.size || len(shares) != len(names) {
		f.t.Errorf("%s: %v has %d of %d objects", when, shares, all, f.size)
	}
}

// Each object belongs to exactly one replica while replicas join and leave.
func TestShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newField(t, 60)
		a := f.join("a")
		f.want("alone", "a")
		b, c := f.join("b"), f.join("c")
		f.want("three", "a", "b", "c")
		a.cancel()
		must(t, <-a.ended)
		shares := f.shares(20 * time.Second)
		assert.Equalf(t, len(shares), 2, "after one has left: %v", shares)
		f.want("two", "b", "c")
		b.cable.mu.Lock()
		b.cable.cut = true
		b.cable.mu.Unlock()
		begin := time.Now()
		if err := <-b.ended; !errors.Is(err, leader.ErrLost) || time.Since(begin) > 11*time.Second {
			t.Errorf("cut off: %v after %v", err, time.Since(begin))
		}
		time.Sleep(10 * time.Second)
		f.want("one", "c")
		assert.Equalf(t, len(f.server.Objects("leases")), 1, "Leases are left")
		c.cancel()
		must(t, <-c.ended)
		assert.Equalf(t, len(f.server.Objects("leases")), 0, "Leases are left")
	})
}

// Replicas join, leave and crash at random for ten minutes.
func TestShardsUnderFaults(t *testing.T) {
	for seed := range uint64(2) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			f := newField(t, 30)
			var slow sync.Mutex
			calm := false
			f.server.SetFaults(apitest.Faults{Fail: func(string, string) (int, metav1.StatusReason) {
				slow.Lock()
				defer slow.Unlock()
				if !calm && random.IntN(20) == 0 {
					return http.StatusInternalServerError, metav1.StatusReasonInternalError
				}
				return 0, ""
			}})
			live := map[string]*replica{}
			var dead []*replica
			for step := range 40 {
				var victim *replica
				for _, r := range live {
					victim = r
				}
				slow.Lock()
				dice := random.IntN(4)
				pause := time.Duration(random.IntN(20000)) * time.Millisecond
				slow.Unlock()
				switch {
				case len(live) < 2 || dice < 2 && len(live) < 5:
					name := fmt.Sprint("r", step)
					live[name] = f.join(name)
				case dice == 2:
					victim.cancel()
					<-victim.ended
					delete(live, victim.name)
				default:
					victim.cable.mu.Lock()
					victim.cable.cut = true
					victim.cable.mu.Unlock()
					delete(live, victim.name)
					dead = append(dead, victim)
				}
				time.Sleep(pause)
			}
			slow.Lock()
			calm = true
			slow.Unlock()
			time.Sleep(time.Minute)
			shares, all := f.shares(3*time.Minute), 0
			for _, n := range shares {
				all += n
			}
			if all != f.size {
				t.Errorf("seed %d: %d of %d objects belong to a replica: %v", seed, all, f.size, shares)
			}
			for _, r := range live {
				r.cancel()
				<-r.ended
			}
			for _, r := range dead {
				r.cancel()
				<-r.ended
			}
			t.Logf("seed %d: %d times worked", seed, f.count)
		})
	}
}

// A replica whose watch stalls, while its requests succeed, does not consider the others dead.
func TestShardsWithStalledWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newField(t, 30)
		a, b, c := f.join("a"), f.join("b"), f.join("c")
		f.want("three", "a", "b", "c")
		a.cable.set(func(c *cable) { c.stall = true })
		time.Sleep(2 * time.Minute) // an object that belongs to two replicas fails the test
		b.cable.set(func(c *cable) { c.cut = true })
		<-b.ended
		time.Sleep(time.Minute)
		a.cable.set(func(c *cable) { c.stall = false })
		time.Sleep(time.Minute)
		f.want("two", "a", "c")
		for _, r := range []*replica{a, c} {
			r.cancel()
			must(t, <-r.ended)
		}
	})
}

// If another client deletes the Lease of a replica, the others wait until the replica has noticed
// that.
func TestShardsWithDeletedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newField(t, 30)
		b, c := f.join("b"), f.join("c")
		admin, err := client.New(client.Config{REST: f.server.REST()})
		must(t, err)
		for n := range 8 {
			a := f.join(fmt.Sprint("a", n))
			time.Sleep(time.Minute)
			leases, err := client.List[coordinationv1.Lease](t.Context(), admin)
			must(t, err)
			a.cable.set(func(c *cable) { c.stall = true })
			for _, lease := range leases {
				if *lease.Spec.HolderIdentity == a.name {
					must(t, admin.Delete(t.Context(), lease))
				}
			}
			begin := time.Now()
			if err := <-a.ended; !errors.Is(err, leader.ErrLost) || time.Since(begin) > 11*time.Second {
				t.Errorf("after %v: %v", time.Since(begin), err)
			}
			time.Sleep(time.Minute) // an object that belongs to two replicas fails the test
		}
		f.want("two", "b", "c")
		b.cancel()
		must(t, <-b.ended)
		if shares := f.shares(10 * time.Second); shares["c"] < f.size*2/3 {
			t.Errorf("c has %d of %d objects 10 seconds after b has left", shares["c"], f.size)
		}
		c.cancel()
		must(t, <-c.ended)
	})
}

// If another client deletes all Leases, a replica that starts immediately afterwards waits until
// the others have noticed that, even if their watches have stalled.
func TestShardsWithAllLeasesDeleted(t *testing.T) {
	for _, stalled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newField(t, 30)
			admin, err := client.New(client.Config{REST: f.server.REST()})
			must(t, err)
			a, b := f.join("a"), f.join("b")
			time.Sleep(time.Minute + 700*time.Millisecond)
			for _, r := range []*replica{a, b} {
				r.cable.set(func(c *cable) { c.stall = stalled })
			}
			must(t, admin.DeleteAllOf(t.Context(), &coordinationv1.Lease{}, client.InNamespace(key.Namespace)))
			c := f.join("c") // an object that belongs to two replicas fails the test
			begin := time.Now()
			for _, r := range []*replica{a, b} {
				if err := <-r.ended; !errors.Is(err, leader.ErrLost) || !stalled && time.Since(begin) > 0 {
					t.Errorf("%s after %v: %v", r.name, time.Since(begin), err)
				}
			}
			f.want("one", "c")
			c.cancel()
			must(t, <-c.ended)
		})
	}
}

// A replica stops its work in time even if a request does not return when its context ends.
func TestShardsWithStuckRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newField(t, 30)
		a, b := f.join("a"), f.join("b")
		f.want("two", "a", "b")
		a.cable.set(func(c *cable) { c.stuck = true })
		begin := time.Now()
		if err := <-a.ended; !errors.Is(err, leader.ErrLost) || time.Since(begin) > 11*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		time.Sleep(time.Minute)
		f.want("one", "b")
		b.cancel()
		must(t, <-b.ended)
		time.Sleep(2 * time.Hour)
	})
}

// Objects that a replica takes over wait until the replica has caught up. Objects that it already
// had do not wait, nor do they wait for a failure elsewhere.
func TestShardsCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newField(t, 30)
		b := f.join("b")
		time.Sleep(time.Minute)
		c, err := client.New(client.Config{REST: f.server.REST()})
		must(t, err)
		s, err := leader.NewShards(leader.ShardsConfig{Client: c, Group: key, Identity: "a",
			Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		begun, end := make(chan struct{}), make(chan error)
		s.CatchUpWith(func(ctx context.Context) error {
			begun <- struct{}{}
			return <-end
		})
		gained := 0
		s.Gained(func() { gained++ })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		mine := func() (n int) {
			for i := range f.size {
				if leave, ours := s.Enter(request(i)); ours {
					leave()
					n++
				}
			}
			return n
		}
		<-begun
		time.Sleep(10 * time.Second)
		if n := mine(); n != 0 || gained != 0 {
			t.Errorf("%d objects before it has caught up; Gained was called %d times", n, gained)
		}
		end <- errors.New("not now")
		<-begun
		assert.Equalf(t, mine(), 0, "objects after a failure")
		end <- nil
		for { // objects that change while it catches up are included
			select {
			case <-begun:
				end <- nil
				continue
			case <-time.After(10 * time.Second):
			}
			break
		}
		had := mine()
		if had == 0 || had == f.size || gained == 0 {
			t.Errorf("%d objects, Gained was called %d times", had, gained)
		}
		b.cancel()
		must(t, <-b.ended)
		<-begun
		time.Sleep(time.Second)
		if n := mine(); n != had {
			t.Errorf("%d objects while it catches up, and it had %d", n, had)
		}
		end <- nil
		for n := 0; n < 10; n++ {
			select {
			case <-begun:
				end <- nil
			case <-time.After(time.Second):
			}
		}
		assert.Equalf(t, mine(), f.size, "objects in the end")
		cancel()
		must(t, <-ended)
	})
}

// A replica that joins while the server fails, or whose first response is lost, retries, and does
// not mistake its own Lease for another replica's.
func TestShardsJoinFaultyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.New()
		faults := []func(*http.Request) (*http.Response, error){
			func(*http.Request) (*http.Response, error) { return nil, errCut },
			func(r *http.Request) (*http.Response, error) { // executed, and the response is lost
				_, _ = server.RoundTrip(r)
				return nil, errCut
			},
			// response to the read of the Lease
			func(*http.Request) (*http.Response, error) { return nil, errCut },
		}
		c, err := client.New(client.Config{REST: &rest.Config{Host: "http://apitest",
			Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Query().Get("watch") == "true" ||
					r.Method == http.MethodGet && !strings.Contains(r.URL.Path, "/leases/") || len(faults) == 0 {
					return server.RoundTrip(r)
				}
				next := faults[0]
				faults = faults[1:]
				return next(r)
			})}})
		must(t, err)
		s, err := leader.NewShards(leader.ShardsConfig{Client: c, Group: client.Key{Namespace: "system", Name: "test"},
			Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		stop := require.Running(t, s.Run)
		time.Sleep(time.Minute)
		leave, ours := s.Enter(reconcile.Request{})
		if !ours || len(server.Objects("leases")) != 1 {
			t.Errorf("ours is %v, and there are %d Leases", ours, len(server.Objects("leases")))
		} else {
			leave()
		}
		stop()
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// stripping removes the annotations of the objects in updates, as an admission policy can.
type stripping struct {
	http.RoundTripper
	updates atomic.Int32
}

func (s *stripping) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut {
		return s.RoundTripper.RoundTrip(r)
	}
	if s.updates.Add(1) > 100 {
		time.Sleep(time.Second) // too many
	}
	var lease map[string]any
	if err := json.NewDecoder(r.Body).Decode(&lease); err != nil {
		return nil, err
	}
	delete(lease["metadata"].(map[string]any), "annotations")
	data, err := json.Marshal(lease)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	return s.RoundTripper.RoundTrip(r)
}

// A replica whose announcements are not stored repeats them only with each renewal.
func TestShardsThatAreNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := apitest.New().REST()
		through := &stripping{RoundTripper: config.Transport}
		c, err := client.New(client.Config{REST: &rest.Config{Host: config.Host, Transport: through}})
		must(t, err)
		var log bytes.Buffer
		s, err := leader.NewShards(leader.ShardsConfig{Client: c, Group: key, Identity: "a",
			RetryPeriod: 2 * time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))})
		must(t, err)
		stop := require.Running(t, s.Run)
		time.Sleep(time.Minute)
		if n := through.updates.Load(); n < 25 || n > 35 {
			t.Errorf("%d updates in a minute", n)
		}
		if _, ours := s.Enter(request(1)); ours {
			t.Error("the replica works without a stored announcement")
		}
		stop()
		if strings.Count(log.String(), "the server changed the annotation") != 1 {
			t.Errorf("log: %s", log.String())
		}
	})
}

// The members of a view are separated by commas.
func TestShardsIdentity(t *testing.T) {
	c, err := client.New(client.Config{REST: apitest.New().REST()})
	must(t, err)
	_, err = leader.NewShards(leader.ShardsConfig{Client: c, Group: key, Identity: "a,b"})
	assert.ErrorContains(t, err, `Config.Identity "a,b" must not contain ","`)
	_, err = leader.New(leader.Config{Client: c, Lease: key, RetryPeriod: -1})
	assert.ErrorContains(t, err, "want 0 < RetryPeriod (-1ns)")
}
