package kubernetes_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/internal/assert"
	"kelson.dev/kubernetes/apitest"
	"kelson.dev/kubernetes/controlplane"
)

const (
	ns    = "/api/v1/namespaces/default"
	merge = "Content-Type: application/merge-patch+json"
)

// plane is a control plane in a bubble; some plugins can be enabled in addition to the default
// ones.
type plane struct {
	*testing.T
	*apitest.Plane
	as func(name string, groups ...string) *apitest.Plane
}

func inBubble(t *testing.T, test func(p plane), enable ...string) {
	t.Helper()
	withConfig(t, nil, test, enable...)
}

func withConfig(t *testing.T, plugins map[string][]byte, test func(p plane), enable ...string) {
	t.Helper()
	withAdmission(t, controlplane.Admission{Enable: enable, Plugins: plugins}, test)
}

// withoutPlugins disables plugins that are enabled by default.
func withoutPlugins(t *testing.T, test func(p plane), disable ...string) {
	t.Helper()
	withAdmission(t, controlplane.Admission{Disable: disable}, test)
}

func withAdmission(t *testing.T, gates controlplane.Admission, test func(p plane)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := controlplane.Config{Admission: gates}
		cp := startPlane(t, cfg)
		synctest.Wait()
		client := func(rt http.RoundTripper) *apitest.Plane {
			return &apitest.Plane{Store: cp.Store(), Client: &http.Client{Transport: rt}}
		}
		test(plane{t, client(cp.Transport()), func(name string, groups ...string) *apitest.Plane {
			return client(cp.TransportAs(&user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)}))
		}})
	})
}

// want sends a request, checks the status code and returns the response.
func (p plane) want(code int, method, path, body string, header ...string) apitest.Object {
	p.Helper()
	return p.Want(p.T, code, method, path, body, header...)
}

// refused sends a request that must get Forbidden with a message that contains the given text.
func (p plane) refused(method, path, body, message string, header ...string) {
	p.Helper()
	got := fmt.Sprint(p.want(403, method, path, body, header...)["message"])
	assert.Containsf(p, got, message, "%s %s", method, path)
}

// wantField compares a part of an object with its form in fmt.
func (p plane) wantField(obj any, want string, path ...string) {
	p.Helper()
	if got := fmt.Sprint(apitest.At(obj, path...)); got != want {
		p.Errorf("%s: %s, want %s", strings.Join(path, "."), got, want)
	}
}

// object returns the JSON of an object; more has further members and begins with a comma.
func object(version, kind, name, more string) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q}%s}`, version, kind, name, more)
}

// pod returns a pod with one container; the arguments have members for the container and the spec.
func pod(name, container, spec string) string {
	return object("v1", "Pod", name, fmt.Sprintf(`,"spec":{"containers":[{"name":"c","image":"i:1"%s}]%s}`, container,
		spec))
}

func item(list any, i int) any {
	items, _ := list.([]any)
	if i >= len(items) {
		return nil
	}
	return items[i]
}

// NamespaceExists refuses objects of a missing namespace. NamespaceAutoProvision creates the
// namespace.
func TestNamespaceAutoProvisionAndExists(t *testing.T) {
	inBubble(t, func(p plane) {
		p.want(404, "POST", "/api/v1/namespaces/new/configmaps", object("v1", "ConfigMap", "a", ""))
	}, "NamespaceExists")
	inBubble(t, func(p plane) {
		p.want(201, "POST", "/api/v1/namespaces/new/configmaps", object("v1", "ConfigMap", "a", ""))
		p.want(200, "GET", "/api/v1/namespaces/new", "")
		// a dry run creates no namespace
		p.want(404, "POST", "/api/v1/namespaces/other/configmaps?dryRun=All", object("v1", "ConfigMap", "a", ""))
	}, "NamespaceAutoProvision")
}

// The plugin sets the pull policy Always, and is off by default.
func TestAlwaysPullImages(t *testing.T) {
	inBubble(t, func(p plane) {
		created := p.want(201, "POST", ns+"/pods", pod("a", `,"imagePullPolicy":"Never"`, ""))
		p.wantField(item(apitest.At(created, "spec", "containers"), 0), "Always", "imagePullPolicy")
	}, "AlwaysPullImages")
	inBubble(t, func(p plane) {
		created := p.want(201, "POST", ns+"/pods", pod("a", `,"imagePullPolicy":"Never"`, ""))
		p.wantField(item(apitest.At(created, "spec", "containers"), 0), "Never", "imagePullPolicy")
	})
}

// The plugin allows required anti-affinity only by host name.
func TestLimitPodHardAntiAffinityTopology(t *testing.T) {
	affinity := func(key string) string {
		return fmt.Sprintf(`,"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":%q,"labelSelector":{}}]}}`, key)
	}
	inBubble(t, func(p plane) {
		p.refused("POST", ns+"/pods", pod("a", "", affinity("zone")), "but only key kubernetes.io/hostname is allowed")
		p.want(201, "POST", ns+"/pods", pod("a", "", affinity("kubernetes.io/hostname")))
	}, "LimitPodHardAntiAffinityTopology")
}

// A LimitRange sets default requests and limits of containers, and refuses containers and claims
// above its maximum.
func TestLimitRanger(t *testing.T) {
	inBubble(t, func(p plane) {
		p.want(201, "POST", ns+"/pods", pod("before", "", ""))
		p.want(201, "POST", ns+"/limitranges", object("v1", "LimitRange", "l", `,"spec":{"limits":[
			{"type":"Container","default":{"cpu":"500m"},"defaultRequest":{"cpu":"100m"},"max":{"cpu":"1"}},
			{"type":"PersistentVolumeClaim","max":{"storage":"1Gi"}}]}`))
		// A LimitRange applies to the next request, and until it is deleted.
		created := p.want(201, "POST", ns+"/pods", pod("a", "", ""))
		p.wantField(item(apitest.At(created, "spec", "containers"), 0),
			"map[limits:map[cpu:500m] requests:map[cpu:100m]]", "resources")
		p.refused("POST", ns+"/pods", pod("b", `,"resources":{"limits":{"cpu":"2"}}`, ""),
			"maximum cpu usage per Container is 1, but limit is 2")
		claim := func(size string) string {
			return object("v1", "PersistentVolumeClaim", "c",
				`,"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"`+size+`"}}}`)
		}
		p.refused("POST", ns+"/persistentvolumeclaims", claim("2Gi"),
			"maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi")
		p.want(201, "POST", ns+"/persistentvolumeclaims", claim("1Gi"))
		p.want(200, "DELETE", ns+"/limitranges/l", "")
		p.want(201, "POST", ns+"/pods", pod("b", `,"resources":{"limits":{"cpu":"2"}}`, ""))
	})
}

