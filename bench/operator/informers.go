package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/bench/operator/sample"
	"kelson.dev/operator/client"
)

// prepare creates the custom resource and a namespace.
func prepare(ctx context.Context, s *server, namespace string) error {
	if err := s.client.Create(ctx, sample.Definition()); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := s.client.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	scheme := s.client.Scheme()
	if err := sample.AddToScheme(scheme); err != nil {
		return err
	}
	for { // until the kind is served
		_, err := client.List[sample.Sample](ctx, s.client)
		if err == nil || ctx.Err() != nil || !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// each calls work with every number below count, from 32 goroutines.
func each(ctx context.Context, count int, work func(n int) error) error {
	return eachBy(ctx, 32, count, work)
}

func eachBy(ctx context.Context, writers, count int, work func(n int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for n := int(next.Add(1)) - 1; n < count && ctx.Err() == nil; n = int(next.Add(1)) - 1 {
				if err := work(n); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// informers measures the memory and time of an informer of 50,000 custom resources, and of as many
// Pods.
func informers(ctx context.Context, dir string, t *table) error {
	var starts []func(context.Context, string) (*server, error)
	if isAsked("kelson") {
		starts = append(starts, startKelson)
	}
	if isAsked("kube-apiserver") {
		starts = append(starts, startPeer)
	}
	for n, start := range starts {
		under := filepath.Join(dir, strconv.Itoa(n))
		if err := os.Mkdir(under, 0o700); err != nil {
			return err
		}
		if err := informersOf(ctx, under, start, t); err != nil {
			return err
		}
	}
	return nil
}

func informersOf(ctx context.Context, dir string, start func(context.Context, string) (*server, error),
	t *table) error {
	s, err := start(ctx, dir)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := prepare(ctx, s, "bench"); err != nil {
		return err
	}
	begin := time.Now()
	err = each(ctx, *objects, func(n int) error { return s.client.Create(ctx, sample.NewSample("bench", n)) })
	if err == nil {
		err = each(ctx, *objects, func(n int) error { return s.client.Create(ctx, sample.NewPod("bench", n)) })
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s has the objects after %s\n", s.name, time.Since(begin).Round(time.Second))
	count := []string{"-count", strconv.Itoa(*objects)}
	for _, task := range []struct{ name, title string }{{"samples", "custom resources"}, {"pods", "Pods"}} {
		// The first run does not count, because it fills the server's caches.
		if _, err := do(ctx, "ours", task.name, s, append(count, "-compact")...); err != nil {
			return err
		}
		all := map[string][]sample.Figures{}
		for range *rounds {
			for _, side := range []struct {
				which, form string
				args        []string
			}{{"theirs", "", count}, {"ours", "full", count}, {"ours", "compact", append(count, "-compact")}} {
				f, err := do(ctx, side.which, task.name, s, side.args...)
				if err != nil {
					return err
				}
				all[side.which+side.form] = append(all[side.which+side.form], f)
			}
		}
		theirs, full, compact := medians(all["theirs"]), medians(all["oursfull"]), medians(all["ourscompact"])
		title := fmt.Sprintf("%d %s on %s: ", *objects, task.title, s.name)
		t.group("Informers")
		if s.name == "kelson" { // the heap does not depend on the server
			t.row(title+"heap per object, compact", byteCount, theirs.Heap, compact.Heap, atMost(0.2))
			t.row(title+"heap per object, full", byteCount, theirs.Heap, full.Heap, atMost(0.8))
		}
		t.row(title+"peak resident, compact", byteCount, theirs.Peak, compact.Peak, atMost(1.0/3))
		t.row(title+"peak resident, full", byteCount, theirs.Peak, full.Peak, nil)
		t.row(title+"sync, compact", seconds, theirs.Seconds, compact.Seconds, atMost(0.6))
		t.row(title+"sync, full", seconds, theirs.Seconds, full.Seconds, atMost(0.6))
		t.row(title+"processor, full", seconds, theirs.CPU, full.CPU, nil)
		t.row(title+"allocated, full", byteCount, theirs.Allocated, full.Allocated, nil)
	}
	return nil
}
