package reconcile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/internal/apitest/apiserver"
	"kelson.dev/operator/reconcile"
)

// The newer version of the operator added lamps[].watts, keeper and rooms[].
const towerCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"towers.GROUP"},
"spec":{"group":"GROUP","scope":"Namespaced","names":{"plural":"towers","singular":"tower","kind":"Tower","listKind":"TowerList"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"height":{"type":"integer"}}},
"status":{"type":"object","properties":{"turns":{"type":"integer"},"keeper":{"type":"string"},
"lamps":{"type":"array","x-kubernetes-list-type":"atomic","items":{"type":"object","properties":{"name":{"type":"string"},"lit":{"type":"boolean"},
"watts":{"type":"integer","nullable":true}}}},
"rooms":{"type":"object","x-kubernetes-map-type":"atomic","additionalProperties":{"type":"object","properties":{"door":{"type":"string"},"size":{"type":"integer"}}}}}}}}}}]}}`

type towerLamp struct {
	Name string `json:"name"`
	Lit  bool   `json:"lit,omitempty"`
}

type towerRoom struct {
	Door string `json:"door,omitempty"`
}

// tower is the Go type of the older version, which runs after the rollback.
type tower struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Status            struct {
		Turns int                  `json:"turns,omitempty"`
		Lamps []towerLamp          `json:"lamps,omitempty"`
		Rooms map[string]towerRoom `json:"rooms,omitempty"`
	} `json:"status,omitempty"`
}

func (t *tower) DeepCopyObject() runtime.Object {
	c := *t
	c.ObjectMeta = *t.ObjectMeta.DeepCopy()
	c.Status.Lamps, c.Status.Rooms = slices.Clone(t.Status.Lamps), maps.Clone(t.Status.Rooms)
	return &c
}

type towerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []tower `json:"items"`
}

func (l *towerList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*tower))
	}
	return &c
}

type towerStep func(context.Context, *tower) (reconcile.Result, error)

func (s towerStep) Reconcile(ctx context.Context, t *tower) (reconcile.Result, error) {
	return s(ctx, t)
}

// sent records the writes of a client.
type sent struct {
	mu     sync.Mutex
	writes []string
}

func (s *sent) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/status") && r.URL.Query().Get("dryRun") == "" {
			s.mu.Lock()
			s.writes = append(s.writes, r.Method+" "+
				strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Content-Type"), "application/"), "+json"))
			s.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

// An operator that was rolled back writes a status without losing fields that the newer version
// wrote.
func TestRolledBackOperator(t *testing.T) {
	cfg := apiserver.For(t)
	ctx := t.Context()
	group := "rollback" + time.Now().Format("150405") + ".kelson.dev"
	gv := schema.GroupVersion{Group: group, Version: "v1"}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(gv.WithKind("Tower"), &tower{})
	scheme.AddKnownTypeWithName(gv.WithKind("TowerList"), &towerList{})
	metav1.AddToGroupVersion(scheme, gv)
	newer, err := client.New(client.Config{REST: cfg, FieldOwner: "operator"}) // the same manager
	must(t, err)
	crd := &unstructured.Unstructured{}
	must(t, json.Unmarshal([]byte(strings.ReplaceAll(towerCRD, "GROUP", group)), &crd.Object))
	must(t, newer.Create(ctx, crd))
	t.Cleanup(func() { _ = newer.Delete(context.Background(), crd) })

	noted := &sent{}
	older := func(t *testing.T) client.Client {
		t.Helper()
		cfg := rest.CopyConfig(cfg)
		cfg.Wrap(noted.wrap)
		c, err := client.New(client.Config{REST: cfg, Scheme: scheme, FieldOwner: "operator"})
		must(t, err)
		return c
	}
	create := func(t *testing.T, name, status string) *unstructured.Unstructured {
		t.Helper()
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": gv.String(), "kind": "Tower",
			"spec": map[string]any{"height": int64(3)}}}
		u.SetNamespace("default")
		u.SetName(name)
		for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) { // until the kind is served
			err := newer.Create(ctx, u)
			if err == nil {
				break
			}
			if time.Since(begin) > time.Minute {
				t.Fatal(err)
			}
		}
		must(t, newer.Subresource("status").Patch(ctx, u,
			client.RawPatch(types.JSONPatchType, []byte(`[{"op":"add","path":"/status","value":`+status+`}]`))))
		return u
	}
	const stored = `{"turns":1,"keeper":"Ida","lamps":[{"name":"a","watts":60},{"name":"b","watts":null},{"name":"c","watts":40}],"rooms":{"top":{"door":"red","size":3}}}`
	forget := func(obj client.Object) client.Object { // removes an entry that is not needed
		t := obj.(*tower)
		for n := range t.Status.Lamps {
			t.Status.Lamps[n].Lit = false
		}
		t.Status.Rooms = nil
		return t
	}
	turn := func(s *tower) { s.Status.Turns = 2 }
	light := func(s *tower) { s.Status.Lamps[2].Lit = true }
	for name, tt := range map[string]struct {
		status string
		do     func(*tower)
		strip  bool // edits the entries of the status out of managedFields
		want   string
		sent   string
	}{
		"all of it is known": {`{"turns":1,"lamps":[{"name":"a","lit":true}]}`, turn, false,
			`{"turns":2,"lamps":[{"name":"a","lit":true}]}`, "PUT json"},
		"a number": {stored, turn, false, strings.Replace(stored, `"turns":1`, `"turns":2`, 1),
			"PATCH json-patch"},
		"an element": {stored, light, false, strings.Replace(stored, `"name":"c"`, `"name":"c","lit":true`, 1),
			"PATCH json-patch"},
		"elements that move": {stored, func(s *tower) {
			s.Status.Lamps = []towerLamp{{Name: "c", Lit: true}, {Name: "new"}, s.Status.Lamps[0]}
		}, false, strings.Replace(stored, `[{"name":"a","watts":60},{"name":"b","watts":null},{"name":"c","watts":40}]`,
			`[{"name":"c","lit":true,"watts":40},{"name":"new"},{"name":"a","watts":60}]`, 1), "PATCH json-patch"},
		"a member": {`{"turns":1,"keeper":"Ida"}`, turn, false, `{"turns":2,"keeper":"Ida"}`,
			"PATCH merge-patch"},
		"a member of a map": {`{"turns":1,"rooms":{"top":{"size":3}}}`, func(s *tower) {
			s.Status.Rooms["top"] = towerRoom{Door: "red"}
		}, false, `{"turns":1,"rooms":{"top":{"size":3,"door":"red"}}}`, "PATCH merge-patch"},
		"unowned member": {`{"turns":1,"keeper":"Ida"}`, turn, true, `{"turns":2,"keeper":"Ida"}`,
			"PATCH merge-patch"},
		"unowned element": {stored, light, true,
			strings.Replace(stored, `"name":"c"`, `"name":"c","lit":true`, 1), "PATCH json-patch"},
		"a zero within elements": {`{"turns":1,"lamps":[{"name":"a","lit":false}]}`, turn, false,
			`{"turns":2,"lamps":[{"name":"a","lit":false}]}`, "PATCH json-patch"},
		"everything is dropped": {stored, func(s *tower) {
			*s = tower{TypeMeta: s.TypeMeta, ObjectMeta: s.ObjectMeta}
		}, false, `{"keeper":"Ida"}`, "PATCH json-patch"},
	} {
		for form, start := range map[string]func(*testing.T, client.Client) client.Client{
			"live": func(t *testing.T, c client.Client) client.Client { return c },
			"full, transformed": func(t *testing.T, c client.Client) client.Client {
				return inform(t, informer.Config{Client: c, Transform: forget})
			},
			"compact, transformed": func(t *testing.T, c client.Client) client.Client {
				return inform(t, informer.Config{Client: c, Form: informer.Compact, Transform: forget})
			},
			"full": func(t *testing.T, c client.Client) client.Client { return inform(t, informer.Config{Client: c}) },
			"compact": func(t *testing.T, c client.Client) client.Client {
				return inform(t, informer.Config{Client: c, Form: informer.Compact})
			},
		} {
			transformed := strings.Contains(form, "transformed")
			if transformed && tt.strip || transformed && name != "all of it is known" && name != "a number" {
				continue // keep the fields that the reconciler changes
			}
			t.Run(name+"/"+form, func(t *testing.T) {
				u := create(t, strings.NewReplacer(" ", "-", ",", "").Replace(name+"-"+form), tt.status)
				if tt.strip {
					strip(t, newer, u)
				}
				r, err := reconcile.For[tower](towerStep(func(_ context.Context, s *tower) (reconcile.Result, error) {
					tt.do(s)
					return reconcile.Result{}, nil
				}), reconcile.TypedConfig{Client: start(t, older(t))})
				must(t, err)
				noted.writes = nil
				_, err = r.Reconcile(ctx, reconcile.Request{NamespacedName: client.KeyOf(u)})
				must(t, err)
				must(t, newer.Get(ctx, client.KeyOf(u), u))
				var want any
				must(t, json.Unmarshal([]byte(tt.want), &want))
				data, err := json.Marshal(u.Object["status"])
				must(t, err)
				var got any
				must(t, json.Unmarshal(data, &got))
				assert.Deepf(t, got, want, "the status is\n%s, want\n%s", data, tt.want)
				how := tt.sent
				if transformed {
					how = "PATCH json-patch"
				}
				if !slices.Equal(noted.writes, []string{how}) {
					t.Errorf("sent %q, want %q", noted.writes, how)
				}
			})
		}
	}
}

// A status that is read again before it is written conflicts like any other, and needs only the
// permission to patch it.
func TestRebasedStatusPatch(t *testing.T) {
	kind := apitest.NewKind("sea.kelson.dev", "v1", "Tower", "towers")
	gv := schema.GroupVersion{Group: kind.Group, Version: kind.Version}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(gv.WithKind("Tower"), &tower{})
	metav1.AddToGroupVersion(scheme, gv)
	server := apitest.New(kind)
	forbidden, reads := false, 0
	var documents []string
	cfg := server.REST()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/towers/a"):
				if reads++; reads > 1 && forbidden {
					return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{},
						Body: io.NopCloser(strings.NewReader("no")), Request: r}, nil
				}
			case r.Method == http.MethodPatch:
				body, _ := io.ReadAll(r.Body)
				documents = append(documents, string(body))
				// which this server does not support
				if r.Header.Get("Content-Type") == string(types.JSONPatchType) {
					body = []byte("{}")
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
			}
			return next.RoundTrip(r)
		})
	})
	c, err := client.New(client.Config{REST: cfg, Scheme: scheme})
	must(t, err)
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": gv.String(), "kind": "Tower"}}
	u.SetNamespace("default")
	u.SetName("a")
	must(t, c.Create(t.Context(), u))
	must(t, c.Subresource("status").Patch(t.Context(), u,
		client.RawPatch(types.MergePatchType, []byte(`{"status":{"lamps":[{"name":"a","watts":60}]}}`))))
	meanwhile := func() {}
	r, err := reconcile.For[tower](towerStep(func(_ context.Context, s *tower) (reconcile.Result, error) {
		s.Status.Lamps[0].Lit = true
		meanwhile()
		return reconcile.Result{}, nil
	}), reconcile.TypedConfig{Client: c})
	must(t, err)
	run := func() error {
		documents, reads = nil, 0
		_, err := r.Reconcile(t.Context(), request)
		return err
	}
	want := fmt.Sprintf(`[{"op":"add","path":"/metadata/resourceVersion","value":%q},{"op":"add","path":"/status","value":{"lamps":[{"lit":true,"name":"a","watts":60}]}}]`, u.GetResourceVersion())
	must(t, run())
	assert.Slicef(t, documents, []string{want}, "sent")
	forbidden = true
	must(t, run())
	if !slices.Equal(documents, []string{fmt.Sprintf(`{"metadata":{"resourceVersion":%q}}`, u.GetResourceVersion()),
		want}) {
		t.Errorf("sent %q", documents)
	}
	for _, forbidden = range []bool{false, true} {
		meanwhile = func() {
			other := u.DeepCopy()
			other.SetResourceVersion("")
			other.SetLabels(map[string]string{"seen": fmt.Sprint(forbidden)})
			must(t, c.Update(t.Context(), other))
		}
		if err := run(); !reconcile.IsConflict(err) {
			t.Errorf("got %v, want a conflict", err)
		}
	}
}

// inform returns a client that reads from informers.
func inform(t *testing.T, cfg informer.Config) client.Client {
	t.Helper()
	informers, err := informer.New(cfg)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- informers.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
	return informers.Client()
}

// strip removes the entries of the status from managedFields.
func strip(t *testing.T, c client.Client, u *unstructured.Unstructured) {
	t.Helper()
	kept := slices.DeleteFunc(u.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource == "status"
	})
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"managedFields": kept}})
	must(t, err)
	must(t, c.Patch(t.Context(), u, client.RawPatch(types.MergePatchType, data)))
	if strings.Contains(fmt.Sprint(u.Object["metadata"]), "f:status") {
		t.Fatal("the status still has owners")
	}
}
