package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/dynamic"

	"kelson.dev/apiserver"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/etcd"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// part is an object that another part may need.
type part struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Needs             string `json:"needs,omitempty"`
}

func (p *part) DeepCopyObject() runtime.Object {
	out := *p
	p.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// needExists rejects a part that needs a missing one.
func needExists(_ context.Context, tx *apiserver.Tx, w *apiserver.Write[*part]) error {
	if w.Object.Needs == "" {
		return nil
	}
	_, err := apiserver.Get[*part](tx, "", w.Object.Needs)
	return err
}

// notNeeded keeps a part that another one needs.
func notNeeded(_ context.Context, tx *apiserver.Tx, w *apiserver.Write[*part]) error {
	all, err := apiserver.List[*part](tx, "", nil)
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.Needs == w.Name {
			return fmt.Errorf("%s needs it", p.Name)
		}
	}
	return nil
}

// whole returns an error for each part that needs a missing one.
func whole(tx *apiserver.Tx) error {
	all, err := apiserver.List[*part](tx, "", nil)
	for _, p := range all {
		if p.Needs != "" {
			if _, missing := apiserver.Get[*part](tx, "", p.Needs); missing != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", p.Name, missing))
			}
		}
	}
	return err
}

// Rules over several objects hold for two servers that share an etcd.
func TestRulesOfTwoServers(t *testing.T) {
	c := startCluster(t, 1, "http")
	c.healthy(t)
	var servers []*apiserver.Server
	for range 2 {
		s, err := apiserver.New(t.Context(),
			apiserver.Group("parts.example.com",
				apiserver.Kind(&part{TypeMeta: metav1.TypeMeta{APIVersion: "parts.example.com/v1", Kind: "Part"}},
					apiserver.ClusterScoped())),
			apiserver.Admission(needExists), apiserver.Admission(notNeeded, admission.Delete),
			apiserver.Storage(apiserver.Etcd(etcd.Config{Endpoints: c.endpoints(), Prefix: "/rules"})))
		require.NoError(t, err)
		t.Cleanup(s.Stop)
		servers = append(servers, s)
	}
	var outcomes sync.Map
	var all sync.WaitGroup
	for worker := range 4 {
		s := servers[worker%2]
		client, err := dynamic.NewForConfig(s.RESTConfig())
		require.NoError(t, err)
		in := client.Resource(schema.GroupVersionResource{Group: "parts.example.com", Version: "v1", Resource: "parts"})
		random := rand.New(rand.NewPCG(1, uint64(worker)))
		all.Go(func() {
			for range 100 {
				base, top := fmt.Sprint("base", random.IntN(2)), fmt.Sprint("top", random.IntN(2))
				part := map[string]any{"apiVersion": "parts.example.com/v1", "kind": "Part",
					"metadata": map[string]any{"name": base}}
				var err error
				var what string
				switch random.IntN(4) {
				case 0:
					what = "base"
					_, err = in.Create(t.Context(), &unstructured.Unstructured{Object: part}, metav1.CreateOptions{})
				case 1:
					what = "no base"
					err = in.Delete(t.Context(), base, metav1.DeleteOptions{})
				case 2:
					what = "top"
					part["metadata"], part["needs"] = map[string]any{"name": top}, base
					_, err = in.Create(t.Context(), &unstructured.Unstructured{Object: part}, metav1.CreateOptions{})
				case 3:
					what = "no top"
					err = in.Delete(t.Context(), top, metav1.DeleteOptions{})
				}
				outcomes.Store(fmt.Sprint(what, " ", apierrors.ReasonForError(err)), true)
				if err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
					t.Error(err)
				}
				assert.NoError(t, s.Transact(t.Context(), whole))
			}
		})
	}
	all.Wait()
	for _, want := range []string{"base ", "no base ", "no base Forbidden", "top ", "top NotFound", "no top "} {
		if _, seen := outcomes.Load(want); !seen {
			t.Errorf("no outcome %q: the test did not exercise it", want)
		}
	}
}

// piece is version v2 of the kind of which part is version v1.
type piece struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Wants             string `json:"wants,omitempty"`
}

func (p *piece) DeepCopyObject() runtime.Object {
	out := *p
	p.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (p *part) ConvertTo(hub *piece) error {
	hub.ObjectMeta, hub.Wants = p.ObjectMeta, p.Needs
	return nil
}

func (p *part) ConvertFrom(hub *piece) error {
	p.ObjectMeta, p.Needs = hub.ObjectMeta, hub.Wants
	return nil
}

// Two releases of a server share an etcd and store objects in different versions. Each reads what
// the other stores, and MigrateStorage stores it in the newer version.
func TestStorageVersionsOfTwoReleases(t *testing.T) {
	c := startCluster(t, 1, "http")
	c.healthy(t)
	parts := func(version string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "parts.example.com", Version: version, Resource: "parts"}
	}
	named := func(version string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: "parts.example.com/" + version, Kind: "Part"}
	}
	release := func(stored string, more ...apiserver.Part) (*apiserver.Server, dynamic.Interface) {
		t.Helper()
		s, err := apiserver.New(t.Context(), append(more,
			apiserver.Group("parts.example.com", apiserver.Kind(&piece{TypeMeta: named("v2")}, apiserver.Names("parts"),
				apiserver.Version(&part{TypeMeta: named("v1")}), apiserver.StorageVersion(stored),
				apiserver.ClusterScoped())),
			apiserver.Storage(apiserver.Etcd(etcd.Config{Endpoints: c.endpoints(), Prefix: "/releases"})))...)
		require.NoError(t, err)
		t.Cleanup(s.Stop)
		client, err := dynamic.NewForConfig(s.RESTConfig())
		require.NoError(t, err)
		return s, client
	}
	_, first := release("v1")
	second, newer := release("v2")
	created, err := first.Resource(parts("v1")).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "parts.example.com/v1", "kind": "Part", "metadata": map[string]any{"name": "wheel"},
		"needs": "axle",
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	// wait returns the object as soon as its state on a server differs from the one read before.
	wait := func(client dynamic.Interface, version, before string) *unstructured.Unstructured {
		t.Helper()
		w, err := client.Resource(parts(version)).Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		defer w.Stop()
		for {
			u, ok := (<-w.ResultChan()).Object.(*unstructured.Unstructured)
			if !ok {
				t.Fatal("the watch ended")
			}
			if u.GetResourceVersion() != before {
				return u
			}
		}
	}
	got := wait(newer, "v2", "")
	if got.GetAPIVersion() != "parts.example.com/v2" || got.Object["wants"] != "axle" || got.Object["needs"] != nil {
		t.Errorf("the second release reads %v", got.Object)
	}
	key := store.Key{Resource: "parts.parts.example.com", Name: "wheel"}
	assert.Containsf(t, string(second.Store().Snapshot().Get(key).Data), `"parts.example.com/v1"`, "stored")
	third, _ := release("v2", apiserver.MigrateStorage())
	got = wait(first, "v1", created.GetResourceVersion())
	if got.GetAPIVersion() != "parts.example.com/v1" || got.Object["needs"] != "axle" || got.Object["wants"] != nil {
		t.Errorf("the first release reads %v", got.Object)
	}
	sn, err := third.Store().Fresh(t.Context())
	require.NoError(t, err)
	assert.Containsf(t, string(sn.Get(key).Data), `"parts.example.com/v2"`, "stored")
}
