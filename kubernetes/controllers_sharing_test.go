package kubernetes_test

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/sharing"
	"kelson.dev/kubernetes/controllers/simulatednodes"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/testenv"
)

// The scheduler, the controllers and the nodes share decoded objects. Each is equal to the stored
// one, and does not change while a Deployment is created, changed, scaled and deleted.
func TestSharedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Workloads(), testenv.Nodes(controlplane.Simulated{
			Groups: []simulatednodes.Group{{Count: 3}}}))
		var seen []seenObject
		record := func(resource string, of func(obj, before *store.Object) seenObject) {
			go func() {
				_ = env.Plane().Store().Follow(t.Context(), resource, func(sn *store.Snapshot) {
					for obj := range sn.Scan(resource, "", store.Key{}) {
						seen = append(seen, of(obj, nil))
					}
				}, func(events []*store.Event) {
					for _, e := range events {
						seen = append(seen, of(e.Object, e.Prev))
					}
				})
			}()
			synctest.Wait()
		}
		shared := sharing.New(env.Plane().Store())
		record("pods", func(obj, before *store.Object) seenObject { return see(t, shared.Pods, obj, before) })
		record("nodes", func(obj, before *store.Object) seenObject { return see(t, shared.Nodes, obj, before) })

		selector := map[string]string{"app": "web"}
		web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: appsv1.DeploymentSpec{Replicas: new(int32(20)), Selector: &metav1.LabelSelector{MatchLabels: selector},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx:1"}}}}}}
		env.Create(t, web)
		synctest.Wait()
		env.Get(t, web)
		for _, change := range []func(){
			func() {},
			func() { web.Spec.Template.Spec.Containers[0].Image = "nginx:2" },
			func() { web.Spec.Replicas = new(int32(5)) },
		} {
			change()
			require.NoError(t, env.Client().Update(t.Context(), web))
			time.Sleep(2 * time.Minute)
			env.Get(t, web)
			if web.Status.ReadyReplicas != *web.Spec.Replicas || web.Status.Replicas != *web.Spec.Replicas {
				t.Fatalf("%d of %d replicas are ready, want %d", web.Status.ReadyReplicas, web.Status.Replicas,
					*web.Spec.Replicas)
			}
		}
		require.NoError(t, env.Client().Delete(t.Context(), web))
		time.Sleep(2 * time.Minute)
		if len(seen) < 40*4 {
			t.Errorf("%d states of pods and nodes, want at least four of each of 40 pods", len(seen))
		}
		for _, s := range seen {
			if !reflect.DeepEqual(s.shared, s.copied) {
				t.Fatalf("%s has changed:\n%+v\nwas\n%+v", s.key, s.shared, s.copied)
			}
		}
	})
}

type seenObject struct {
	key            store.Key
	shared, copied any
}

// see returns a shared object with a copy, and checks that it equals the stored object.
func see[T any, P sharing.Object[T]](t *testing.T, objects *sharing.Objects[T, P], obj, before *store.Object) seenObject {
	t.Helper()
	v, err := objects.Of(obj, before)
	require.NoError(t, err)
	stored, err := derived.Decode[T](obj)
	require.NoError(t, err)
	P(stored).GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	P(stored).SetManagedFields(nil)
	if !equality.Semantic.DeepEqual(v, P(stored)) {
		t.Errorf("%s: %+v, want as stored, %+v", obj.Key, v, stored)
	}
	if again, err := objects.Of(obj, nil); again != v {
		t.Errorf("%s: decoded twice while it is in use: %v", obj.Key, err)
	}
	return seenObject{obj.Key, v, P(v).DeepCopyObject()}
}

// Caches share an object that the store has moved meanwhile, and however many others they have had.
func TestSharedAfterPack(t *testing.T) {
	st := storetest.New(t, store.Config{})
	key := func(i int) store.Key {
		return store.Key{Resource: "pods", Namespace: "a", Name: fmt.Sprint("pod-", i)}
	}
	write := func(i int) {
		t.Helper()
		_, err := st.Commit(t.Context(), store.Op{Key: key(i), Expect: store.AnyRevision,
			Data: fmt.Appendf(nil, `{"metadata":{"namespace":"a","name":"pod-%d","uid":"u-%[1]d","generation":1,
				"managedFields":[{"manager":"m"}]},"spec":{"nodeName":"n","containers":[{"name":"c"}]}}`, i)})
		require.NoError(t, err)
	}
	shared := sharing.New(st)
	of := func(i int) (*store.Object, *corev1.Pod) {
		t.Helper()
		obj := st.Snapshot().Get(key(i))
		pod, err := shared.Pods.Of(obj, nil)
		require.NoError(t, err)
		return obj, pod
	}
	write(0)
	before, pod := of(0)
	require.Equal(t, len(pod.ManagedFields), 0)
	if packed, _ := st.Pack(); !packed {
		t.Fatal("not packed")
	}
	moved, same := of(0)
	if moved == before || same != pod {
		t.Errorf("moved by Pack: %t, decoded again: %t", moved != before, same != pod)
	}
	write(0)
	next, err := shared.Pods.Of(st.Snapshot().Get(key(0)), moved)
	require.NoError(t, err)
	if next == pod || &next.Spec.Containers[0] != &pod.Spec.Containers[0] {
		t.Error("the next state does not share the spec of the former one")
	}
	for i := range 5000 { // other objects, which no cache holds
		write(1 + i)
		of(1 + i)
		if i%1000 == 0 {
			runtime.GC()
		}
	}
	if _, again := of(0); again != next {
		t.Error("decoded again while it is in use")
	}
	runtime.KeepAlive(pod)
}

// An informer has the selected objects. If it falls so far behind that the store has discarded its
// next events, it reads all objects again.
func TestSharedInformer(t *testing.T) {
	st := storetest.New(t, store.Config{Retain: 20})
	write := func(namespace, name, phase string) {
		t.Helper()
		_, err := st.Commit(t.Context(), store.Op{Key: store.Key{Resource: "pods", Namespace: namespace, Name: name},
			Data: fmt.Appendf(nil, `{"metadata":{"namespace":%q,"name":%q},"status":{"phase":%q}}`, namespace, name,
				phase), Expect: store.AnyRevision})
		require.NoError(t, err)
	}
	var gate sync.RWMutex
	informer := sharing.New(st).Pods.Informer("a", func(pod *corev1.Pod) bool {
		gate.RLock()
		defer gate.RUnlock()
		return pod.Status.Phase == corev1.PodRunning
	}, cache.Indexers{})
	write("a", "before", "Running")
	go informer.RunWithContext(t.Context())
	want := func(names ...string) {
		t.Helper()
		require.Success(t, func() error {
			if got := slices.Sorted(slices.Values(informer.GetStore().ListKeys())); !slices.Equal(got, names) {
				return fmt.Errorf("%v, want %v", got, names)
			}
			return nil
		})
	}
	want("a/before")
	write("b", "elsewhere", "Running")
	write("a", "later", "Pending")
	write("a", "after", "Running")
	want("a/after", "a/before")
	write("a", "later", "Running")
	write("a", "after", "Failed")
	want("a/before", "a/later")

	gate.Lock() // the informer stops
	for i := range 100 {
		write("a", fmt.Sprint("many-", i%10), "Running")
		write("a", "before", "Failed")
	}
	gate.Unlock()
	all := []string{"a/later"}
	for i := range 10 {
		all = append(all, fmt.Sprint("a/many-", i))
	}
	want(all...)
	write("a", "later", "Failed")
	want(all[1:]...)
}