// Pods get the default service account and a volume with its token. A missing account, and secrets
// that a restricted account does not list, are refused.
func TestServiceAccount(t *testing.T) {
	inBubble(t, func(p plane) {
		created := p.want(201, "POST", ns+"/pods", pod("a", "", ""))
		p.wantField(created, "default", "spec", "serviceAccountName")
		mount := item(apitest.At(item(apitest.At(created, "spec", "containers"), 0), "volumeMounts"), 0)
		p.wantField(mount, "/var/run/secrets/kubernetes.io/serviceaccount", "mountPath")
		volume := item(apitest.At(created, "spec", "volumes"), 0)
		p.wantField(volume, fmt.Sprint(apitest.At(mount, "name")), "name")
		p.wantField(item(apitest.At(volume, "projected", "sources"), 0), "map[expirationSeconds:3607 path:token]",
			"serviceAccountToken")
		p.wantField(p.want(201, "POST", ns+"/pods", pod("b", "", `,"automountServiceAccountToken":false`)), "<nil>",
			"spec", "volumes")
		p.refused("POST", ns+"/pods", pod("c", "", `,"serviceAccountName":"missing"`),
			`error looking up service account default/missing: serviceaccount "missing" not found`)

		// In a new namespace, a pod waits for the service account.
		p.want(201, "POST", "/api/v1/namespaces", object("v1", "Namespace", "new", ""))
		p.want(201, "POST", "/api/v1/namespaces/new/pods", pod("a", "", ""))

		// Only the account's own secrets are allowed: in volumes, env and envFrom (CVE-2024-3177),
		// and in ephemeral containers (CVE-2023-2728).
		p.want(201, "POST", ns+"/serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"strict",
			"annotations":{"kubernetes.io/enforce-mountable-secrets":"true"}},"secrets":[{"name":"own"}]}`)
		const strict = `,"serviceAccountName":"strict","automountServiceAccountToken":false`
		from := func(secret string) string { return `,"envFrom":[{"secretRef":{"name":"` + secret + `"}}]` }
		p.refused("POST", ns+"/pods", pod("d", from("other"), strict),
			`with envFrom referencing secret.secretName="other" is not allowed`)
		p.refused("POST", ns+"/pods", pod("d",
			`,"env":[{"name":"E","valueFrom":{"secretKeyRef":{"name":"other","key":"k"}}}]`, strict), "is not allowed")
		p.refused("POST", ns+"/pods", pod("d", "", strict+`,"volumes":[{"name":"v","secret":{"secretName":"other"}}]`),
			"is not allowed")
		p.want(201, "POST", ns+"/pods", pod("d", from("own"), strict))
		debug := func(secret string) string {
			return `{"spec":{"ephemeralContainers":[{"name":"e","image":"i"` + from(secret) + `}]}}`
		}
		const strategic = "Content-Type: application/strategic-merge-patch+json"
		// upstream returns this code
		status := p.want(500, "PATCH", ns+"/pods/d/ephemeralcontainers", debug("other"), strategic)
		if message := fmt.Sprint(status["message"]); !strings.Contains(message,
			`ephemeral container e with envFrom referencing secret.secretName="other" is not allowed`) {
			p.Error(message)
		}
		p.want(200, "PATCH", ns+"/pods/d/ephemeralcontainers", debug("own"), strategic)
	})
}

// A node may change only itself and the Pods that are bound to it, and not its own taints, owners
// or restricted labels. Without the plugin, these rules do not apply.
func TestNodeRestriction(t *testing.T) {
	inBubble(t, func(p plane) {
		// bypass the authorizer, which is not under test
		node := p.as("system:node:n1", "system:nodes", "system:masters")
		do := func(code int, method, path, body, message string) {
			t.Helper()
			obj := node.Want(t, code, method, path, body, "Content-Type: "+contentType(method))
			if got := fmt.Sprint(obj["message"]); code == 403 && !strings.Contains(got, message) {
				t.Errorf("%s, want %s", got, message)
			}
		}
		do(403, "POST", "/api/v1/nodes", object("v1", "Node", "n2", ""), `node "n1" is not allowed to modify node "n2"`)
		do(201, "POST", "/api/v1/nodes", object("v1", "Node", "n1", ""), "")
		do(403, "PATCH", "/api/v1/nodes/n1", `{"metadata":{"labels":{"node-restriction.kubernetes.io/x":"y"}}}`,
			"is not allowed to modify labels")
		do(403, "PATCH", "/api/v1/nodes/n1", `{"spec":{"taints":[]}}`, "is not allowed to modify taints")
		// CVE-2025-5187: a node could set an owner that it can delete, and the garbage collector
		// would delete the node.
		do(403, "PATCH", "/api/v1/nodes/n1", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"c","uid":"u"}]}}`,
			`node "n1" is not allowed to modify ownerReferences`)
		p.want(201, "POST", "/api/v1/nodes", object("v1", "Node", "n2", ""))
		do(403, "DELETE", "/api/v1/nodes/n2", "", `node "n1" is not allowed to modify node "n2"`)
		do(403, "POST", ns+"/pods", pod("a", "", `,"nodeName":"n1"`), `can only create mirror pods`)
		p.want(201, "POST", ns+"/pods", pod("theirs", "", `,"nodeName":"n2"`))
		do(403, "DELETE", ns+"/pods/theirs", "", `node "n1" can only delete pods with spec.nodeName set to itself`)
		do(403, "PATCH", ns+"/pods/theirs/status", `{"status":{"phase":"Failed"}}`,
			`can only update pod status for pods with spec.nodeName set to itself`)
		p.want(201, "POST", ns+"/pods", pod("own", "", `,"nodeName":"n1"`))
		do(200, "PATCH", ns+"/pods/own/status", `{"status":{"phase":"Running"}}`, "")
		// CVE-2025-4563: a node can't set resource claim statuses that the pod did not request.
		do(403, "PATCH", ns+"/pods/own/status",
			`{"status":{"resourceClaimStatuses":[{"name":"c","resourceClaimName":"mine"}]}}`, "esource")
	}, "NodeRestriction")
	inBubble(t, func(p plane) {
		node := p.as("system:node:n1", "system:nodes", "system:masters")
		node.Want(t, 201, "POST", "/api/v1/nodes", object("v1", "Node", "n2", ""))
	})
}

