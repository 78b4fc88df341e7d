package controlplane_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/apiserver"
	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// cake is version v1 of a kind, and tart is its v2, in which the second release of a server stores
// objects.
type cake struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Layers            int64 `json:"layers,omitempty"`
}

type tart struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Floors            int64 `json:"floors,omitempty"`
}

func (c *cake) DeepCopyObject() runtime.Object {
	out := *c
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (t *tart) DeepCopyObject() runtime.Object {
	out := *t
	t.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (c *cake) ConvertTo(hub *tart) error {
	hub.ObjectMeta, hub.Floors = c.ObjectMeta, c.Layers
	return nil
}

func (c *cake) ConvertFrom(hub *tart) error {
	c.ObjectMeta, c.Layers = hub.ObjectMeta, hub.Floors
	return nil
}

const bakery = "bakery.example.com"

func cakeMeta(version string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: bakery + "/" + version, Kind: "Cake"}
}

// newBakery returns a custom API server that does not authorize requests again.
func newBakery(t *testing.T, parts ...apiserver.Part) *apiserver.Server {
	t.Helper()
	s, err := apiserver.New(t.Context(), parts...)
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

// A StorageVersionMigration stores the objects of a custom API server again that are in its former
// storage version, even if they need several pages. A migration fails if the server of its resource
// refuses the requests.
func TestMigrationOfAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newBakery(t, apiserver.Group(bakery, apiserver.Kind(&cake{TypeMeta: cakeMeta("v1")})))
		const count = 600
		for i := range count {
			require.NoError(t, first.Transact(t.Context(), func(tx *apiserver.Tx) error {
				return tx.Create(&cake{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("c-", i)},
					Layers: 2})
			}))
		}
		second := newBakery(t, apiserver.Group(bakery,
			apiserver.Kind(&tart{TypeMeta: cakeMeta("v2")}, apiserver.Version(&cake{TypeMeta: cakeMeta("v1")}))),
			apiserver.Fork(first.Store().Snapshot()))
		storedIn := func(version string) (n int) {
			for obj := range second.Store().Snapshot().Scan("cakes."+bakery, "", store.Key{}) {
				if strings.Contains(string(obj.Data), `"apiVersion":"`+bakery+"/"+version+`"`) {
					n++
				}
			}
			return n
		}
		if n := storedIn("v1"); n != count {
			t.Fatalf("%d stored in v1", n)
		}
		c := newCluster(t, controlplane.Config{})
		c.serve("bakery", "bakery.default.svc", second.Handler())
		c.register(bakery, "v2", "bakery")
		c.register(bakery, "v1", "bakery")
		c.serve("wardle", "wardle.default.svc", &api{group: "wardle.example.com", version: "v1",
			requests: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusMethodNotAllowed)
				fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"MethodNotAllowed","code":405}`)
			}})
		c.register("wardle.example.com", "v1", "wardle")
		const path = "/apis/storagemigration.k8s.io/v1/storageversionmigrations"
		migrate := func(group, resource string) string {
			c.create(path, `{"apiVersion":"storagemigration.k8s.io/v1","kind":"StorageVersionMigration","metadata":{"name":"`+resource+`"},
				"spec":{"resource":{"group":"`+group+`","resource":"`+resource+`"}}}`)
			time.Sleep(time.Minute) // of the bubble
			synctest.Wait()
			return c.get(path+"/"+resource, http.StatusOK)
		}
		if status := migrate(bakery, "cakes"); !strings.Contains(status, `"type":"Succeeded","status":"True"`) {
			t.Errorf("migration: %s", status)
		}
		if old, now := storedIn("v1"), storedIn("v2"); old != 0 || now != count {
			t.Errorf("%d stored in v1, %d in v2", old, now)
		}
		if status := migrate("wardle.example.com", "flunders"); !strings.Contains(status,
			`"type":"Failed","status":"True"`) {
			t.Errorf("migration on a server that refuses: %s", status)
		}
	})
}
