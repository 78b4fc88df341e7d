package client_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/discovery"
	"kelson.dev/operator/internal/apitest"
)

var widgetOfDiscovery = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

func newServer() (*apitest.Server, *atomic.Int64) {
	server := apitest.New(apitest.Kind{GroupVersionKind: widgetOfDiscovery, Plural: "widgets"})
	asked := &atomic.Int64{}
	server.SetFaults(apitest.Faults{Intercept: func(http.ResponseWriter, *http.Request) bool {
		asked.Add(1)
		return false
	}})
	return server, asked
}

func open(t *testing.T, server *apitest.Server, cfg discovery.Config) *discovery.Client {
	t.Helper()
	cfg.REST = server.REST()
	d, err := discovery.New(cfg)
	must(t, err)
	return d
}

// names requests all documents.
func names(t *testing.T, d *discovery.Client) string {
	t.Helper()
	groups, err := d.Groups(t.Context())
	must(t, err)
	var all []string
	for _, g := range groups {
		gv, _ := schema.ParseGroupVersion(g.PreferredVersion.GroupVersion)
		resources, err := d.Resources(t.Context(), gv)
		must(t, err)
		all = append(all, g.Name+"/"+g.PreferredVersion.Version+":"+resources[0].Name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// Without a cache, with one in memory, and with one in files.
func TestKept(t *testing.T) {
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		cfg   discovery.Config
		again int64 // requests of the second time
		other int64 // requests of another client
	}{
		"plain":  {discovery.Config{}, 5, 5},
		"memory": {discovery.Config{Memory: true}, 0, 5},
		"disk":   {discovery.Config{Dir: dir}, 0, 0},
		"both":   {discovery.Config{Dir: filepath.Join(dir, "both"), Memory: true}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, asked := newServer()
				count := func(what string, want int64) {
					t.Helper()
					if got := asked.Swap(0); got != want {
						t.Errorf("%s: %d requests, want %d", what, got, want)
					}
				}
				d := open(t, server, tt.cfg)
				first := names(t, d)
				assert.Equal(t, first, "/v1:pods coordination.k8s.io/v1:leases example.com/v1:widgets")
				count("first", 5)
				assert.Equalf(t, names(t, d), first, "again")
				count("again", tt.again)
				assert.Equalf(t, names(t, open(t, server, tt.cfg)), first, "other")
				count("another", tt.other)
				time.Sleep(time.Second)
				d.Invalidate()
				names(t, d)
				count("invalidated", 5)
				_, err := d.Resources(t.Context(), schema.GroupVersion{Group: "none", Version: "v1"})
				if !apierrors.IsNotFound(err) {
					t.Errorf("no such version: %v", err)
				}
			})
		})
	}
}

// Cache files that are damaged, too old, or of another user are ignored.
func TestFiles(t *testing.T) {
	server, asked := newServer()
	dir := t.TempDir()
	cfg := discovery.Config{Dir: dir, Life: time.Hour}
	names(t, open(t, server, cfg))
	var files []string
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, _ error) error {
		if !e.IsDir() {
			files = append(files, path)
		}
		return nil
	})
	if len(files) != 5 {
		t.Fatalf("files %v", files)
	}
	check := func(what string, change func(path string) error, want int64) {
		t.Helper()
		for _, f := range files {
			must(t, change(f))
		}
		asked.Store(0)
		names(t, open(t, server, cfg))
		if got := asked.Load(); got != want {
			t.Errorf("%s: %d requests, want %d", what, got, want)
		}
	}
	check("as they are", func(string) error { return nil }, 0)
	check("broken", func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) }, 5)
	check("restored", func(string) error { return nil }, 0)
	old := time.Now().Add(-2 * time.Hour)
	check("old", func(path string) error { return os.Chtimes(path, old, old) }, 5)

	asked.Store(0)
	rest := server.REST()
	rest.Impersonate.UserName = "jane"
	d, err := discovery.New(discovery.Config{REST: rest, Dir: dir})
	must(t, err)
	names(t, d)
	assert.Equalf(t, asked.Load(), 5, "files of another user were read")
}

// A mapper over cache files finds kinds that were added after the files were written, and sends no
// unnecessary requests.
func TestMapper(t *testing.T) {
	server, asked := newServer()
	cfg := discovery.Config{Dir: t.TempDir()}
	names(t, open(t, server, cfg))
	asked.Store(0)
	m := open(t, server, cfg).Mapper()
	if mapping, err := m.RESTMapping(widgetOfDiscovery.GroupKind(), "v1"); err != nil ||
		mapping.Resource.Resource != "widgets" || asked.Load() != 0 {
		t.Errorf("%v %v, %d requests", mapping, err, asked.Load())
	}
	gadget := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}
	server.AddKind(apitest.Kind{GroupVersionKind: gadget, Plural: "gadgets"})
	if mapping, err := m.RESTMapping(gadget.GroupKind(), "v1"); err != nil || mapping.Resource.Resource != "gadgets" ||
		asked.Load() != 1 {
		t.Errorf("%v %v, %d requests", mapping, err, asked.Load())
	}
	if _, err := m.RESTMapping(schema.GroupKind{Group: "example.com", Kind: "Nothing"},
		"v1"); !meta.IsNoMatchError(err) {
		t.Errorf("nothing: %v", err)
	}
	if gvr, err := m.ResourceFor(schema.GroupVersionResource{Resource: "gadgets"}); err != nil ||
		gvr.Group != "example.com" {
		t.Errorf("%v %v", gvr, err)
	}
}

// Group and version names select only documents of their own, and no files outside of the folder.
func TestInvalidNames(t *testing.T) {
	server, asked := newServer()
	dir := t.TempDir()
	d := open(t, server, discovery.Config{Dir: dir})
	for _, gv := range []schema.GroupVersion{{Group: "..", Version: ".."}, {Group: "example.com", Version: "v1/../v1"},
		{Version: "../../../x"}, {Version: "v1/"}} {
		_, err := d.Resources(t.Context(), gv)
		assert.ErrorContainsf(t, err, "invalid", "resources of %s", gv)
		_, err = d.Mapper().RESTMapping(schema.GroupKind{Group: gv.Group, Kind: "Widget"},
			gv.Version)
		assert.ErrorContainsf(t, err, "invalid", "mapping of %s", gv)
	}
	assert.Equalf(t, asked.Load(), 0, "requests")
}
