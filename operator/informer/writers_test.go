package informer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/randomtest"
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
)

// Many writers that read their own writes, with an informer that is sometimes late. Run it with
// -race.
func TestWritersReadTheirOwnWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.run()
		w.names()
		w.lag(30 * time.Millisecond)
		seed := randomtest.Seed(t)
		var writers sync.WaitGroup
		for n := range 8 {
			writers.Go(func() {
				random := rand.New(rand.NewPCG(seed, uint64(n)))
				w.write(random, fmt.Sprintf("p%d", n))
			})
		}
		writers.Go(func() { // another client; its writes may become visible late
			for n := range 100 {
				time.Sleep(7 * time.Millisecond)
				p := pod(fmt.Sprintf("other%d", n%3))
				if w.direct.Create(w.ctx, p) != nil {
					_ = w.direct.Delete(w.ctx, p)
				}
				if n%30 == 0 {
					w.server.CutWatches()
				}
				if n%45 == 0 {
					w.server.Compact()
				}
			}
		})
		writers.Wait()
		time.Sleep(10 * time.Minute)
		w.names()
		w.isDrained()
	})
}

// write changes one pod at random and compares each read with the expected state.
func (w *fixture) write(random *rand.Rand, name string) {
	var want *corev1.Pod // nil: it does not exist
	for step := range 150 {
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		var err error
		what := "nothing"
		switch next := random.IntN(6); {
		case want == nil && next < 4:
			what = "create"
			want = labelled(pod(name), fmt.Sprint(step))
			err = w.client.Create(w.ctx, want)
		case want == nil:
		case next == 0:
			what = "delete"
			err = w.client.Delete(w.ctx, want)
			want = nil
		case next == 1:
			what = "delete and create"
			if err = w.client.Delete(w.ctx, want); err == nil {
				want = labelled(pod(name), fmt.Sprint(step))
				err = w.client.Create(w.ctx, want)
			}
		case next == 2:
			what = "update after a read"
			if want, err = client.Get[corev1.Pod](w.ctx, w.client, client.KeyOf(want)); err == nil {
				err = w.client.Update(w.ctx, labelled(want, fmt.Sprint(step)))
			}
		case next == 3:
			what = "patch"
			patch := client.MergeFrom(want, client.OptimisticLock)
			err = w.client.Patch(w.ctx, labelled(want, fmt.Sprint(step)), patch)
		case next == 4:
			what = "finalized delete"
			want.Finalizers = []string{"example.com/hold"}
			if err = w.client.Update(w.ctx, want); err != nil {
				break
			}
			if err = w.client.Delete(w.ctx, want); err != nil {
				break
			}
			if want, err = client.Get[corev1.Pod](w.ctx, w.client, client.KeyOf(want)); err != nil {
				break
			}
			if want.DeletionTimestamp == nil {
				err = fmt.Errorf("the pod has no deletionTimestamp")
				break
			}
			want.Finalizers = nil
			err = w.client.Update(w.ctx, want)
			want = nil
		}
		if err != nil {
			w.t.Errorf("%s, step %d, %s: %v", name, step, what, err)
			return
		}
		w.compare(name, fmt.Sprintf("step %d, %s", step, what), want)
	}
}

func (w *fixture) compare(name, when string, want *corev1.Pod) {
	identity := func(p *corev1.Pod) string {
		if p == nil {
			return "nothing"
		}
		return fmt.Sprintf("%s at %s", p.UID, p.ResourceVersion)
	}
	got, err := client.Get[corev1.Pod](w.ctx, w.client, client.Key{Namespace: "default", Name: name})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Errorf("%s, %s: %v", name, when, err)
		return
	}
	assert.Equalf(w.t, identity(got), identity(want), "%s, %s", name, when)
	all, err := client.List[corev1.Pod](w.ctx, w.client)
	if err != nil {
		w.t.Errorf("%s, %s: %v", name, when, err)
		return
	}
	var listed *corev1.Pod
	if n := slices.IndexFunc(all, func(p *corev1.Pod) bool { return p.Name == name }); n >= 0 {
		listed = all[n]
	}
	assert.Equalf(w.t, identity(listed), identity(want), "%s, %s: listed", name, when)
}

// Two sets of informers that are late show the writes of one client.
func TestRecordingInTwoSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		other, err := informer.New(informer.Config{Client: w.direct, Form: form, Log: w.logger()})
		w.must(err)
		w.run()
		ended := make(chan error, 1)
		go func() { ended <- other.Run(w.ctx) }()
		readers := []client.Client{w.client, other.Client()}
		for _, r := range readers {
			_, err := client.List[corev1.Pod](w.ctx, r)
			w.must(err)
		}
		w.lag(time.Minute)
		writer := other.Recording(w.set.Recording(w.direct))
		want := func(when, version string) {
			t.Helper()
			for n, r := range append(readers, writer) {
				p, err := client.Get[corev1.Pod](w.ctx, r, client.KeyOf(pod("a")))
				if version == "" != apierrors.IsNotFound(err) || err == nil && p.ResourceVersion != version {
					t.Errorf("%s, reader %d: %v, %v, want version %q", when, n, p, err, version)
				}
			}
		}
		p := pod("a")
		w.must(writer.Create(w.ctx, p))
		want("created", p.ResourceVersion)
		w.must(writer.Update(w.ctx, labelled(p, "2")))
		want("updated", p.ResourceVersion)
		p.Status.Phase = corev1.PodRunning
		w.must(writer.Subresource("status").Update(w.ctx, p, nil))
		want("status updated", p.ResourceVersion)
		w.must(writer.DeleteAllOf(w.ctx, &corev1.Pod{}, client.InNamespace("default")))
		want("all deleted", "")
		w.must(writer.Create(w.ctx, pod("a")))
		w.must(writer.Delete(w.ctx, pod("a")))
		want("deleted", "")
		w.stop()
		w.must(<-ended)
	})
}
