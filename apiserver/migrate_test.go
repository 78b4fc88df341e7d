package apiserver_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"kelson.dev/apiserver"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest"
	"kelson.dev/apiserver/store"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// firstRelease serves only v1alpha1, and stores objects in this version.
func firstRelease() apiserver.Part {
	return apiserver.Group(group, apiserver.Kind(&oldPizza{TypeMeta: typeMeta("v1alpha1", "Pizza")}))
}

// storages lists storages that outlive a server.
func storages(t *testing.T) map[string]apiserver.OpenStore {
	own := &records{have: map[store.Key]store.Record{}}
	return map[string]apiserver.OpenStore{
		"disk": apiserver.Disk(t.TempDir()),
		"own":  apiserver.Backend(func() (store.Backend, error) { return own, nil }),
	}
}

// createInOldRelease creates pizzas with a server that serves only the first version.
func createInOldRelease(t *testing.T, open apiserver.OpenStore, names ...string) {
	t.Helper()
	s, client := newServer(t, firstRelease(), apiserver.Storage(open))
	for _, name := range names {
		old := object(t, `{"apiVersion":"`+group+`/v1alpha1","kind":"Pizza","metadata":{"name":"`+name+
			`"},"spec":{"toppings":["ham","salami","salami"]}}`)
		_, err := client.Resource(oldPizzas).Namespace("default").Create(t.Context(), old,
			metav1.CreateOptions{})
		require.NoError(t, err)
	}
	s.Stop()
}

func storedPizza(s *apiserver.Server, name string) string {
	return string(s.Store().Snapshot().Get(pizzasOf(s).Key("default", name)).Data)
}

func pizzasOf(s *apiserver.Server) *resource.Resource {
	res, _ := s.Registry().Current().ByName(pizzas.GroupResource())
	return res
}

// checkConverted checks that an object was converted from the first version to the current one.
func checkConverted(t *testing.T, what string, u *unstructured.Unstructured) {
	t.Helper()
	check(t, what+": version", u.GetAPIVersion(), group+"/v1beta1")
	check(t, what+": toppings", text(t, u, "spec", "toppings"),
		`[{"name":"ham","quantity":1},{"name":"salami","quantity":2}]`)
	check(t, what+": size", text(t, u, "spec", "size"), `"medium"`)
}

// The server converts objects in a former storage version to the current one when it reads them.
// The next write stores them in the current version, even if it changes nothing.
func TestStorageVersionChanges(t *testing.T) {
	for name, open := range storages(t) {
		t.Run(name, func(t *testing.T) {
			createInOldRelease(t, open, "a", "b")
			s, client := newServer(t, kinds(), apiserver.Storage(open))
			ctx, in := t.Context(), client.Resource(pizzas).Namespace("default")
			if !strings.Contains(storedPizza(s, "a"), "v1alpha1") {
				t.Fatalf("stored: %s", storedPizza(s, "a"))
			}
			got := require.Value[*unstructured.Unstructured](t)(in.Get(ctx, "a", metav1.GetOptions{}))
			checkConverted(t, "get", got)
			list := require.Value[*unstructured.UnstructuredList](t)(in.List(ctx, metav1.ListOptions{}))
			for i := range list.Items {
				checkConverted(t, "list", &list.Items[i])
			}
			assert.Equalf(t, len(list.Items), 2, "list")
			yes := true
			w := require.Value[watch.Interface](t)(in.Watch(ctx,
				metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: "NotOlderThan",
					AllowWatchBookmarks: true}))
			defer w.Stop()
			checkConverted(t, "watch", (<-w.ResultChan()).Object.(*unstructured.Unstructured))
			selected := require.Value[*unstructured.UnstructuredList](t)(in.List(ctx,
				metav1.ListOptions{FieldSelector: "spec.size=medium"}))
			assert.Equalf(t, len(selected.Items), 2, "selected")

			// A StorageVersionMigration sends this patch.
			patch := `{"apiVersion":"` + group + `/v1beta1","kind":"Pizza","metadata":{"uid":"` + string(got.GetUID()) +
				`","resourceVersion":"` + got.GetResourceVersion() + `"}}`
			after := require.Value[*unstructured.Unstructured](t)(in.Patch(ctx, "a", types.MergePatchType,
				[]byte(patch),
				metav1.PatchOptions{}))
			checkConverted(t, "patch", after)
			if after.GetResourceVersion() == got.GetResourceVersion() ||
				!strings.Contains(storedPizza(s, "a"), `"apiVersion":"`+group+`/v1beta1"`) {
				t.Errorf("patch: stored %s", storedPizza(s, "a"))
			}
			check(t, "generation", text(t, after, "metadata", "generation"), text(t, got, "metadata", "generation"))
			again := require.Value[*unstructured.Unstructured](t)(in.Patch(ctx, "a", types.MergePatchType, []byte(`{}`),
				metav1.PatchOptions{}))
			check(t, "a second patch", again.GetResourceVersion(), after.GetResourceVersion())
			old := require.Value[*unstructured.Unstructured](t)(client.Resource(oldPizzas).Namespace("default").Get(ctx,
				"b",
				metav1.GetOptions{}))
			check(t, "old version", old.GetAPIVersion(), group+"/v1alpha1")
			check(t, "old toppings", text(t, old, "spec", "toppings"), `["ham","salami","salami"]`)
		})
	}
}

