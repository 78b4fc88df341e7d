package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"kelson.dev/internal/assert"
	"kelson.dev/kubernetes/apitest"
	"kelson.dev/kubernetes/controlplane"
)

// quotaBubble runs a test on its own control plane, in virtual time.
func quotaBubble(t *testing.T, cfg controlplane.Config, test func(t *testing.T, p *apitest.Plane)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		plane := startPlane(t, cfg)
		synctest.Wait()
		test(t, &apitest.Plane{Store: plane.Store(), Client: &http.Client{Transport: plane.Transport()}})
	})
}

func quota(name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":%q},"spec":%s}`, name, spec)
}

func configMap(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`, name)
}

func quotaPod(name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},"spec":{"containers":[{"name":"c","image":"i"%s}`, name, spec)
}

// used checks a quota's usage of a resource.
func used(t *testing.T, p *apitest.Plane, name, resource, want string) {
	t.Helper()
	q := p.Want(t, 200, "GET", ns+"/resourcequotas/"+name, "")
	if got := apitest.At(q, "status", "used", resource); got != want {
		t.Errorf("%s: used %s: %v, want %s", name, resource, got, want)
	}
}

func refused(t *testing.T, p *apitest.Plane, method, path, body, message string, header ...string) {
	t.Helper()
	if got := apitest.At(p.Want(t, 403, method, path, body, header...), "message"); got != message {
		t.Errorf("%s %s: %v\nwant %s", method, path, got, message)
	}
}