// What NodeRestriction forbids a node, for each kind that nodes write, and what it allows. The Node
// authorizer, which is not under test, refuses all other kinds.
func TestNodeRestrictionOfEveryKind(t *testing.T) {
	inBubble(t, func(p plane) {
		p.want(201, "POST", "/api/v1/nodes", object("v1", "Node", "n1", ""))
		p.want(201, "POST", "/api/v1/nodes", object("v1", "Node", "n2", ""))
		p.want(201, "POST", ns+"/pods", pod("own", "", `,"nodeName":"n1"`))
		p.want(201, "POST", ns+"/pods", pod("theirs", "", `,"nodeName":"n2"`))
		node := p.as("system:node:n1", "system:nodes", "system:masters")
		const leases, tokens = "/apis/coordination.k8s.io/v1/namespaces/%s/leases",
			ns + "/serviceaccounts/default/token"
		token := func(pod string) string {
			return `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":["https://kubernetes.default.svc.cluster.local"]` + pod + `}}`
		}
		slice := func(node string) string {
			return `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{"name":"s-` + node +
				`"},"spec":{"driver":"d.example.com","nodeName":"` + node +
				`","pool":{"name":"p","generation":1,"resourceSliceCount":1}}}`
		}
		for _, test := range []struct {
			code               int
			method, path, body string
		}{
			{403, "PATCH", "/api/v1/nodes/n2", `{"metadata":{"annotations":{"a":"b"}}}`},
			{403, "PATCH", "/api/v1/nodes/n2/status", `{"status":{"phase":"Running"}}`},
			{200, "PATCH", "/api/v1/nodes/n1", `{"metadata":{"annotations":{"a":"b"}}}`},
			{200, "PATCH", "/api/v1/nodes/n1/status", `{"status":{"phase":"Running"}}`},
			{403, "PATCH", ns + "/pods/own", `{"metadata":{"labels":{"a":"b"}}}`},
			{403, "PATCH", ns + "/pods/theirs", `{"metadata":{"labels":{"a":"b"}}}`},
			{403, "POST", ns + "/pods/theirs/eviction", object("policy/v1", "Eviction", "theirs", "")},
			{403, "PATCH", ns + "/pods/theirs/status", `{"status":{"phase":"Failed"}}`},
			{403, "POST", fmt.Sprintf(leases, "default"), object("coordination.k8s.io/v1", "Lease", "n1", "")},
			{403, "POST", fmt.Sprintf(leases, "kube-node-lease"), object("coordination.k8s.io/v1", "Lease", "n2", "")},
			{201, "POST", fmt.Sprintf(leases, "kube-node-lease"), object("coordination.k8s.io/v1", "Lease", "n1", "")},
			{403, "POST", "/apis/storage.k8s.io/v1/csinodes",
				object("storage.k8s.io/v1", "CSINode", "n2", `,"spec":{"drivers":[]}`)},
			{201, "POST", "/apis/storage.k8s.io/v1/csinodes",
				object("storage.k8s.io/v1", "CSINode", "n1", `,"spec":{"drivers":[]}`)},
			{403, "POST", "/apis/resource.k8s.io/v1/resourceslices", slice("n2")},
			{201, "POST", "/apis/resource.k8s.io/v1/resourceslices", slice("n1")},
			{403, "POST", tokens, token("")},
			{403, "POST", tokens, token(`,"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"theirs","uid":"u"}`)},
			{201, "POST", ns + "/pods/own/eviction", object("policy/v1", "Eviction", "own", "")},
		} {
			node.Want(t, test.code, test.method, test.path, test.body, "Content-Type: "+contentType(test.method))
		}
	}, "NodeRestriction")
}

