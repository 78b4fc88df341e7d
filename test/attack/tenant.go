package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	perSecond    = 50               // requests of the tenant
	tooLate      = 10 * time.Second // for a response to the tenant
	probeEvery   = 200 * time.Millisecond
	probeTimeout = 5 * time.Second
)

// tenant is a user who works normally in its own namespace.
type tenant struct {
	*target
	round int
	reads bool // it only reads
}

func newTenant(ctx context.Context, t *target) (*tenant, error) {
	var objects [][2]string
	for i := range 20 {
		objects = append(objects, [2]string{tenantMaps, configMap(fmt.Sprint("c", i), "x")})
	}
	return &tenant{target: t}, t.create(ctx, innocent, objects)
}

const tenantMaps = "/api/v1/namespaces/tenant/configmaps"

func configMap(name, value string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"a":%q}}`, name, value)
}

// latencies are the requests of one client during a period.
type latencies struct {
	mu      sync.Mutex
	all     []time.Duration // including failed requests
	failed  int
	example error // the first failure
}

func (l *latencies) add(took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, took)
	if err != nil {
		if l.failed++; l.example == nil {
			l.example = err
		}
	}
}

func (l *latencies) requests() int { return len(l.all) }

// p99 is the time within which 99 of 100 requests got their responses.
func (l *latencies) p99() time.Duration { return l.quantile(0.99) }

func (l *latencies) slowest() time.Duration { return l.quantile(1) }

func (l *latencies) quantile(q float64) time.Duration {
	if len(l.all) == 0 {
		return 0
	}
	slices.Sort(l.all)
	return l.all[min(len(l.all)-1, int(q*float64(len(l.all))))]
}

// work sends perSecond requests a second, whether or not earlier ones have been answered, and
// probes concurrently. It does not retry. It returns when all responses have arrived.
func (t *tenant) work(ctx context.Context, d time.Duration) (requests, probes *latencies) {
	requests, probes = &latencies{}, &latencies{}
	var wg sync.WaitGroup
	defer wg.Wait()
	end := time.Now().Add(d)
	wg.Go(func() {
		for time.Now().Before(end) && ctx.Err() == nil {
			took, err := t.probe(ctx)
			probes.add(took, err)
			sleep(ctx, probeEvery)
		}
	})
	ticker := time.NewTicker(time.Second / perSecond)
	defer ticker.Stop()
	for i := 0; time.Now().Before(end) && ctx.Err() == nil; i++ {
		<-ticker.C
		wg.Go(func() { t.request(ctx, requests, i) })
	}
	t.round++
	return requests, probes
}

// request sends the i-th request of a round. Most are reads and updates; every tenth creates an
// object and then deletes it.
func (t *tenant) request(ctx context.Context, l *latencies, i int) {
	one := func(method, path, media, body string) error { // also counts the error
		ctx, cancel := context.WithTimeout(ctx, tooLate)
		defer cancel()
		begin := time.Now()
		_, err := t.send(ctx, innocent, method, path, media, body)
		l.add(time.Since(begin), err)
		return err
	}
	object := fmt.Sprintf("%s/c%d", tenantMaps, i%20)
	if kind := i % 10; t.reads && (kind == 3 || kind > 6) {
		i = 1 // a read of one object
	}
	switch i % 10 {
	case 0, 5:
		_ = one(http.MethodGet, tenantMaps, "", "")
	case 3, 7, 8:
		_ = one(http.MethodPatch, object, "application/merge-patch+json",
			fmt.Sprintf(`{"data":{"n":"%d-%d"}}`, t.round, i))
	case 9:
		name := fmt.Sprintf("new-%d-%d", t.round, i)
		if one(http.MethodPost, tenantMaps, "application/json", configMap(name, "x")) == nil {
			_ = one(http.MethodDelete, tenantMaps+"/"+name, "", "")
		}
	default:
		_ = one(http.MethodGet, object, "", "")
	}
}

// probe requests /readyz as a kubelet does: anonymously, on a new connection.
func (t *tenant) probe(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true}}
	begin := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+t.addr+"/readyz", nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return time.Since(begin), err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("/readyz: %s", resp.Status)
	}
	return time.Since(begin), err
}
