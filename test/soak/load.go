package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	jsonMedia  = "application/json"
	mergePatch = "application/merge-patch+json"
	protobuf   = "application/vnd.kubernetes.protobuf"
	namespace  = "soak"
	widgets    = "/apis/soak.example.com/v1/namespaces/" + namespace + "/widgets"
	core       = "/api/v1/namespaces/" + namespace
)

// kind is a kind of objects whose number the load keeps constant.
type kind struct {
	path   string
	number int
	object func(name string, rnd *rand.Rand) string
	patch  func(rnd *rand.Rand) string

	names []string // of the objects that exist
}

// load sends the mixture of requests.
type load struct {
	srv   *server
	sent  atomic.Int64
	lists atomic.Int64

	mu    sync.Mutex // guards what follows
	rnd   *rand.Rand
	kinds []*kind
	next  int
}

func newLoad(srv *server, seed uint64) *load {
	return &load{srv: srv, rnd: rand.New(rand.NewPCG(seed, 0)), kinds: []*kind{
		{path: core + "/configmaps", number: 400, object: configMap, patch: func(rnd *rand.Rand) string {
			return fmt.Sprintf(`{"data":{"changed":"%s"}}`, text(rnd, 200))
		}},
		{path: core + "/pods", number: 80, object: pod, patch: func(rnd *rand.Rand) string {
			return fmt.Sprintf(`{"metadata":{"annotations":{"soak.example.com/changed":"%s"}}}`, text(rnd, 40))
		}},
		{path: widgets, number: 400, object: widget, patch: func(rnd *rand.Rand) string {
			return fmt.Sprintf(`{"spec":{"size":%d,"note":"%s"}}`, rnd.IntN(1000), text(rnd, 100))
		}},
	}}
}

func text(rnd *rand.Rand, length int) string {
	var b strings.Builder
	for b.Len() < length {
		fmt.Fprintf(&b, "%016x", rnd.Uint64())
	}
	return b.String()[:length]
}

func configMap(name string, rnd *rand.Rand) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s","labels":{"app":"soak"}},"data":{"config":"%s"}}`,
		name, text(rnd, 500+rnd.IntN(6000)))
}

func pod(name string, rnd *rand.Rand) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%s","labels":{"app":"soak","part":"%s"}},`+
		`"spec":{"containers":[{"name":"main","image":"example.com/soak:1","command":["run"],"env":[{"name":"TEXT","value":"%s"}]}]}}`,
		name, text(rnd, 8), text(rnd, 300))
}

func widget(name string, rnd *rand.Rand) string {
	return fmt.Sprintf(`{"apiVersion":"soak.example.com/v1","kind":"Widget","metadata":{"name":"%s","labels":{"app":"soak"}},"spec":{"size":%d,"note":"%s"}}`,
		name, rnd.IntN(1000), text(rnd, 300+rnd.IntN(2000)))
}

func event(name string, rnd *rand.Rand) string {
	now := time.Now().UTC().Format(time.RFC3339)
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Event","metadata":{"name":"%s","namespace":"%s"},"type":"Normal","reason":"Soaked","message":"%s",`+
		`"involvedObject":{"apiVersion":"v1","kind":"Pod","namespace":"%s","name":"pod-%d"},"source":{"component":"soak"},"count":1,`+
		`"firstTimestamp":"%s","lastTimestamp":"%s"}`, name, namespace, text(rnd, 100+rnd.IntN(300)), namespace,
		rnd.IntN(80), now, now)
}

