package apitest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/internal/assert"
	"kelson.dev/kubernetes/apitest"
)

// An object with finalizers stays, marked as deleted, until the last finalizer is removed.
// Meanwhile its name is taken and no finalizer can be added.
func TestFinalizers(t *testing.T) {
	p := apitest.New(t)
	p.Want(t, 201, "POST", maps, `{"metadata":{"name":"a","finalizers":["x.example/y"]}}`)
	marked := p.Want(t, 200, "DELETE", maps+"/a", "")
	if marked["kind"] != "ConfigMap" || apitest.At(marked, "metadata", "deletionTimestamp") == nil ||
		apitest.At(marked, "metadata", "deletionGracePeriodSeconds") != 0.0 {
		t.Errorf("%v", marked)
	}
	again := p.Want(t, 200, "DELETE", maps+"/a", "")
	if apitest.At(again, "metadata", "resourceVersion") != apitest.At(marked, "metadata", "resourceVersion") {
		t.Error("the second deletion wrote")
	}
	status := p.Want(t, 409, "POST", maps, configMap("a", ""))
	if status["message"] != `object is being deleted: configmaps "a" already exists` {
		t.Errorf("%v", status)
	}
	p.Want(t, 422, "PATCH", maps+"/a", `{"metadata":{"finalizers":["x.example/y","x.example/z"]}}`, mergePatch)
	s := p.Watch(t, maps+"?watch=1&resourceVersion="+apitest.At(marked, "metadata", "resourceVersion").(string))
	p.Want(t, 200, "PATCH", maps+"/a", `{"metadata":{"finalizers":null}}`, mergePatch)
	s.Expect(t, "DELETED a")
	p.Want(t, 404, "GET", maps+"/a", "")
}

// The propagation policies Orphan and Foreground add their finalizers. Background deletes the
// object at once.
func TestPropagation(t *testing.T) {
	p := apitest.New(t)
	for _, c := range []struct{ policy, finalizers string }{
		{"Orphan", "[orphan]"},
		{"Foreground", "[foregroundDeletion]"},
	} {
		p.Want(t, 201, "POST", maps, configMap("a", ""))
		got := p.Want(t, 200, "DELETE", maps+"/a",
			fmt.Sprintf(`{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":%q}`, c.policy))
		assert.Equalf(t, fmt.Sprint(apitest.At(got, "metadata", "finalizers")), c.finalizers, "%s", c.policy)
		p.Want(t, 200, "PATCH", maps+"/a", `{"metadata":{"finalizers":null}}`, mergePatch)
	}
	p.Want(t, 201, "POST", maps, configMap("a", ""))
	status := p.Want(t, 200, "DELETE", maps+"/a?propagationPolicy=Background", "")
	if status["status"] != "Success" || apitest.At(status, "details", "kind") != "configmaps" ||
		apitest.At(status, "details", "uid") == nil {
		t.Errorf("%v", status)
	}
}

// A deletion whose precondition on UID or resource version fails gets 409, and a dry run deletes
// nothing.
func TestDeletePreconditions(t *testing.T) {
	p := apitest.New(t)
	a := p.Want(t, 201, "POST", maps, configMap("a", ""))
	uid, rv := apitest.At(a, "metadata", "uid"), apitest.At(a, "metadata", "resourceVersion")
	status := p.Want(t, 409, "DELETE", maps+"/a", `{"preconditions":{"uid":"other"}}`)
	t.Log(status["message"])
	p.Want(t, 409, "DELETE", maps+"/a", `{"preconditions":{"resourceVersion":"1"}}`)
	p.Want(t, 200, "DELETE", maps+"/a?dryRun=All", "")
	p.Want(t, 200, "DELETE", maps+"/a", fmt.Sprintf(`{"preconditions":{"uid":%q,"resourceVersion":%q}}`, uid, rv))
}

// The deletion of a bound Pod first sets its grace period. A second deletion without a grace period
// removes it.
func TestGracefulDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := apitest.New(t)
		const pods = "/api/v1/namespaces/default/pods"
		p.Want(t, 201, "POST", pods, fmt.Sprintf(pod, "a"))
		p.Want(t, 201, "POST", pods+"/a/binding", `{"metadata":{"name":"a"},"target":{"kind":"Node","name":"n"}}`)
		s := p.Watch(t, pods+"?watch=1")
		s.Expect(t, "ADDED a")
		marked := p.Want(t, 200, "DELETE", pods+"/a", "")
		if apitest.At(marked, "metadata", "deletionGracePeriodSeconds") != 30.0 ||
			apitest.At(marked, "metadata", "generation") != 2.0 {
			t.Errorf("%v", marked["metadata"])
		}
		s.Expect(t, "MODIFIED a")
		gone := p.Want(t, 200, "DELETE", pods+"/a", `{"gracePeriodSeconds":0}`)
		if apitest.At(gone, "metadata", "deletionGracePeriodSeconds") != 0.0 {
			t.Errorf("%v", gone["metadata"])
		}
		s.Expect(t, "MODIFIED a", "DELETED a")
		p.Want(t, 404, "DELETE", pods+"/a", "")
	})
}