// With 64 concurrent creators, a quota is never exceeded, and its usage is exact afterwards.
func TestConcurrentCreators(t *testing.T) {
	plane := startPlane(t, controlplane.Config{})
	p := &apitest.Plane{Client: &http.Client{Transport: plane.Transport()}}
	p.Want(t, 201, "POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"many"}}`)
	const many = "/api/v1/namespaces/many"
	p.Want(t, 201, "POST", many+"/resourcequotas", quota("q", `{"hard":{"count/secrets":"100"}}`))
	p.Want(t, 201, "POST", many+"/resourcequotas", quota("wide", `{"hard":{"secrets":"1000"}}`))
	var created, forbidden, deleted atomic.Int64
	var creators sync.WaitGroup
	for c := range 64 {
		creators.Go(func() {
			for i := range 4 {
				name := fmt.Sprintf("s-%d-%d", c, i)
				body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q}}`, name)
				resp := p.Do(t, "POST", many+"/secrets", body, "Content-Type: application/json")
				text, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				switch resp.StatusCode {
				case 201:
					created.Add(1)
					if c%8 == 0 { // delete some immediately
						p.Want(t, 200, "DELETE", many+"/secrets/"+name, "")
						deleted.Add(1)
					}
				case 403:
					if !strings.Contains(string(text),
						"exceeded quota: q, requested: count/secrets=1, used: count/secrets=100, limited: count/secrets=100") {
						t.Errorf("%s", text)
					}
					forbidden.Add(1)
				default:
					t.Errorf("%d %s", resp.StatusCode, text)
				}
			}
		})
	}
	creators.Wait()
	left := created.Load() - deleted.Load()
	if created.Load()+forbidden.Load() != 256 || left > 100 {
		t.Errorf("%d created, %d of them deleted, %d refused", created.Load(), deleted.Load(), forbidden.Load())
	}
	n := plane.Store().Snapshot().Count("secrets", "many")
	assert.Equalf(t, int64(n), left, "%d exist", n)
	// The controller subtracts deleted objects after their events: until then, the usage may be too
	// high but never too low.
	want := fmt.Sprint(left)
	events := p.Watch(t, many+"/resourcequotas?watch=1")
	defer events.Close()
	for {
		q := p.Want(t, 200, "GET", many+"/resourcequotas/q", "")
		w := p.Want(t, 200, "GET", many+"/resourcequotas/wide", "")
		if apitest.At(q, "status", "used", "count/secrets") == want &&
			apitest.At(w, "status", "used", "secrets") == want {
			return
		}
		events.Next(t)
	}
}

// A quota, and each change of it, applies to the next request. The controller keeps its status
// true.
func TestNewQuotaAppliesImmediately(t *testing.T) {
	quotaBubble(t, controlplane.Config{}, func(t *testing.T, p *apitest.Plane) {
		p.Want(t, 201, "POST", ns+"/configmaps", configMap("a"))
		p.Want(t, 201, "POST", ns+"/resourcequotas", quota("q", `{"hard":{"configmaps":"1"}}`))
		refused(t, p, "POST", ns+"/configmaps", configMap("b"),
			`configmaps "b" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1`)
		synctest.Wait()
		used(t, p, "q", "configmaps", "1")
		p.Want(t, 200, "DELETE", ns+"/configmaps/a", "")
		synctest.Wait()
		used(t, p, "q", "configmaps", "0")
		// A dry run is checked but not counted.
		p.Want(t, 201, "POST", ns+"/configmaps?dryRun=All", configMap("b"))
		used(t, p, "q", "configmaps", "0")
		p.Want(t, 201, "POST", ns+"/configmaps", configMap("b"))
		used(t, p, "q", "configmaps", "1")
		refused(t, p, "POST", ns+"/configmaps?dryRun=All", configMap("c"),
			`configmaps "c" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1`)
		// New limits apply to the next request; other namespaces are not affected.
		p.Want(t, 200, "PATCH", ns+"/resourcequotas/q", `{"spec":{"hard":{"configmaps":"2"}}}`,
			"Content-Type: application/merge-patch+json")
		p.Want(t, 201, "POST", ns+"/configmaps", configMap("c"))
		p.Want(t, 201, "POST", "/api/v1/namespaces/kube-public/configmaps", configMap("c"))
		// The controller corrects a status that a client writes.
		p.Want(t, 200, "PATCH", ns+"/resourcequotas/q/status",
			`{"status":{"hard":{"configmaps":"9"},"used":{"configmaps":"7"}}}`,
			"Content-Type: application/merge-patch+json")
		synctest.Wait()
		used(t, p, "q", "configmaps", "2")
		p.Want(t, 200, "DELETE", ns+"/resourcequotas/q", "")
		p.Want(t, 201, "POST", ns+"/configmaps", configMap("d"))
	})
}

// A failed write uses nothing.
func TestFailedWriteUsesNothing(t *testing.T) {
	quotaBubble(t, controlplane.Config{}, func(t *testing.T, p *apitest.Plane) {
		p.Want(t, 201, "POST", ns+"/resourcequotas",
			quota("q", `{"hard":{"configmaps":"3","services.nodeports":"2","services":"5"}}`))
		synctest.Wait()
		p.Want(t, 201, "POST", ns+"/configmaps", configMap("a"))
		p.Want(t, 409, "POST", ns+"/configmaps", configMap("a"))
		p.Want(t, 422, "POST", ns+"/configmaps", configMap("A"))
		used(t, p, "q", "configmaps", "1")
		const service = `{"apiVersion":"v1","kind":"Service","metadata":{"name":%q},"spec":{"type":"NodePort","ports":[{"port":1,"nodePort":30001}]}}`
		p.Want(t, 201, "POST", ns+"/services", fmt.Sprintf(service, "a"))
		p.Want(t, 422, "POST", ns+"/services", fmt.Sprintf(service, "b")) // the port is taken
		used(t, p, "q", "services.nodeports", "1")
	})
}

// An update adds its difference to the usage, even if it creates the object.
func TestUpdates(t *testing.T) {
	quotaBubble(t, controlplane.Config{}, func(t *testing.T, p *apitest.Plane) {
		p.Want(t, 201, "POST", ns+"/resourcequotas",
			quota("q", `{"hard":{"services":"3","services.nodeports":"1","services.loadbalancers":"0","configmaps":"1"}}`))
		synctest.Wait()
		const typed = `{"apiVersion":"v1","kind":"Service","metadata":{"name":%q},"spec":{"type":%q,"ports":[{"port":1}]}}`
		p.Want(t, 201, "POST", ns+"/services", fmt.Sprintf(typed, "a", "ClusterIP"))
		p.Want(t, 201, "POST", ns+"/services", fmt.Sprintf(typed, "b", "ClusterIP"))
		const merge = "Content-Type: application/merge-patch+json"
		p.Want(t, 200, "PATCH", ns+"/services/a", `{"spec":{"type":"NodePort"}}`, merge)
		used(t, p, "q", "services.nodeports", "1")
		refused(t, p, "PATCH", ns+"/services/b", `{"spec":{"type":"NodePort"}}`,
			`services "b" is forbidden: exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=1, limited: services.nodeports=1`, merge)
		resp := p.Want(t, 403, "PATCH", ns+"/services/b", `{"spec":{"type":"LoadBalancer"}}`, merge)
		assert.Contains(t, fmt.Sprint(resp["message"]), "services.loadbalancers=1")
		p.Want(t, 200, "PATCH", ns+"/services/a", `{"spec":{"type":"ClusterIP","ports":[{"port":1,"nodePort":null}]}}`,
			merge)
		synctest.Wait()
		used(t, p, "q", "services.nodeports", "0")
		p.Want(t, 200, "PATCH", ns+"/services/b", `{"spec":{"type":"NodePort"}}`, merge)

		const apply = "Content-Type: application/apply-patch+yaml"
		p.Want(t, 201, "PATCH", ns+"/configmaps/x?fieldManager=m", configMap("x"), apply)
		used(t, p, "q", "configmaps", "1")
		p.Want(t, 403, "PATCH", ns+"/configmaps/y?fieldManager=m", configMap("y"), apply)
	})
}

// A quota with scopes counts only the Pods in them: by quality of service, deadline or priority
// class. A Pod that ends releases its share.
func TestPodsByScope(t *testing.T) {
	quotaBubble(t, controlplane.Config{}, func(t *testing.T, p *apitest.Plane) {
		p.Want(t, 201, "POST", ns+"/resourcequotas", quota("best", `{"hard":{"pods":"1"},"scopes":["BestEffort"]}`))
		p.Want(t, 201, "POST", ns+"/resourcequotas",
			quota("others", `{"hard":{"pods":"5","requests.cpu":"1"},"scopes":["NotBestEffort"]}`))
		p.Want(t, 201, "POST", ns+"/resourcequotas", quota("ending", `{"hard":{"pods":"1"},"scopes":["Terminating"]}`))
		p.Want(t, 201, "POST", ns+"/resourcequotas", quota("critical",
			`{"hard":{"pods":"0"},"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"In","values":["high"]}]}}`))
		p.Want(t, 201, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses",
			`{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"high"},"value":1000}`)
		synctest.Wait()
		p.Want(t, 201, "POST", ns+"/pods", quotaPod("a", `}]}`))
		refused(t, p, "POST", ns+"/pods", quotaPod("b", `}]}`),
			`pods "b" is forbidden: exceeded quota: best, requested: pods=1, used: pods=1, limited: pods=1`)
		const cpu = `,"resources":{"requests":{"cpu":"600m"}}}]`
		p.Want(t, 201, "POST", ns+"/pods", quotaPod("c", cpu+`}`))
		used(t, p, "others", "requests.cpu", "600m")
		used(t, p, "best", "pods", "1")
		refused(t, p, "POST", ns+"/pods", quotaPod("d", cpu+`}`),
			`pods "d" is forbidden: exceeded quota: others, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1`)
		refused(t, p, "POST", ns+"/pods", quotaPod("e", `,"resources":{"requests":{"memory":"1Mi"}}}]}`),
			`pods "e" is forbidden: failed quota: others: must specify requests.cpu for: c`)
		const little = `,"resources":{"requests":{"cpu":"1m"}}}]`
		refused(t, p, "POST", ns+"/pods", quotaPod("f", little+`,"priorityClassName":"high"}`),
			`pods "f" is forbidden: exceeded quota: critical, requested: pods=1, used: pods=0, limited: pods=0`)
		p.Want(t, 201, "POST", ns+"/pods", quotaPod("g", little+`,"activeDeadlineSeconds":60}`))
		p.Want(t, 403, "POST", ns+"/pods", quotaPod("h", little+`,"activeDeadlineSeconds":60}`))
		// The end of a pod releases what it used.
		p.Want(t, 200, "PATCH", ns+"/pods/c/status", `{"status":{"phase":"Succeeded"}}`,
			"Content-Type: application/merge-patch+json")
		synctest.Wait()
		used(t, p, "others", "requests.cpu", "1m")
		p.Want(t, 201, "POST", ns+"/pods", quotaPod("d", cpu+`}`))
	})
}

// Objects of any kind can be counted, including custom kinds that are not defined yet.
func TestCountsOfAnyKind(t *testing.T) {
	quotaBubble(t, controlplane.Config{}, func(t *testing.T, p *apitest.Plane) {
		p.Want(t, 201, "POST", ns+"/resourcequotas", quota("q", `{"hard":{"count/widgets.example.com":"1","count/leases.coordination.k8s.io":"0",
			"persistentvolumeclaims":"2","requests.storage":"5Gi","gold.storageclass.storage.k8s.io/requests.storage":"1Gi"}}`))
		p.Want(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
			"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
		synctest.Wait()
		const widgets, widget = "/apis/example.com/v1/namespaces/default/widgets",
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":%q}}`
		p.Want(t, 201, "POST", widgets, fmt.Sprintf(widget, "a"))
		refused(t, p, "POST", widgets, fmt.Sprintf(widget, "b"),
			`widgets.example.com "b" is forbidden: exceeded quota: q, requested: count/widgets.example.com=1, `+
				`used: count/widgets.example.com=1, limited: count/widgets.example.com=1`)
		p.Want(t, 200, "DELETE", widgets+"/a", "")
		synctest.Wait()
		p.Want(t, 201, "POST", widgets, fmt.Sprintf(widget, "b"))
		p.Want(t, 403, "POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases",
			`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"}}`)
		const claim = `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":%q},"spec":{"accessModes":["ReadWriteOnce"],
			"storageClassName":%q,"resources":{"requests":{"storage":%q}}}}`
		p.Want(t, 201, "POST", ns+"/persistentvolumeclaims", fmt.Sprintf(claim, "a", "lead", "4Gi"))
		p.Want(t, 403, "POST", ns+"/persistentvolumeclaims", fmt.Sprintf(claim, "b", "lead", "2Gi"))
		p.Want(t, 201, "POST", ns+"/persistentvolumeclaims", fmt.Sprintf(claim, "b", "gold", "1Gi"))
		used(t, p, "q", "requests.storage", "5Gi")
		used(t, p, "q", "gold.storageclass.storage.k8s.io/requests.storage", "1Gi")
	})
}

// Claims count for their device class and for the extended resource of the class.
func TestDeviceClasses(t *testing.T) {
	quotaBubble(t, controlplane.Config{}, func(t *testing.T, p *apitest.Plane) {
		const class = `{"apiVersion":"resource.k8s.io/v1","kind":"DeviceClass","metadata":{"name":%q},"spec":{"extendedResourceName":%q}}`
		const classes, claims = "/apis/resource.k8s.io/v1/deviceclasses",
			"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
		claim := func(name, class string, count int) string {
			return fmt.Sprintf(`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":%q},
				"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":%q,"count":%d}}]}}}`, name, class, count)
		}
		p.Want(t, 201, "POST", classes, fmt.Sprintf(class, "gpu", "example.com/gpu"))
		p.Want(t, 201, "POST", ns+"/resourcequotas", quota("q", `{"hard":{"count/resourceclaims.resource.k8s.io":"3",
			"gpu.deviceclass.resource.k8s.io/devices":"5","requests.example.com/gpu":"4","requests.example.com/nic":"9"}}`))
		synctest.Wait()
		p.Want(t, 201, "POST", claims, claim("a", "gpu", 3))
		used(t, p, "q", "gpu.deviceclass.resource.k8s.io/devices", "3")
		used(t, p, "q", "requests.example.com/gpu", "3")
		used(t, p, "q", "count/resourceclaims.resource.k8s.io", "1")
		refused(t, p, "POST", claims, claim("b", "gpu", 2),
			`resourceclaims.resource.k8s.io "b" is forbidden: exceeded quota: q, `+
				`requested: requests.example.com/gpu=2, used: requests.example.com/gpu=3, limited: requests.example.com/gpu=4`)

		// The usage changes with the classes.
		p.Want(t, 201, "POST", claims, claim("n", "nic", 7))
		used(t, p, "q", "requests.example.com/nic", "0")
		p.Want(t, 201, "POST", classes, fmt.Sprintf(class, "nic", "example.com/nic"))
		synctest.Wait()
		used(t, p, "q", "requests.example.com/nic", "7")
		p.Want(t, 200, "DELETE", claims+"/a", "")
		synctest.Wait()
		used(t, p, "q", "requests.example.com/gpu", "0")

		// The claim that the scheduler creates for a pod counts only once, with the pod.
		created := p.Want(t, 201, "POST", ns+"/pods",
			quotaPod("p", `,"resources":{"requests":{"example.com/gpu":"2"},"limits":{"example.com/gpu":"2"}}}]}`))
		used(t, p, "q", "requests.example.com/gpu", "2")
		own := strings.Replace(claim("p-gpu", "gpu", 2), `"name":"p-gpu"`, fmt.Sprintf(`"name":"p-gpu","annotations":{"resource.kubernetes.io/extended-resource-claim":"true"},
			"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":%q,"controller":true}]`, apitest.At(created, "metadata", "uid")), 1)
		p.Want(t, 201, "POST", claims, own)
		synctest.Wait()
		used(t, p, "q", "requests.example.com/gpu", "2")
		used(t, p, "q", "gpu.deviceclass.resource.k8s.io/devices", "2")
	})
}

// The status has the same field managers as in Kubernetes.
func TestManagersOfTheStatus(t *testing.T) {
	quotaBubble(t, controlplane.Config{}, func(t *testing.T, p *apitest.Plane) {
		p.Want(t, 201, "POST", ns+"/resourcequotas?fieldManager=me", quota("q", `{"hard":{"configmaps":"5"}}`))
		synctest.Wait()
		managers := func() string {
			q := p.Want(t, 200, "GET", ns+"/resourcequotas/q", "")
			var all []string
			for _, entry := range apitest.At(q, "metadata", "managedFields").([]any) {
				e := entry.(map[string]any)
				fields, err := json.Marshal(e["fieldsV1"])
				if err != nil || e["time"] == nil || e["operation"] != "Update" {
					t.Errorf("%v %v", e, err)
				}
				all = append(all, fmt.Sprintf("%v %v %s", e["manager"], e["subresource"], fields))
			}
			return strings.Join(all, "\n")
		}
		const controller = `kube-controller-manager status {"f:status":{"f:hard":{".":{},"f:configmaps":{}},"f:used":{%s}}}`
		const me = `me <nil> {"f:spec":{"f:hard":{".":{},"f:configmaps":{}}}}`
		if got, want := managers(), fmt.Sprintf(controller, `".":{},"f:configmaps":{}`)+"\n"+me; got != want {
			t.Errorf("managers\n%s\nwant\n%s", got, want)
		}
		p.Want(t, 201, "POST", ns+"/configmaps", configMap("a"))
		want := `kube-apiserver status {"f:status":{"f:used":{"f:configmaps":{}}}}` + "\n" +
			fmt.Sprintf(controller, ``) + "\n" + me
		assert.Equalf(t, managers(), want, "managers")
	})
}

// A resource that the configuration limits can be used only if a quota allows it. An invalid
// configuration is refused at the start.
func TestLimitedResources(t *testing.T) {
	cfg := controlplane.Config{}
	cfg.Admission.Plugins = map[string][]byte{"ResourceQuota": []byte(`
apiVersion: apiserver.config.k8s.io/v1
kind: ResourceQuotaConfiguration
limitedResources:
- resource: persistentvolumeclaims
  matchContains: [.storageclass.storage.k8s.io/requests.storage]
`)}
	const claim = `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],
		"storageClassName":"gold","resources":{"requests":{"storage":"1Gi"}}}}`
	quotaBubble(t, cfg, func(t *testing.T, p *apitest.Plane) {
		refused(t, p, "POST", ns+"/persistentvolumeclaims", claim,
			`persistentvolumeclaims "c" is forbidden: insufficient quota to consume: gold.storageclass.storage.k8s.io/requests.storage`)
		p.Want(t, 201, "POST", ns+"/resourcequotas",
			quota("q", `{"hard":{"gold.storageclass.storage.k8s.io/requests.storage":"1Gi"}}`))
		p.Want(t, 201, "POST", ns+"/persistentvolumeclaims", claim)
	})
	cfg.Admission.Plugins["ResourceQuota"] = []byte("kind: Nonsense\n")
	if plane, err := controlplane.Start(t.Context(), cfg); err == nil {
		plane.Stop()
		t.Error("want an error for an invalid configuration")
	}
}

// Without controllers, as with kube-apiserver alone, a quota is in force when a client has written
// its status.
func TestWithoutControllers(t *testing.T) {
	quotaBubble(t, controlplane.Config{Controllers: controlplane.NoControllers{}}, func(t *testing.T, p *apitest.Plane) {
		p.Want(t, 201, "POST", ns+"/resourcequotas", quota("q", `{"hard":{"configmaps":"0"}}`))
		p.Want(t, 201, "POST", ns+"/configmaps", configMap("a"))
		p.Want(t, 200, "PATCH", ns+"/resourcequotas/q/status",
			`{"status":{"hard":{"configmaps":"1"},"used":{"configmaps":"0"}}}`,
			"Content-Type: application/merge-patch+json")
		p.Want(t, 201, "POST", ns+"/configmaps", configMap("b"))
		p.Want(t, 403, "POST", ns+"/configmaps", configMap("c"))
	})
	off := controlplane.Config{}
	off.Admission.Disable = []string{"ResourceQuota"}
	quotaBubble(t, off, func(t *testing.T, p *apitest.Plane) {
		p.Want(t, 201, "POST", ns+"/resourcequotas", quota("q", `{"hard":{"configmaps":"0"}}`))
		p.Want(t, 201, "POST", ns+"/configmaps", configMap("a"))
	})
}