const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.soak.example.com"},
"spec":{"group":"soak.example.com","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
"versions":[{"name":"v1","served":true,"storage":true,"additionalPrinterColumns":[{"name":"Size","type":"integer","jsonPath":".spec.size"}],
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"},"note":{"type":"string"}}}}}}}]}}`

// prepare creates the objects whose number stays constant, and Events.
func (l *load) prepare(ctx context.Context, events int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for _, object := range [][2]string{
		{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition},
		{"/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + namespace + `"}}`},
	} {
		if _, err := l.srv.send(ctx, http.MethodPost, object[0], jsonMedia, []byte(object[1])); err != nil {
			return err
		}
	}
	for {
		if _, err := l.srv.send(ctx, http.MethodGet, widgets, "", nil); err == nil {
			break
		} else if ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	for {
		// Pods need the ServiceAccount of the namespace.
		if _, err := l.srv.send(ctx, http.MethodGet, core+"/serviceaccounts/default", "", nil); err == nil {
			break
		} else if ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, k := range l.kinds {
		for len(k.names) < k.number {
			if err := l.create(k).send(ctx, l.srv); err != nil {
				return err
			}
		}
	}
	for range events {
		if err := l.event().send(ctx, l.srv); err != nil {
			return err
		}
	}
	return nil
}

// request is a request of the mixture.
type request struct{ method, path, media, body string }

func (r request) send(ctx context.Context, srv *server) error {
	_, err := srv.send(ctx, r.method, r.path, r.media, []byte(r.body))
	return err
}

// choose returns the next request.
func (l *load) choose() request {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rnd.IntN(10) < 6 {
		return l.event()
	}
	k := l.kinds[l.rnd.IntN(len(l.kinds))]
	switch {
	case len(k.names) < k.number:
		return l.create(k)
	case l.rnd.IntN(5) < 2:
		return request{http.MethodPatch, k.path + "/" + k.names[l.rnd.IntN(len(k.names))], mergePatch, k.patch(l.rnd)}
	}
	i := l.rnd.IntN(len(k.names))
	name := k.names[i]
	k.names[i] = k.names[len(k.names)-1]
	k.names = k.names[:len(k.names)-1]
	return request{http.MethodDelete, k.path + "/" + name, "", ""}
}

func (l *load) create(k *kind) request {
	l.next++
	name := fmt.Sprintf("soak-%d", l.next)
	k.names = append(k.names, name)
	return request{http.MethodPost, k.path, jsonMedia, k.object(name, l.rnd)}
}

func (l *load) event() request {
	l.next++
	return request{http.MethodPost, core + "/events", jsonMedia, event(fmt.Sprintf("event-%d", l.next), l.rnd)}
}

// run sends requests at a rate until ctx ends. A request that fails ends it.
func (l *load) run(ctx context.Context, rate int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	const workers = 8
	todo := make(chan request, workers)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for r := range todo {
				if err := r.send(ctx, l.srv); err != nil && !gone(err) && ctx.Err() == nil {
					cancel(err)
				}
				l.sent.Add(1)
			}
		})
	}
	wg.Go(func() { l.list(ctx, cancel) })
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			select {
			case todo <- l.choose():
			case <-ctx.Done():
			}
		}
	}
	close(todo)
	wg.Wait()
	if err := context.Cause(ctx); err != nil && err != context.DeadlineExceeded && err != context.Canceled {
		return err
	}
	return nil
}

const (
	table   = "application/json;as=Table;g=meta.k8s.io;v=v1"
	partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metas   = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// lists are read one after the other, one each second. As kubectl does, those of tables have pages.
var lists = [][2]string{
	{core + "/events?limit=500", jsonMedia}, {core + "/pods", protobuf}, {core + "/configmaps?limit=500", table},
	{widgets, jsonMedia},
	{core + "/events?limit=500", protobuf}, {core + "/pods?limit=500", table}, {core + "/configmaps", jsonMedia},
	{widgets + "?limit=500", table},
	{core + "/events", metas}, {core + "/pods", jsonMedia}, {core + "/configmaps", protobuf}, {widgets, metas},
	{core + "/events?limit=500", table}, {core + "/pods?fieldSelector=status.phase%3DRunning", jsonMedia},
	{core + "/configmaps", metas},
	{core + "/events", protobuf}, {core + "/events?fieldSelector=reason%3DSoaked", jsonMedia},
}

func (l *load) list(ctx context.Context, failed context.CancelCauseFunc) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		next := lists[i%len(lists)]
		if err := l.srv.drain(ctx, next[0], next[1]); err != nil && ctx.Err() == nil {
			failed(err)
			return
		}
		l.lists.Add(1)
	}
}