// A node that sees a grace period of zero may delete the pod before the DELETE request that set it
// is finished; that request still succeeds.
func TestDeletionFinishedByTheNode(t *testing.T) {
	p := apitest.New(t)
	const pods = "/api/v1/namespaces/default/pods"
	registered, _ := p.Registry.Current().ByName(schema.GroupResource{Resource: "pods"})
	res, hooks := *registered, resource.Hooks{}
	if registered.Hooks != nil {
		hooks = *registered.Hooks
	}
	overtaken := 0
	hooks.AfterCommit = func(ctx context.Context, hub, _ runtime.Object, stored *store.Object) {
		if pod, ok := hub.(metav1.Object); ok && hub != nil && pod.GetDeletionTimestamp() != nil {
			overtaken++
			_, err := p.Store.Commit(ctx, store.Op{Key: res.Key("default", pod.GetName()), Expect: stored.Revision})
			assert.NoError(t, err)
		}
	}
	res.Hooks = &hooks
	p.Registry.Put(&res)
	p.Want(t, 201, "POST", pods, fmt.Sprintf(pod, "a"))
	p.Want(t, 201, "POST", pods+"/a/binding", `{"metadata":{"name":"a"},"target":{"kind":"Node","name":"n"}}`)
	gone := p.Want(t, 200, "DELETE", pods+"/a", `{"gracePeriodSeconds":0}`)
	if overtaken != 1 || apitest.At(gone, "metadata", "name") != "a" ||
		apitest.At(gone, "metadata", "deletionGracePeriodSeconds") != 0.0 {
		t.Errorf("overtaken %d times: %v", overtaken, gone)
	}
	p.Want(t, 404, "DELETE", pods+"/a", `{"gracePeriodSeconds":0}`)
}

func TestNamespaceDeletion(t *testing.T) {
	p := apitest.New(t)
	p.Want(t, 201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"x"}}`)
	marked := p.Want(t, 200, "DELETE", "/api/v1/namespaces/x", "")
	if apitest.At(marked, "status", "phase") != "Terminating" ||
		apitest.At(marked, "metadata", "deletionTimestamp") == nil {
		t.Errorf("%v", marked)
	}
	p.Want(t, 200, "PUT", "/api/v1/namespaces/x/finalize", `{"metadata":{"name":"x"},"spec":{"finalizers":[]}}`)
	p.Want(t, 404, "GET", "/api/v1/namespaces/x", "")
}

// The system's priority classes can only be deleted with their whole collection, as in
// kube-apiserver.
func TestDeleteSystemPriorityClass(t *testing.T) {
	p := apitest.New(t)
	const classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
	for name, value := range map[string]int{"system-node-critical": 2000001000, "system-cluster-critical": 2000000000,
		"own": 7} {
		p.Want(t, 201, "POST", classes, fmt.Sprintf(`{"metadata":{"name":%q},"value":%d}`, name, value))
	}
	for _, name := range []string{"system-node-critical", "system-cluster-critical"} {
		for _, options := range []string{"", `{"dryRun":["All"]}`, `{"preconditions":{"uid":"other"}}`} {
			status := p.Want(t, 403, "DELETE", classes+"/"+name, options)
			if status["message"] != fmt.Sprintf(
				`priorityclasses.scheduling.k8s.io %q is forbidden: this is a system priority class and cannot be deleted`, name) {
				t.Errorf("%v", status)
			}
		}
	}
	p.Want(t, 200, "DELETE", classes+"/own", "")
	p.Want(t, 200, "DELETE", classes, "")
	p.Want(t, 404, "GET", classes+"/system-node-critical", "")
	p.Want(t, 403, "DELETE", classes+"/system-node-critical", "")
}

func TestDeleteCollection(t *testing.T) {
	p := apitest.New(t)
	for i := range 4 {
		p.Want(t, 201, "POST", maps, configMap(fmt.Sprint("m", i), fmt.Sprintf(`"odd":"%d"`, i%2)))
	}
	gone := p.Want(t, 200, "DELETE", maps+"?labelSelector=odd=1", "")
	left := p.Want(t, 200, "GET", maps, "")
	if fmt.Sprint(names(gone), names(left)) != "[m1 m3] [m0 m2]" {
		t.Error(names(gone), names(left))
	}
}
