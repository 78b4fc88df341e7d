package client_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/internal/apitest/apiserver"
)

// lists records the token and limit of each list request, and rejects some.
type lists struct {
	mu    sync.Mutex
	asked []string
	down  int // number of requests with a token to reject
}

func (l *lists) intercept(w http.ResponseWriter, r *http.Request) bool {
	q := r.URL.Query()
	if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/pods") {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	token := ""
	if q.Get("continue") != "" {
		_, token, _ = strings.Cut(q.Get("continue"), "/")
	}
	l.asked = append(l.asked, strings.TrimSpace(q.Get("limit")+" "+token))
	if token != "" && l.down > 0 {
		l.down--
		http.Error(w, "down", http.StatusInternalServerError)
		return true
	}
	return false
}

func (l *lists) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := strings.Join(l.asked, ", ")
	l.asked = nil
	return asked
}

// Reading ahead returns the same pages as reading in sequence.
func TestListAhead(t *testing.T) {
	server, c := newClient(t)
	ctx := t.Context()
	var want []string
	for n := range 25 {
		name := fmt.Sprintf("pod-%02d", n)
		p := pod(name, "n", fmt.Sprint(n%2))
		p.Annotations = map[string]string{"text": strings.Repeat(name, 200)}
		must(t, c.Create(ctx, p))
		want = append(want, name)
	}
	asked := &lists{}
	server.SetFaults(apitest.Faults{Intercept: asked.intercept})
	read := func(prototype client.Object) ([]client.Object, error) {
		var all []client.Object
		o := client.ListOptions{Namespace: "default", Limit: 10, Ahead: &client.Ahead{}, Shared: true}
		for {
			items := client.NewItems(prototype)
			if err := c.List(ctx, items, o); err != nil {
				return all, err
			}
			all = append(all, items.Items...)
			if o.Continue = items.Continue; o.Continue == "" {
				return all, nil
			}
		}
	}
	check := func(t *testing.T, all []client.Object) {
		t.Helper()
		var got []string
		for _, o := range all {
			got = append(got, o.GetName())
			switch o := o.(type) {
			case *corev1.Pod:
				if o.Annotations["text"] != strings.Repeat(o.Name, 200) {
					t.Errorf("%s has the annotations %v", o.Name, o.Annotations)
				}
			case *client.Encoded:
				if !bytes.Contains(o.Data, []byte(strings.Repeat(o.Name, 200))) {
					t.Errorf("%s is %s", o.Name, o.Data)
				}
			}
		}
		assert.Equalf(t, fmt.Sprint(got), fmt.Sprint(want), "read %v, want %v", got, want)
	}
	t.Run("larger pages", func(t *testing.T) {
		all, err := read(&corev1.Pod{})
		must(t, err)
		check(t, all)
		if got := asked.take(); !strings.HasPrefix(got, "10, ") || !strings.HasSuffix(got, " pod-09") ||
			strings.Count(got, ",") != 1 {
			t.Errorf("requested %s", got) // the second page has all remaining objects
		}
	})
	t.Run("encoded", func(t *testing.T) {
		like := &corev1.Pod{}
		like.SetGroupVersionKind(podKind)
		all, err := read(client.NewEncoded(like))
		must(t, err)
		check(t, all)
		asked.take()
	})
	t.Run("a failed page is requested again", func(t *testing.T) {
		asked.down = 1
		all, err := read(&corev1.Pod{})
		must(t, err)
		check(t, all)
		if got := asked.take(); !strings.HasSuffix(got, " pod-09, 10 pod-09, 10 pod-19") &&
			strings.Count(got, "pod-09") != 2 {
			t.Errorf("requested %s", got)
		}
	})
	t.Run("errors", func(t *testing.T) {
		asked.down = 2
		if _, err := read(&corev1.Pod{}); !apierrors.IsInternalError(err) {
			t.Errorf("error %v", err)
		}
		asked.take()
		server.SetFaults(apitest.Faults{Intercept: func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("continue") != "" {
				if err := c.Create(ctx, pod(fmt.Sprint("later-", r.URL.Query().Get("limit")))); err != nil &&
					!apierrors.IsAlreadyExists(err) {
					t.Error(err)
				}
				server.Compact()
			}
			return asked.intercept(w, r)
		}})
		if _, err := read(&corev1.Pod{}); !apierrors.IsResourceExpired(err) {
			t.Errorf("error %v", err)
		}
		server.SetFaults(apitest.Faults{Intercept: asked.intercept})
		asked.take()
	})
	t.Run("another list in between", func(t *testing.T) {
		o := client.ListOptions{Namespace: "default", Limit: 10, Ahead: &client.Ahead{}}
		items := client.NewItems(&corev1.Pod{})
		must(t, c.List(ctx, items, o))
		first := items.Items[0].GetName()
		must(t, c.List(ctx, items, o)) // starts over
		if len(items.Items) != 10 || items.Items[0].GetName() != first {
			t.Errorf("read %d, from %s", len(items.Items), items.Items[0].GetName())
		}
	})
}

