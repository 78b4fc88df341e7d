package operator_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/reconcile"
)

// cluster is an API server with informers that run until the test ends.
type cluster struct {
	client.Client
	informers informer.Informers
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	s := apitest.New()
	c, err := client.New(client.Config{REST: s.REST()})
	must(t, err)
	informers, err := informer.New(informer.Config{Client: c})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { _ = informers.Run(ctx) })
	t.Cleanup(func() { cancel(); ended.Wait() })
	return &cluster{c, informers}
}

var must = require.NoError

var nothing = reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
	return reconcile.Result{}, nil
})

// The source of a kind enqueues existing objects, their changes and resyncs with their causes, if
// the predicates accept them.
func TestKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		must(t, c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
			Name: "early"}}))
		r := startRuns(t, controller.Config{Reconciler: nothing, Sources: []controller.Source{
			&controller.Kind{Informers: c.informers, Object: &corev1.ConfigMap{}, Resync: time.Hour,
				Predicates: []controller.Predicate{
					controller.Not(controller.InNamespace("elsewhere")), controller.ResourceVersionChanged,
				}},
		}})
		time.Sleep(time.Second)
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "late"}}
		must(t, c.Create(t.Context(), cm))
		must(t, c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere",
			Name: "other"}}))
		time.Sleep(time.Second)
		cm.Data = map[string]string{"a": "b"}
		must(t, c.Update(t.Context(), cm))
		time.Sleep(time.Second)
		must(t, c.Delete(t.Context(), cm))
		time.Sleep(90 * time.Minute)
		r.stop(t)
		var got []string
		for _, rec := range r.records {
			cause := rec.Causes.All()[0]
			got = append(got, cause.Event+" "+cause.Kind+" "+rec.Request.String()+" "+cause.ResourceVersion)
		}
		want := []string{
			"sync ConfigMap default/early 101", "add ConfigMap default/late 102", "update ConfigMap default/late 104",
			"delete ConfigMap default/late 105", "resync ConfigMap default/early 101",
		}
		assert.Slice(t, got, want)
	})
}

// An event enqueues the owner of the group and kind that is the object's controller, and the
// previous owner too.
func TestOwner(t *testing.T) {
	yes := true
	ref := func(apiVersion, kind, name string, controls *bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, Controller: controls}
	}
	owned := func(refs ...metav1.OwnerReference) client.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", OwnerReferences: refs}}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	set := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}
	node := schema.GroupVersionKind{Version: "v1", Kind: "Node"}
	unknown := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Unknown"}
	mapper.Add(set, meta.RESTScopeNamespace)
	mapper.Add(node, meta.RESTScopeRoot)

	tests := []struct {
		name  string
		owner schema.GroupVersionKind
		event controller.Event
		want  []string
	}{
		{"owned", set, controller.Event{Object: owned(ref("apps/v1", "ReplicaSet", "a", &yes))}, []string{"default/a"}},
		{"other version", set, controller.Event{Object: owned(ref("apps/v1beta1", "ReplicaSet", "a", &yes))},
			[]string{"default/a"}},
		{"not the controller", set, controller.Event{Object: owned(ref("apps/v1", "ReplicaSet", "a", nil))}, nil},
		{"other kind", set, controller.Event{Object: owned(ref("apps/v1", "StatefulSet", "a", &yes))}, nil},
		{"other group", set, controller.Event{Object: owned(ref("example.com/v1", "ReplicaSet", "a", &yes))}, nil},
		{"unowned", set, controller.Event{Object: owned()}, nil},
		{"without namespace", node, controller.Event{Object: owned(ref("v1", "Node", "n", &yes))}, []string{"/n"}},
		{"scope unknown", unknown, controller.Event{Object: owned(ref("example.com/v1", "Unknown", "u", &yes))},
			[]string{"default/u"}},
		{"new owner", set, controller.Event{Old: owned(ref("apps/v1", "ReplicaSet", "a", &yes)),
			Object: owned(ref("apps/v1", "ReplicaSet", "b", &yes))},
			[]string{"default/a", "default/b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			controller.EnqueueOwner(tt.owner, mapper)(tt.event, func(r reconcile.Request) {
				got = append(got, r.String())
			})
			assert.Slice(t, got, tt.want)
		})
	}
}

// Each predicate decides by generation, resource version or namespace, and they can be combined.
func TestPredicates(t *testing.T) {
	now := metav1.Now()
	object := func(generation int64, version string, deleted *metav1.Time) client.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Generation: generation,
			ResourceVersion: version, DeletionTimestamp: deleted}}
	}
	update := func(old, obj client.Object) controller.Event { return controller.Event{Old: old, Object: obj} }
	yes := func(controller.Event) bool { return true }
	no := controller.Not(yes)
	tests := []struct {
		name  string
		p     controller.Predicate
		event controller.Event
		want  bool
	}{
		{"generation, add", controller.GenerationChanged, update(nil, object(1, "1", nil)), true},
		{"generation, same", controller.GenerationChanged, update(object(1, "1", nil), object(1, "2", nil)), false},
		{"generation, changed", controller.GenerationChanged, update(object(1, "1", nil), object(2, "2", nil)), true},
		{"generation, deleted", controller.GenerationChanged, update(object(1, "1", nil), object(1, "2", &now)), true},
		{"generation, not counted", controller.GenerationChanged, update(object(0, "1", nil), object(0, "2", nil)),
			true},
		{"version, same", controller.ResourceVersionChanged, update(object(1, "1", nil), object(1, "1", nil)), false},
		{"version, changed", controller.ResourceVersionChanged, update(object(1, "1", nil), object(1, "2", nil)), true},
		{"namespace", controller.InNamespace("default"), update(nil, object(1, "1", nil)), true},
		{"and", controller.And(yes, no), controller.Event{}, false},
		{"and, no predicates", controller.And(), controller.Event{}, true},
		{"or", controller.Or(no, yes), controller.Event{}, true},
		{"or, no predicates", controller.Or(), controller.Event{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.p(tt.event), tt.want)
		})
	}
}
