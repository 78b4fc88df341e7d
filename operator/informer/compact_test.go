package informer_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest"
)

// An object that is kept encoded is the same as on the server, for reads, handlers, indexes and
// selectors; each reader gets its own copy.
func TestCompact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, func(c *informer.Config) { c.Form = informer.Compact })
		var want []*corev1.Pod
		for n := range 20 {
			p := labelled(pod(fmt.Sprintf("p%02d", n)), fmt.Sprint(n%3))
			p.Spec.NodeName = fmt.Sprint("node", n%4)
			p.Spec.Containers = []corev1.Container{{Name: "main", Image: "registry.example.com/image:v1",
				Args: []string{strings.Repeat("x", n)}}}
			w.create(p)
			want = append(want, p)
		}
		inf := w.pods()
		w.must(inf.AddIndex("node", func(obj client.Object) []string {
			return []string{obj.(*corev1.Pod).Spec.NodeName}
		}))
		h := &recorder{}
		w.handle(inf, h)
		w.run()
		w.must(w.set.WaitForSync(t.Context()))
		synctest.Wait()
		got := h.take()
		assert.Equalf(t, strings.Count(got, "initial"), 20, "calls %s", got)
		for _, p := range want {
			got, err := client.Get[corev1.Pod](t.Context(), w.client, client.KeyOf(p))
			if err != nil || got.Spec.Containers[0].Args[0] != p.Spec.Containers[0].Args[0] || got.UID != p.UID ||
				got.Labels["v"] != p.Labels["v"] || got.Kind != "Pod" {
				t.Fatalf("%v: %+v", err, got)
			}
			got.Labels["v"] = "changed" // the reader's own copy
		}
		for _, tt := range []struct {
			opt  client.ListOption
			want int
		}{{client.MatchingLabels{"v": "1"}, 7}, {client.MatchingFields{"node": "node2"}, 5},
			{client.MatchingFields{"spec.nodeName": "node2"}, 5}, {client.InNamespace("default"), 20}} {
			pods, err := client.List[corev1.Pod](t.Context(), w.client, tt.opt)
			if err != nil || len(pods) != tt.want {
				t.Errorf("%v: %d pods, %v", tt.opt, len(pods), err)
			}
		}
		if on, err := inf.ByIndex("node", "node3"); len(on) != 5 || err != nil ||
			on[0].(*corev1.Pod).Spec.NodeName != "node3" {
			t.Errorf("by index: %v %v", on, err)
		}
		changed := want[3].DeepCopy()
		changed.Spec.NodeName, changed.Labels["v"] = "node9", "9"
		w.must(w.direct.Update(t.Context(), changed))
		w.must(w.direct.Delete(t.Context(), want[4]))
		w.expectCalls(h, "~p03 9, -p04")
		on, _ := inf.ByIndex("node", "node9")
		assert.Lenf(t, on, 1, "after the change")
	})
}

// A transform gets complete objects in every form.
func TestCompactTransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, func(c *informer.Config) {
			c.Form = informer.Compact
			c.Transform = func(obj client.Object) client.Object {
				obj.SetAnnotations(map[string]string{"kept": fmt.Sprint(len(obj.GetLabels()))})
				return obj
			}
		})
		w.create(labelled(pod("a"), "1"))
		w.pods()
		w.run()
		w.must(w.set.WaitForSync(t.Context()))
		if got, err := client.Get[corev1.Pod](t.Context(), w.client,
			client.Key{Namespace: "default", Name: "a"}); err != nil || got.Annotations["kept"] != "1" {
			t.Errorf("%v %+v", err, got)
		}
	})
}

// odd is a Go type that does not fit the server's objects.
type odd struct {
	corev1.Pod
	Spec int `json:"spec"`
}

func (o *odd) DeepCopyObject() runtime.Object { c := *o; return &c }

// An object that does not fit its Go type is reported, and does not affect other objects.
func TestCompactGarbled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Odd"}
		scheme := runtime.NewScheme()
		scheme.AddKnownTypeWithName(kind, &odd{})
		w := newFixture(t, func(c *informer.Config) { c.Form = informer.Compact })
		w.server.AddKind(apitest.Kind{GroupVersionKind: kind, Plural: "odds"})
		direct, err := client.New(client.Config{REST: w.server.REST(), Scheme: scheme})
		w.must(err)
		for name, spec := range map[string]any{"good": int64(1), "bad": "text"} {
			u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
			u.SetGroupVersionKind(kind)
			u.SetNamespace("default")
			u.SetName(name)
			w.create(u)
		}
		w.set, err = informer.New(informer.Config{Client: direct, Form: informer.Compact, Log: w.logger()})
		w.must(err)
		inf, err := w.set.For(&odd{})
		w.must(err)
		h := &recorder{}
		w.handle(inf, h)
		w.run()
		w.must(w.set.WaitForSync(t.Context()))
		w.expectCalls(h, "+good initial")
		assert.Lenf(t, inf.List(""), 1, "list")
		err = w.set.Client().Get(t.Context(), client.Key{Namespace: "default", Name: "bad"}, &odd{})
		assert.ErrorContainsf(t, err, "decode Odd", "get")
		assert.Containsf(t, w.log.String(), "default/bad", "log")
	})
}
