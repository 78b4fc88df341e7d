package workloads

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	kubecontroller "k8s.io/kubernetes/pkg/controller"
)

// pacing is a pacedIndexer over ReplicaSets with many and with few pods.
type pacing struct {
	*pacedIndexer
	sets cache.Indexer
	end  func()
}

func newPacing(t *testing.T) *pacing {
	sets := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
		kubecontroller.PodControllerIndex: func(obj any) ([]string, error) {
			pod := obj.(*corev1.Pod)
			return []string{kubecontroller.PodControllerIndexKey(pod.Namespace, metav1.GetControllerOf(pod))}, nil
		}})
	for name, count := range map[string]int{"many": 2000, "others": 2000, "few": 10, "": 2000} {
		if name != "" {
			if err := sets.Add(replicaSet(name, 1)); err != nil {
				t.Fatal(err)
			}
		}
		for n := range count {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-%d", name, n)}}
			if name != "" {
				pod.OwnerReferences = []metav1.OwnerReference{*ownerOf(name)}
			}
			if err := pods.Add(pod); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, end := context.WithCancel(t.Context())
	return &pacing{&pacedIndexer{Indexer: pods, ctx: ctx, owners: sets, next: map[string]time.Time{}}, sets, end}
}

func replicaSet(name string, generation int64) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u-1",
		Generation: generation}}
}

func ownerOf(name string) *metav1.OwnerReference {
	return &metav1.OwnerReference{Kind: "ReplicaSet", Name: name, UID: "u-1", Controller: new(true)}
}

// look returns the number of pods of a ReplicaSet; "" stands for the pods without an owner.
func (p *pacing) look(name string) (int, error) {
	key := kubecontroller.PodControllerIndexKey("default", nil)
	if name != "" {
		key = kubecontroller.PodControllerIndexKey("default", ownerOf(name))
	}
	pods, err := p.ByIndex(kubecontroller.PodControllerIndex, key)
	return len(pods), err
}

// Looks at the many pods of an owner have pauses. Looks at others do not wait, nor do those at pods
// without an owner.
func TestPaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacing(t)
		began := time.Now()
		for _, step := range []struct {
			name string
			pods int
			at   time.Duration
		}{
			{"many", 2000, 0}, {"few", 10, 0}, {"few", 10, 0}, {"", 2000, 0}, {"", 2000, 0}, {"others", 2000, 0},
			{"many", 2000, 50 * time.Millisecond}, {"few", 10, 50 * time.Millisecond},
			{"others", 2000, 50 * time.Millisecond}, {"many", 2000, 100 * time.Millisecond},
		} {
			pods, err := p.look(step.name)
			if at := time.Since(began); err != nil || pods != step.pods || at != step.at {
				t.Errorf("%q: %d pods after %s, %v; want %d after %s", step.name, pods, at, err, step.pods, step.at)
			}
		}
		time.Sleep(time.Second)
		began = time.Now()
		if _, err := p.look("many"); err != nil || time.Since(began) != 0 {
			t.Errorf("after a second: waited %s, %v", time.Since(began), err)
		}
	})
}

// A sync does not continue with an owner that has changed or was deleted while it waited. Changes
// of the status do not count.
func TestPausesNoticeChanges(t *testing.T) {
	deleting := replicaSet("many", 1)
	deleting.DeletionTimestamp = new(metav1.Now())
	reported := replicaSet("many", 1)
	reported.ResourceVersion, reported.Status.Replicas = "7", 3
	another := replicaSet("many", 1)
	another.UID = "u-2"
	for name, test := range map[string]struct {
		change func(sets cache.Indexer) error
		fails  bool
	}{
		"scaled":   {func(sets cache.Indexer) error { return sets.Update(replicaSet("many", 2)) }, true},
		"deleting": {func(sets cache.Indexer) error { return sets.Update(deleting) }, true},
		"replaced": {func(sets cache.Indexer) error { return sets.Update(another) }, true},
		"gone":     {func(sets cache.Indexer) error { return sets.Delete(replicaSet("many", 1)) }, true},
		"reported": {func(sets cache.Indexer) error { return sets.Update(reported) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPacing(t)
				if _, err := p.look("many"); err != nil {
					t.Fatal(err)
				}
				result := make(chan error, 1)
				go func() {
					_, err := p.look("many")
					result <- err
				}()
				synctest.Wait()
				if err := test.change(p.sets); err != nil {
					t.Fatal(err)
				}
				if err := <-result; (err != nil) != test.fails {
					t.Errorf("%v, want an error: %v", err, test.fails)
				}
			})
		})
	}
}

// Pauses end with the controllers.
func TestPausesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacing(t)
		began := time.Now()
		if _, err := p.look("many"); err != nil {
			t.Fatal(err)
		}
		p.end()
		if _, err := p.look("many"); err == nil || time.Since(began) != 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}