// MigrateStorage stores again only the objects that are in a former version.
func TestMigrateStorage(t *testing.T) {
	for name, open := range storages(t) {
		t.Run(name, func(t *testing.T) {
			createInOldRelease(t, open, "a", "b")
			s, client := newServer(t, kinds(), apiserver.Storage(open))
			created, err := client.Resource(pizzas).Namespace("default").Create(t.Context(), newPizza(t, "c", `{}`),
				metav1.CreateOptions{})
			require.NoError(t, err)
			s.Stop()
			s, client = newServer(t, kinds(), apiserver.Storage(open), apiserver.MigrateStorage())
			untilMigrated(t, client, created.GetResourceVersion(), "a", "b")
			for _, name := range []string{"a", "b"} {
				assert.Containsf(t, storedPizza(s, name), `"apiVersion":"`+group+`/v1beta1"`, "stored")
			}
			kept := require.Value[*unstructured.Unstructured](t)(
				client.Resource(pizzas).Namespace("default").Get(t.Context(),
					"c", metav1.GetOptions{}))
			check(t, "the other object", kept.GetResourceVersion(), created.GetResourceVersion())
			s.Stop()
			s, _ = newServer(t, kinds(), apiserver.Storage(open))
			for _, res := range s.Registry().Current().All() {
				if stored, err := rest.Rewrite(t.Context(), s.Store(), res, false); stored != 0 || err != nil {
					t.Errorf("%s: %d stored again, %v", res.GroupResource(), stored, err)
				}
			}
		})
	}
}

// The flag --migrate-storage stores objects in the storage version, and logs how many.
func TestFlagMigrateStorage(t *testing.T) {
	dir := t.TempDir()
	createInOldRelease(t, apiserver.Disk(dir+"/state"), "a", "b")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log, stderr := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := apiserver.Serve(ctx, []string{"--standalone", "--secure-port=0", "--cert-dir=" + dir,
			"--data-dir=" + dir + "/state", "--migrate-storage"}, stderr, kinds())
		stderr.CloseWithError(err)
		ended <- err
	}()
	var migrated string
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if strings.Contains(lines.Text(), "migrated storage") {
			migrated = lines.Text()
			cancel()
		}
	}
	require.NoError(t, <-ended)
	if !strings.Contains(migrated, "stored=2") || !strings.Contains(migrated, "version=v1beta1") {
		t.Errorf("log: %q", migrated)
	}
	s, _ := newServer(t, kinds(), apiserver.Storage(apiserver.Disk(dir+"/state")))
	for _, name := range []string{"a", "b"} {
		assert.Containsf(t, storedPizza(s, name), `"apiVersion":"`+group+`/v1beta1"`, "stored")
	}
}

// untilMigrated waits until objects have been written after a revision.
func untilMigrated(t *testing.T, client dynamic.Interface, revision string, names ...string) {
	t.Helper()
	in := client.Resource(pizzas).Namespace("default")
	for _, name := range names {
		w, err := in.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		require.NoError(t, err)
		for {
			e := <-w.ResultChan()
			u, ok := e.Object.(*unstructured.Unstructured)
			if !ok {
				t.Fatalf("event: %v", e)
			}
			if newer(t, u.GetResourceVersion(), revision) {
				break
			}
		}
		w.Stop()
	}
}

func newer(t *testing.T, a, b string) bool {
	t.Helper()
	order, err := resourceversion.CompareResourceVersion(a, b)
	require.NoError(t, err)
	return order > 0
}

// An object that cannot be read is reported, and the others are stored again.
func TestMigrateStorageErrors(t *testing.T) {
	own := &records{have: map[store.Key]store.Record{}}
	open := apiserver.Backend(func() (store.Backend, error) { return own, nil })
	createInOldRelease(t, open, "a", "b")
	for key, record := range own.have {
		if key.Name == "a" {
			record.Data = bytes.ReplaceAll(record.Data, []byte("v1alpha1"), []byte("v9"))
			own.have[key] = record
		}
	}
	s, client := newServer(t, kinds(), apiserver.Storage(open))
	_, err := client.Resource(pizzas).Namespace("default").Get(t.Context(), "a", metav1.GetOptions{})
	assert.ErrorContainsf(t, err, group+"/v9", "get")
	stored, err := rest.Rewrite(t.Context(), s.Store(), pizzasOf(s), false)
	if stored != 1 || err == nil || !strings.Contains(err.Error(), "default/a: ") ||
		!strings.Contains(err.Error(), group+"/v9") {
		t.Errorf("%d stored, %v", stored, err)
	}
}

// panics has a default that panics for one pizza.
type panics struct{}

func (panics) Default(p *pizza) {
	if p.Name == "a" {
		panic("the default of a")
	}
}

// A panic of a default is an error of its object, and does not end the server.
func TestMigrateStoragePanics(t *testing.T) {
	own := &records{have: map[store.Key]store.Record{}}
	open := apiserver.Backend(func() (store.Backend, error) { return own, nil })
	createInOldRelease(t, open, "a", "b")
	s, _ := newServer(t, kinds(panics{}), apiserver.Storage(open))
	stored, err := rest.Rewrite(t.Context(), s.Store(), pizzasOf(s), false)
	if stored != 1 || err == nil || !strings.Contains(err.Error(), "default/a: panic: the default of a") {
		t.Errorf("%d stored, %v", stored, err)
	}
}
