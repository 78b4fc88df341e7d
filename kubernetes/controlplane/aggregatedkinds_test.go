package controlplane_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver"
	"kelson.dev/apiserver/apiservertest"
	"kelson.dev/apiserver/inprocess"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// wardleServer is a custom API server behind a control plane.
type wardleServer struct {
	*cluster
	handler http.Handler

	mu    sync.Mutex
	users map[string]bool
}

// serveWardle serves flunders, whose type is that of Leases, in the group version example.com/v1.
func serveWardle(c *cluster) *wardleServer {
	c.Helper()
	env := apiservertest.New(c.T, apiserver.Group("example.com",
		apiserver.Kind(&coordinationv1.Lease{}, apiserver.Names("flunders"))))
	w := &wardleServer{cluster: c, users: map[string]bool{}}
	w.handler = http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
		w.mu.Lock()
		w.users[req.Header.Get("X-Remote-User")+" "+strings.Join(req.Header["X-Remote-Group"], ",")] = true
		w.mu.Unlock()
		env.Handler().ServeHTTP(out, req)
	})
	c.serve("wardle", "wardle.default.svc", w.handler)
	c.register("example.com", "v1", "wardle")
	c.wantAvailable("v1.example.com", "True", "Passed", "all checks passed")
	return w
}

func (w *wardleServer) stop() {
	w.cluster.mu.Lock()
	p := w.backends["wardle.example:443"]
	w.cluster.mu.Unlock()
	p.stop()
}

const (
	flunderPath   = "/apis/example.com/v1/namespaces/%s/flunders"
	configMapPath = "/api/v1/namespaces/%s/configmaps"
)

