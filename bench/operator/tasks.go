package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"kelson.dev/bench/operator/sample"
	"kelson.dev/operator/client"
)

// queues compares the work queues.
func queues(ctx context.Context, _ string, t *table) error {
	theirs, err := do(ctx, "theirs", "queue", nil)
	if err != nil {
		return err
	}
	ours, err := do(ctx, "ours", "queue", nil)
	if err != nil {
		return err
	}
	t.group("Work queue with priorities: Add, Get and Done per second")
	for _, workers := range []string{"1", "16"} {
		rate := ours.Rate["kelson "+workers]
		t.row(workers+" workers, against client-go (no priorities)", perSecond, theirs.Rate["client-go "+workers], rate,
			atLeast(2))
		t.row(workers+" workers, against controller-runtime", perSecond, theirs.Rate["controller-runtime "+workers],
			rate, nil)
	}
	return nil
}

// handlers measures one informer with 100 handlers and 10,000 events of a hundred objects.
func handlers(ctx context.Context, dir string, t *table) error {
	s, err := startKelson(ctx, dir)
	if err != nil {
		return err
	}
	defer s.stop()
	const keys, rounds = 100, 100
	var all []sample.Figures
	for _, which := range []string{"theirs", "ours"} {
		if err := prepare(ctx, s, which); err != nil {
			return err
		}
		// the updates need the objects
		_ = each(ctx, keys, func(n int) error { return s.client.Create(ctx, counting(which, n, 0)) })
		p, err := begin(which, "handlers", s, "-count", strconv.Itoa(keys*rounds))
		if err != nil {
			return err
		}
		if err := p.waitReady(); err != nil {
			return err
		}
		if err := each(ctx, keys, func(n int) error {
			for round := range rounds {
				if err := s.client.Update(ctx, counting(which, n, round+1)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		f, err := p.end()
		if err != nil {
			return err
		}
		all = append(all, f)
	}
	theirs, ours := all[0], all[1]
	t.group("100 handlers on one informer, 10,000 events, on kelson")
	t.row("first write to last call", seconds, theirs.Seconds, ours.Seconds, nil)
	t.row("processor", seconds, theirs.CPU, ours.CPU, nil)
	t.row("peak resident", byteCount, theirs.Peak, ours.Peak, nil)
	t.row("calls lost, or out of order of their key", number, theirs.Lost, ours.Lost, exactly(0))
	return nil
}

func counting(namespace string, key, n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("key-", key)},
		Data: map[string]string{"n": strconv.Itoa(n)}}
}

// idle measures the memory of an idle operator that watches three kinds.
func idle(ctx context.Context, dir string, t *table) error {
	s, err := startKelson(ctx, dir)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := prepare(ctx, s, "idle"); err != nil {
		return err
	}
	rss := map[string]float64{}
	for _, which := range []string{"theirs", "ours"} {
		p, err := begin(which, "idle", s)
		if err != nil {
			return err
		}
		time.Sleep(10 * time.Second)
		rss[which] = p.resident()
		p.terminate()
		if _, err := p.end(); err != nil {
			return err
		}
	}
	t.group("Operator")
	t.row("idle, three kinds watched: resident", byteCount, rss["theirs"], rss["ours"], atMost(0.5))
	return nil
}

// reconciles measures operators that create a ConfigMap and write a status for each of 5,000 custom
// resources, and then for one resource at a time. It also measures the same writes without an
// operator. Compared runs follow each other directly, and the order alternates, so that no side
// profits from the state of the machine after a run.
func reconciles(ctx context.Context, dir string, t *table) error {
	order := []struct {
		which, server string
		start         func(context.Context, string) (*server, error)
	}{
		{"ours", "kube-apiserver", startPeer}, {"theirs", "kube-apiserver", startPeer}, {"ours", "kelson", startKelson},
		{"theirs", "kelson", startKelson}, {"alone", "kelson", startKelson}, {"alone", "kube-apiserver", startPeer},
	}
	all := map[string][]reconciled{}
	for turn := range *turns {
		for n, run := range order {
			if !isAsked(run.server) {
				continue
			}
			name := run.which + " on " + run.server
			under := filepath.Join(dir, fmt.Sprintf("%d-%d", turn, n))
			if err := os.Mkdir(under, 0o700); err != nil {
				return err
			}
			r, err := reconcileOn(ctx, under, run.which, run.start)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			fmt.Fprintf(os.Stderr, "%s: %.2f s, processor %.2f s and %.2f s of the server; one at a time %.2f ms\n",
				name, r.wall, r.CPU, r.serverCPU, r.latency*1000)
			all[name] = append(all[name], r)
		}
		slices.Reverse(order)
	}
	wall := func(r reconciled) float64 { return r.wall }
	latency := func(r reconciled) float64 { return r.latency }
	own := func(r reconciled) sample.Figures { return r.Figures }
	t.group("Operator")
	rows := func(server string, wanted, cpu, conflicts, per target) {
		title := fmt.Sprintf("%d custom resources → child and status on %s: ", *samples, server)
		pairs := func(what string, u unit, figure func(reconciled) float64, want target) {
			t.pairs(what, u, extract(all["theirs on "+server], figure), extract(all["ours on "+server], figure), want)
		}
		theirs, ours := medians(extract(all["theirs on "+server], own)), medians(extract(all["ours on "+server], own))
		pairs(title+"wall", seconds, wall, wanted)
		t.pairs(title+"wall of the writes alone, without an operator", seconds, extract(all["theirs on "+server], wall),
			extract(all["alone on "+server], wall), nil)
		pairs(title+"processor of the operator", seconds, func(r reconciled) float64 { return r.CPU }, cpu)
		t.row(title+"conflicts", number, theirs.Conflicts, ours.Conflicts, conflicts)
		t.row(title+"reconciles per resource", number, theirs.Reconciles/float64(*samples),
			ours.Reconciles/float64(*samples), per)
		pairs(title+"processor of the server", seconds, func(r reconciled) float64 { return r.serverCPU }, nil)
		t.row(title+"allocated by the operator", byteCount, theirs.Allocated, ours.Allocated, nil)
		t.row(title+"peak resident of the operator", byteCount, theirs.Peak, ours.Peak, nil)
		pairs("one resource on "+server+": create → status seen, p50", seconds, latency, nil)
	}
	if isAsked("kube-apiserver") {
		rows("kube-apiserver", atMost(0.6), atMost(0.5), exactly(0), below(2.1))
	}
	if isAsked("kelson") {
		rows("kelson", nil, nil, exactly(0), below(2.1))
	}
	if isAsked("kelson") && isAsked("kube-apiserver") {
		t.pairs("theirs on kube-apiserver, ours on Kelson: wall", seconds,
			extract(all["theirs on kube-apiserver"], wall), extract(all["ours on kelson"], wall), atMost(0.1))
		t.pairs("theirs on kube-apiserver, ours on Kelson: one resource, p50", seconds,
			extract(all["theirs on kube-apiserver"], latency), extract(all["ours on kelson"], latency), atMost(0.3))
	}
	return nil
}

type reconciled struct {
	sample.Figures
	wall, latency, serverCPU float64
}

func reconcileOn(ctx context.Context, dir, which string,
	start func(context.Context, string) (*server, error)) (r reconciled, err error) {
	s, err := start(ctx, dir)
	if err != nil {
		return r, err
	}
	defer s.stop()
	if err := prepare(ctx, s, "bench"); err != nil {
		return r, err
	}
	versions := make([]string, *samples)
	if err := each(ctx, *samples, func(n int) error {
		obj := sample.NewSample("bench", n)
		err := s.client.Create(ctx, obj)
		versions[n] = obj.ResourceVersion
		return err
	}); err != nil {
		return r, err
	}
	if err := s.prepare(); err != nil {
		return r, err
	}
	if which == "alone" {
		return writeAlone(ctx, s, versions)
	}
	prototype := &sample.Sample{}
	prototype.SetGroupVersionKind(sample.Kind)
	// The watch starts now, so that the server has no older events to send when the clock starts.
	items := client.NewItems(client.NewEncoded(prototype))
	if err := s.client.List(ctx, items, client.ListOptions{Namespace: "bench", Limit: 1}); err != nil {
		return r, err
	}
	stream, err := s.client.Watch(ctx, items, client.ListOptions{Namespace: "bench",
		ResourceVersion: items.ResourceVersion, Bookmarks: true})
	if err != nil {
		return r, err
	}
	defer stream.Stop()
	before := s.cpu()
	p, err := begin(which, "reconcile", s)
	if err != nil {
		return r, err
	}
	ready, err := awaitReady(stream, *samples)
	if err != nil {
		return r, err
	}
	r.wall = ready.Sub(p.started).Seconds()
	time.Sleep(2 * time.Second) // until the resulting events have passed
	r.serverCPU = s.cpu() - before
	p.terminate()
	if r.Figures, err = p.end(); err != nil {
		return r, err
	}

	// Measure one resource at a time, with an otherwise idle operator.
	if p, err = begin(which, "reconcile", s); err != nil {
		return r, err
	}
	time.Sleep(3 * time.Second)
	var all []float64
	for n := range 110 {
		begun := time.Now()
		if err := s.client.Create(ctx, sample.NewSample("bench", *samples+n)); err != nil {
			return r, err
		}
		seen, err := awaitReady(stream, 1)
		if err != nil {
			return r, err
		}
		if n >= 10 { // the first ones are a warm-up
			all = append(all, seen.Sub(begun).Seconds())
		}
	}
	slices.Sort(all)
	r.latency = all[len(all)/2]
	p.terminate()
	_, err = p.end()
	return r, err
}

// writeAlone sends the writes of an operator for all resources, in the form that is cheapest for a
// server, with 16 workers. versions are the resource versions of the resources.
func writeAlone(ctx context.Context, s *server, versions []string) (r reconciled, err error) {
	before, begun := s.cpu(), time.Now()
	err = eachBy(ctx, 16, *samples, func(n int) error {
		child := sample.NewChild(sample.NewSample("bench", n))
		if err := s.client.Create(ctx, child); err != nil {
			return err
		}
		parent := &unstructured.Unstructured{
			Object: map[string]any{"status": map[string]any{"child": child.Name, "ready": true}}}
		parent.SetGroupVersionKind(sample.Kind)
		parent.SetNamespace(child.Namespace)
		parent.SetName(child.Name)
		parent.SetResourceVersion(versions[n])
		return s.client.Subresource("status").Update(ctx, parent, parent,
			client.FieldValidation(metav1.FieldValidationIgnore))
	})
	r.wall, r.serverCPU = time.Since(begun).Seconds(), s.cpu()-before
	return r, err
}

// awaitReady reads the watch until the given number of additional resources are ready.
func awaitReady(stream watch.Interface, count int) (time.Time, error) {
	seen := map[types.UID]bool{}
	timeout := time.After(3 * time.Minute)
	for len(seen) < count {
		select {
		case event, ok := <-stream.ResultChan():
			if !ok {
				return time.Time{}, fmt.Errorf("the watch ended")
			}
			e, ok := event.Object.(*client.Encoded)
			if ok && event.Type == watch.Modified && bytes.Contains(e.Data, []byte(`"ready":true`)) {
				seen[e.UID] = true
			}
		case <-timeout:
			return time.Time{}, fmt.Errorf("%d of %d are ready after three minutes", len(seen), count)
		}
	}
	return time.Now(), nil
}