// The page size adapts to the size of the objects.
func TestListAheadLimits(t *testing.T) {
	server, c := newClient(t)
	for n := range 70 {
		p := pod(fmt.Sprintf("pod-%02d", n))
		p.Annotations = map[string]string{"text": strings.Repeat("x", 300<<10)}
		must(t, c.Create(t.Context(), p))
	}
	asked := &lists{}
	server.SetFaults(apitest.Faults{Intercept: asked.intercept})
	o := client.ListOptions{Namespace: "default", Limit: 10, Ahead: &client.Ahead{}}
	for {
		items := client.NewItems(&corev1.Pod{})
		must(t, c.List(t.Context(), items, o))
		if o.Continue = items.Continue; o.Continue == "" {
			break
		}
	}
	assert.Equalf(t, asked.take(), "10, 20 pod-09, 27 pod-29, 27 pod-56", "requested")
}

// The same with a real server, in both encodings.
func TestListAheadStory(t *testing.T) {
	cfg := rest.CopyConfig(apiserver.For(t))
	c, err := client.New(client.Config{REST: cfg, FieldOwner: "tests"})
	must(t, err)
	ctx := t.Context()
	for n := range 37 {
		cm := &corev1.ConfigMap{}
		cm.Namespace, cm.Name, cm.Labels = "default", fmt.Sprintf("ahead-%02d", n), map[string]string{"list": "ahead"}
		cm.Data = map[string]string{"name": cm.Name, "same": "for all"}
		must(t, c.Create(ctx, cm))
		defer func() { must(t, c.Delete(context.WithoutCancel(ctx), cm)) }()
	}
	for name, prototype := range map[string]client.Object{"protobuf": &corev1.ConfigMap{},
		"json": dynamic(corev1.SchemeGroupVersion.WithKind("ConfigMap"), "")} {
		t.Run(name, func(t *testing.T) {
			o := client.ListOptions{Namespace: "default", Limit: 10, Ahead: &client.Ahead{}, Shared: true}
			o.Labels = labels.SelectorFromSet(labels.Set{"list": "ahead"})
			var got []string
			for {
				items := client.NewItems(prototype)
				must(t, c.List(ctx, items, o))
				for _, item := range items.Items {
					got = append(got, item.GetName())
					if cm, ok := item.(*corev1.ConfigMap); ok &&
						(cm.Data["name"] != cm.Name || cm.Data["same"] != "for all") {
						t.Errorf("%s has %v", cm.Name, cm.Data)
					}
				}
				if o.Continue = items.Continue; o.Continue == "" {
					break
				}
			}
			if len(got) != 37 || got[0] != "ahead-00" || got[36] != "ahead-36" {
				t.Errorf("read %q", got)
			}
		})
	}
}