// add creates an object with only metadata, and returns a reference to it.
func (c *cluster) add(path, apiVersion, kind, name, metadata string,
	owners ...metav1.OwnerReference) metav1.OwnerReference {
	c.Helper()
	references, err := json.Marshal(owners)
	require.NoError(c, err)
	if len(owners) == 0 {
		references = []byte("[]")
	}
	c.create(path, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"ownerReferences":%s%s}}`, apiVersion,
		kind, name, references, metadata))
	var created metav1.PartialObjectMetadata
	c.document(path+"/"+name, "application/json", &created)
	block := true
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: created.UID,
		BlockOwnerDeletion: &block}
}

func (c *cluster) flunder(name string, owners ...metav1.OwnerReference) metav1.OwnerReference {
	c.Helper()
	return c.add(fmt.Sprintf(flunderPath, "default"), "example.com/v1", "Lease", name, "", owners...)
}

func (c *cluster) configMap(name string, owners ...metav1.OwnerReference) metav1.OwnerReference {
	c.Helper()
	return c.add(fmt.Sprintf(configMapPath, "default"), "v1", "ConfigMap", name, "", owners...)
}

func (c *cluster) remove(path, policy string) {
	c.Helper()
	if code, answer := ask(c, c.plane, root, "DELETE", path+"?propagationPolicy="+policy, ""); code != http.StatusOK &&
		code != http.StatusAccepted {
		c.Fatalf("DELETE %s: %d %s", path, code, answer)
	}
}

// release removes the finalizers of an object.
func (c *cluster) release(path string) {
	c.Helper()
	call := inprocess.Call{Method: "PATCH", Path: path, Body: []byte(`{"metadata":{"finalizers":null}}`),
		ContentType: "application/merge-patch+json"}
	_, err := call.Do(c.Context(), c.plane.TransportAs(root))
	require.NoError(c, err)
}

func (c *cluster) names(path string) []string {
	c.Helper()
	var list metav1.PartialObjectMetadataList
	c.document(path, "application/json", &list)
	names := []string{}
	for _, item := range list.Items {
		if item.Name != "kube-root-ca.crt" {
			names = append(names, item.Name)
		}
	}
	slices.Sort(names)
	return names
}

// left checks which flunders and ConfigMaps of the namespace default exist after a while.
func (c *cluster) left(flunders, configMaps string) {
	c.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	if got := strings.Join(c.names(fmt.Sprintf(flunderPath, "default")), " "); got != flunders {
		c.Errorf("flunders %q, want %q", got, flunders)
	}
	if got := strings.Join(c.names(fmt.Sprintf(configMapPath, "default")), " "); got != configMaps {
		c.Errorf("ConfigMaps %q, want %q", got, configMaps)
	}
}

// Owners and dependents may be in different servers.
func TestGarbageCollectionOfAggregatedKinds(t *testing.T) {
	flunders, configMaps := fmt.Sprintf(flunderPath, "default")+"/", fmt.Sprintf(configMapPath, "default")+"/"
	for _, test := range []struct {
		name string
		do   func(c *wardleServer)
	}{
		{"background", func(c *wardleServer) {
			a := c.configMap("a")
			b := c.flunder("b", a)
			c.configMap("c", b)
			c.flunder("d", b)
			c.flunder("other")
			c.left("b d other", "a c")
			c.remove(configMaps+"a", "Background")
			c.left("other", "")
			c.mu.Lock()
			defer c.mu.Unlock()
			if !c.users["system:serviceaccount:kube-system:generic-garbage-collector system:serviceaccounts,system:serviceaccounts:kube-system,system:authenticated"] {
				c.Errorf("users: %v", c.users)
			}
		}},
		{"aggregated owner", func(c *wardleServer) {
			c.configMap("b", c.flunder("a"))
			c.left("a", "b")
			c.remove(flunders+"a", "Background")
			c.left("", "")
		}},
		{"foreground", func(c *wardleServer) {
			a := c.flunder("a")
			b := c.add(strings.TrimSuffix(configMaps, "/"), "v1", "ConfigMap", "b",
				`,"finalizers":["example.com/wait"]`, a)
			c.flunder("c", b)
			c.left("a c", "b")
			c.remove(flunders+"a", "Foreground")
			c.left("a", "b")
			c.release(configMaps + "b")
			c.left("", "")
		}},
		{"foreground of a local owner", func(c *wardleServer) {
			a := c.configMap("a")
			c.flunder("b", a)
			c.remove(configMaps+"a", "Foreground")
			c.left("", "")
		}},
		{"orphan", func(c *wardleServer) {
			a, b := c.configMap("a"), c.flunder("b")
			c.flunder("c", a)
			c.configMap("d", b)
			// As in Kubernetes, the collector watches another server's objects.
			time.Sleep(time.Second)
			c.remove(configMaps+"a", "Orphan")
			c.remove(flunders+"b", "Orphan")
			c.left("c", "d")
			for _, path := range []string{flunders + "c", configMaps + "d"} {
				var obj metav1.PartialObjectMetadata
				if c.document(path, "application/json", &obj); len(obj.OwnerReferences) != 0 {
					c.Errorf("%s has owners %v", path, obj.OwnerReferences)
				}
			}
		}},
		{"several owners", func(c *wardleServer) {
			a, b := c.configMap("a"), c.flunder("b")
			c.flunder("c", a, b)
			c.remove(configMaps+"a", "Background")
			c.left("b c", "")
			var obj metav1.PartialObjectMetadata
			if c.document(flunders+"c", "application/json", &obj); len(obj.OwnerReferences) != 1 ||
				obj.OwnerReferences[0].UID != b.UID {
				c.Errorf("owners %v", obj.OwnerReferences)
			}
		}},
		{"absent owner", func(c *wardleServer) {
			block := false
			absent := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Lease", Name: "x", UID: "1",
				BlockOwnerDeletion: &block}
			c.configMap("a", absent)
			c.flunder("b", absent)
			unknown := absent
			unknown.Kind = "Unknown"
			c.configMap("c", unknown)
			c.left("", "c")
		}},
		{"server without answers", func(c *wardleServer) {
			b := c.flunder("b")
			c.configMap("kept", b)
			gone := b
			gone.UID = "1"
			c.stop()
			time.Sleep(time.Minute) // until it is not available
			c.configMap("a", gone)
			time.Sleep(5 * time.Minute)
			if got := c.names(fmt.Sprintf(configMapPath, "default")); len(got) != 2 {
				c.Errorf("ConfigMaps %v: an object was deleted although its owners' server does not answer", got)
			}
			c.listen("wardle.example:443", "wardle.default.svc", c.handler)
			c.left("b", "kept")
		}},
		{"definition of the same group version", func(c *wardleServer) {
			// Requests go to the other server, so its objects are the owners.
			owner := c.flunder("a")
			c.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
				"metadata":{"name":"flunders.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
				"names":{"plural":"flunders","singular":"flunder","kind":"Lease"},
				"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
			c.configMap("b", owner)
			c.left("a", "b")
			c.remove(flunders+"a", "Background")
			c.left("", "")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test.do(serveWardle(newCluster(t, controlplane.Config{}))) })
		})
	}
}

// condition returns "status reason message" of a condition of a namespace.
func (c *cluster) condition(namespace string, kind corev1.NamespaceConditionType) string {
	c.Helper()
	var ns corev1.Namespace
	c.document("/api/v1/namespaces/"+namespace, "application/json", &ns)
	for _, condition := range ns.Status.Conditions {
		if condition.Type == kind {
			return fmt.Sprintf("%s %s %s", condition.Status, condition.Reason, condition.Message)
		}
	}
	return ""
}

// Deleting a namespace deletes the objects in it that other servers hold.
func TestNamespaceWithAggregatedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serveWardle(newCluster(t, controlplane.Config{}))
		for _, name := range []string{"team", "later"} {
			c.create("/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+name+`"}}`)
			c.add(fmt.Sprintf(flunderPath, name), "example.com/v1", "Lease", "free", "")
		}
		team := fmt.Sprintf(flunderPath, "team")
		c.add(team, "example.com/v1", "Lease", "held", `,"finalizers":["example.com/wait"]`)
		c.flunder("elsewhere")

		c.remove("/api/v1/namespaces/team", "Background")
		time.Sleep(time.Minute)
		if got := c.names(team); !slices.Equal(got, []string{"held"}) {
			t.Errorf("flunders %v", got)
		}
		for kind, want := range map[corev1.NamespaceConditionType]string{
			corev1.NamespaceDeletionDiscoveryFailure: "False ResourcesDiscovered All resources successfully discovered",
			corev1.NamespaceDeletionContentFailure:   "False ContentDeleted All content successfully deleted, may be waiting on finalization",
			corev1.NamespaceContentRemaining:         "True SomeResourcesRemain Some resources are remaining: flunders.example.com has 1 resource instances",
			corev1.NamespaceFinalizersRemaining: "True SomeFinalizersRemain Some content in the namespace has finalizers remaining: " +
				"example.com/wait in 1 resource instances",
		} {
			if got := c.condition("team", kind); got != want {
				t.Errorf("%s: %s, want %s", kind, got, want)
			}
		}
		c.release(team + "/held")
		time.Sleep(10 * time.Second)
		c.get("/api/v1/namespaces/team", http.StatusNotFound)

		// A server that does not answer may hold objects.
		c.stop()
		time.Sleep(time.Minute)
		c.remove("/api/v1/namespaces/later", "Background")
		time.Sleep(time.Minute)
		want := "True DiscoveryFailed Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: " +
			"example.com/v1: stale GroupVersion discovery: example.com/v1"
		if got := c.condition("later", corev1.NamespaceDeletionDiscoveryFailure); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		want = "True ContentDeletionFailed Failed to delete all resource types, 1 remaining: the server is currently unable to handle the request"
		if got := c.condition("later", corev1.NamespaceDeletionContentFailure); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		c.listen("wardle.example:443", "wardle.default.svc", c.handler)
		time.Sleep(time.Minute)
		c.get("/api/v1/namespaces/later", http.StatusNotFound)
		if got := c.names(fmt.Sprintf(flunderPath, "default")); !slices.Equal(got, []string{"elsewhere"}) {
			t.Errorf("flunders of default: %v", got)
		}
	})
}
