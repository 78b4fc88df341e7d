package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/internal/transcript"
	"kelson.dev/operator/leader"
)

// TestTraces runs the files in testdata/traces, in virtual time. A line that begins with "> " is a
// command; the lines up to the next command or comment are its result: what happened during it,
// with the seconds since the begin. The duration of the Lease is 15 seconds.
//
//	> enter a      replica a takes part in the election
//	> leave a      it is asked to stop; its work takes two seconds to end
//	> kill a       its process is killed
//	> isolate a    its requests fail; "connect a" ends this
//	> wait 10      as many seconds pass
//	> lease        the record in the Lease
//	> delete       a user deletes the Lease
func TestTraces(t *testing.T) {
	transcript.Run(t, func(t *testing.T, f transcript.File) {
		synctest.Test(t, func(t *testing.T) {
			server := apitest.New()
			p := &player{t: t, began: time.Now(), server: server, direct: newClient(t, server),
				replicas: map[string]*participant{}}
			defer p.end()
			f.Play(t, p.play)
		})
	})
}

// player runs the commands of a trace.
type player struct {
	t        *testing.T
	began    time.Time
	server   *apitest.Server
	direct   client.Client
	replicas map[string]*participant

	mu    sync.Mutex
	lines []string
}

// participant is a replica in the election, with a network of its own.
type participant struct {
	http.RoundTripper
	isolated, killed atomic.Bool
	cancel           context.CancelFunc
	ended            chan struct{}
}

func (r *participant) RoundTrip(req *http.Request) (*http.Response, error) {
	if r.isolated.Load() || r.killed.Load() {
		return nil, errors.New("no route to host")
	}
	return r.RoundTripper.RoundTrip(req)
}

// say adds a line to the result of the current command.
func (p *player) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, fmt.Sprintf("%v: ", time.Since(p.began))+fmt.Sprintf(format, args...))
}

func (p *player) play(words []string) string {
	argument := ""
	if len(words) > 1 {
		argument = words[1]
	}
	switch words[0] {
	case "enter":
		p.replicas[argument] = p.enter(argument)
	case "leave":
		p.replicas[argument].cancel()
	case "kill":
		p.replicas[argument].killed.Store(true)
		p.replicas[argument].cancel()
	case "isolate":
		p.replicas[argument].isolated.Store(true)
	case "connect":
		p.replicas[argument].isolated.Store(false)
	case "wait":
		n, err := strconv.Atoi(argument)
		must(p.t, err)
		time.Sleep(time.Duration(n) * time.Second) // virtual
	case "delete":
		lease, err := client.Get[coordinationv1.Lease](p.t.Context(), p.direct, key)
		must(p.t, err)
		must(p.t, p.direct.Delete(p.t.Context(), lease))
	case "lease":
		p.lease()
	default:
		p.t.Fatalf("unknown command %q", words)
	}
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := p.lines
	p.lines = nil
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

func (p *player) lease() {
	lease, err := client.Get[coordinationv1.Lease](p.t.Context(), p.direct, key)
	must(p.t, err)
	holder := "no replica"
	if h := lease.Spec.HolderIdentity; h != nil && *h != "" {
		holder = *h
	}
	p.say("held by %s, renewed at %v, %d transitions", holder, lease.Spec.RenewTime.Sub(p.began),
		*lease.Spec.LeaseTransitions)
}

func (p *player) enter(name string) *participant {
	config := p.server.REST()
	r := &participant{RoundTripper: config.Transport, ended: make(chan struct{})}
	config.Transport = r
	c, err := client.New(client.Config{REST: config})
	must(p.t, err)
	e, err := leader.New(leader.Config{Client: c, Lease: key, Identity: name, Log: slog.New(slog.DiscardHandler)})
	must(p.t, err)
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	say := func(format string, args ...any) {
		if !r.killed.Load() {
			p.say(name+" "+format, args...)
		}
	}
	go func() {
		defer close(r.ended)
		err := e.Run(ctx, func(ctx context.Context) error {
			say("leads")
			<-ctx.Done()
			say("must stop")
			time.Sleep(2 * time.Second) // virtual
			say("has stopped")
			return nil
		})
		if err != nil {
			say("ends: %v", err)
		}
	}()
	return r
}

// end ends all replicas.
func (p *player) end() {
	for _, r := range p.replicas {
		r.killed.Store(true)
		r.cancel()
	}
	for _, r := range p.replicas {
		<-r.ended
	}
}