func contentType(method string) string {
	if method == "PATCH" {
		return "application/merge-patch+json"
	}
	return "application/json"
}

// A new node is tainted as not ready. The taints then follow its condition Ready and its spec.
func TestTaintNodesByCondition(t *testing.T) {
	inBubble(t, func(p plane) {
		created := p.want(201, "POST", "/api/v1/nodes", object("v1", "Node", "n", ""))
		p.wantField(created, "[map[effect:NoSchedule key:node.kubernetes.io/not-ready]]", "spec", "taints")
		synctest.Wait()
		p.wantField(p.want(200, "GET", "/api/v1/nodes/n", ""),
			"[map[effect:NoSchedule key:node.kubernetes.io/not-ready]]", "spec", "taints")
		ready := func(status string) string {
			return `{"status":{"conditions":[{"type":"Ready","status":"` + status + `"}]}}`
		}
		p.want(200, "PATCH", "/api/v1/nodes/n/status", ready("True"), merge)
		synctest.Wait()
		p.wantField(p.want(200, "GET", "/api/v1/nodes/n", ""), "<nil>", "spec", "taints")
		p.want(200, "PATCH", "/api/v1/nodes/n", `{"spec":{"unschedulable":true}}`, merge)
		p.want(200, "PATCH", "/api/v1/nodes/n/status", ready("Unknown"), merge)
		synctest.Wait()
		taints := fmt.Sprint(apitest.At(p.want(200, "GET", "/api/v1/nodes/n", ""), "spec", "taints"))
		if !strings.Contains(taints, "unschedulable") || !strings.Contains(taints, "unreachable") ||
			strings.Contains(taints, "not-ready") {
			p.Errorf("taints: %s", taints)
		}
	})
}
