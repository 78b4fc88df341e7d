package kubernetes_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"

	"kelson.dev/internal/assert"
	"kelson.dev/kubernetes/apitest"
	"kelson.dev/kubernetes/controlplane"
)

// Pods get the node selector of the configuration or of the namespace's annotation. A Pod with a
// conflicting selector is refused.
func TestPodNodeSelector(t *testing.T) {
	config := map[string][]byte{"PodNodeSelector": []byte(
		"podNodeSelectorPluginConfig:\n  clusterDefaultNodeSelector: zone=a\n")}
	withConfig(t, config, func(p plane) {
		p.wantField(p.want(201, "POST", ns+"/pods", pod("a", "", "")), "map[zone:a]", "spec", "nodeSelector")
		p.refused("POST", ns+"/pods", pod("b", "", `,"nodeSelector":{"zone":"b"}`),
			"pod node label selector conflicts with its namespace node label selector")
		p.want(200, "PATCH", ns, `{"metadata":{"annotations":{"scheduler.alpha.kubernetes.io/node-selector":"disk=ssd"}}}`, merge)
		p.wantField(p.want(201, "POST", ns+"/pods", pod("b", "", "")), "map[disk:ssd]", "spec", "nodeSelector")
	}, "PodNodeSelector")
}

// Pods get the priority of their class or of the default class. Unknown classes, explicit
// priorities and a second default class are refused.
func TestPriority(t *testing.T) {
	inBubble(t, func(p plane) {
		class := func(name string, value int, more string) string {
			return object("scheduling.k8s.io/v1", "PriorityClass", name, fmt.Sprintf(`,"value":%d%s`, value, more))
		}
		const classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
		p.wantField(p.want(200, "GET", classes+"/system-node-critical", ""), "2.000001e+09", "value")
		p.wantField(p.want(200, "GET", classes+"/system-cluster-critical", ""), "2e+09", "value")
		p.wantField(p.want(201, "POST", ns+"/pods", pod("a", "", "")), "0", "spec", "priority")
		p.refused("POST", ns+"/pods", pod("b", "", `,"priorityClassName":"high"`),
			"no PriorityClass with name high was found")
		p.want(201, "POST", classes, class("high", 1000, `,"preemptionPolicy":"Never"`))
		created := p.want(201, "POST", ns+"/pods", pod("b", "", `,"priorityClassName":"high"`))
		p.wantField(created, "1000", "spec", "priority")
		p.wantField(created, "Never", "spec", "preemptionPolicy")
		p.refused("POST", ns+"/pods", pod("c", "", `,"priority":5`),
			"the integer value of priority (5) must not be provided in pod spec")
		p.want(201, "POST", classes, class("usual", 7, `,"globalDefault":true`))
		p.wantField(p.want(201, "POST", ns+"/pods", pod("c", "", "")), "7", "spec", "priority")
		p.refused("POST", classes, class("another", 8, `,"globalDefault":true`),
			"PriorityClass usual is already marked as default")
	})
}

// Pods get the default tolerations, and those of their extended resources if that plugin is
// enabled. A whitelist refuses others.
func TestTolerations(t *testing.T) {
	inBubble(t, func(p plane) {
		created := p.want(201, "POST", ns+"/pods", pod("a", "", ""))
		p.wantField(created, "[map[effect:NoExecute key:node.kubernetes.io/not-ready operator:Exists tolerationSeconds:300] "+
			"map[effect:NoExecute key:node.kubernetes.io/unreachable operator:Exists tolerationSeconds:300]]", "spec",
			"tolerations")
	})
	const gpu = `,"resources":{"limits":{"example.com/gpu":"1"}}`
	inBubble(t, func(p plane) {
		created := p.want(201, "POST", ns+"/pods", pod("a", gpu, ""))
		p.wantField(item(apitest.At(created, "spec", "tolerations"), 2),
			"map[effect:NoSchedule key:example.com/gpu operator:Exists]")
	}, "ExtendedResourceToleration")
	config := map[string][]byte{"PodTolerationRestriction": []byte(`
apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1
kind: Configuration
whitelist: [{key: node.kubernetes.io/not-ready, operator: Exists}, {key: node.kubernetes.io/unreachable, operator: Exists}, {key: a, operator: Exists}]
`)}
	withConfig(t, config, func(p plane) {
		// upstream returns this code
		status := p.want(500, "POST", ns+"/pods", pod("a", "", `,"tolerations":[{"key":"b","operator":"Exists"}]`))
		p.wantField(status, "pod tolerations (possibly merged with namespace default tolerations) conflict with its cluster whitelist", "message")
		p.want(201, "POST", ns+"/pods", pod("a", "", `,"tolerations":[{"key":"a","operator":"Exists"}]`))
	}, "PodTolerationRestriction")
}

// Events above the configured rate get 429. A configuration without limits is refused at the start.
func TestEventRateLimit(t *testing.T) {
	config := map[string][]byte{"EventRateLimit": []byte("apiVersion: eventratelimit.admission.k8s.io/v1alpha1\n" +
		"kind: Configuration\nlimits: [{type: Namespace, qps: 1, burst: 2}]\n")}
	event := func(name string) string {
		return object("v1", "Event", name, `,"involvedObject":{"kind":"Pod","namespace":"default","name":"p"}`)
	}
	withConfig(t, config, func(p plane) {
		p.want(201, "POST", ns+"/events", event("a"))
		p.want(201, "POST", ns+"/events", event("b"))
		p.want(429, "POST", ns+"/events", event("c"))
	}, "EventRateLimit")
	cfg := controlplane.Config{}
	cfg.Admission.Enable = []string{"EventRateLimit"}
	cfg.Admission.Plugins = map[string][]byte{
		"EventRateLimit": []byte("apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\n")}
	if cp, err := controlplane.Start(t.Context(), cfg); err == nil {
		cp.Stop()
		t.Error("a configuration without limits was accepted")
	}
}

// Claims and Ingresses that name no class get the default class, if there is one.
func TestDefaultClasses(t *testing.T) {
	inBubble(t, func(p plane) {
		claim := func(name string) string {
			return object("v1", "PersistentVolumeClaim", name,
				`,"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}`)
		}
		p.wantField(p.want(201, "POST", ns+"/persistentvolumeclaims", claim("a")), "<nil>", "spec", "storageClassName")
		p.want(201, "POST", "/apis/storage.k8s.io/v1/storageclasses", `{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","provisioner":"p",
			"metadata":{"name":"std","annotations":{"storageclass.kubernetes.io/is-default-class":"true"}}}`)
		p.wantField(p.want(201, "POST", ns+"/persistentvolumeclaims", claim("b")), "std", "spec", "storageClassName")

		ingress := func(name string) string {
			return object("networking.k8s.io/v1", "Ingress", name,
				`,"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":1}}}}`)
		}
		const ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
		p.wantField(p.want(201, "POST", ingresses, ingress("a")), "<nil>", "spec", "ingressClassName")
		p.want(201, "POST", "/apis/networking.k8s.io/v1/ingressclasses", `{"apiVersion":"networking.k8s.io/v1","kind":"IngressClass","spec":{"controller":"e.com/c"},
			"metadata":{"name":"std","annotations":{"ingressclass.kubernetes.io/is-default-class":"true"}}}`)
		p.wantField(p.want(201, "POST", ingresses, ingress("b")), "std", "spec", "ingressClassName")
	})
}

// A claim can grow only if its storage class allows expansion.
func TestPersistentVolumeClaimResize(t *testing.T) {
	inBubble(t, func(p plane) {
		for _, class := range []string{"fixed", "grows"} {
			p.want(201, "POST", "/apis/storage.k8s.io/v1/storageclasses",
				object("storage.k8s.io/v1", "StorageClass", class,
					fmt.Sprintf(`,"provisioner":"p","allowVolumeExpansion":%v`, class == "grows")))
			p.want(201, "POST", ns+"/persistentvolumeclaims", object("v1", "PersistentVolumeClaim", class,
				`,"spec":{"storageClassName":"`+class+
					`","volumeName":"v","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}`))
			p.want(200, "PATCH", ns+"/persistentvolumeclaims/"+class+"/status", `{"status":{"phase":"Bound"}}`, merge)
		}
		const more = `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`
		p.refused("PATCH", ns+"/persistentvolumeclaims/fixed", more,
			"only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize", merge)
		p.want(200, "PATCH", ns+"/persistentvolumeclaims/grows", more, merge)
	})
}

// A deleted claim stays while a Pod uses it, and a deleted volume stays while it is bound.
func TestStorageObjectInUseProtection(t *testing.T) {
	inBubble(t, func(p plane) {
		claim := object("v1", "PersistentVolumeClaim", "c",
			`,"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}`)
		p.wantField(p.want(201, "POST", ns+"/persistentvolumeclaims", claim), "[kubernetes.io/pvc-protection]",
			"metadata", "finalizers")
		const mounts = `,"nodeName":"n","volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]`
		p.want(201, "POST", ns+"/pods", pod("a", "", mounts))
		p.want(200, "DELETE", ns+"/persistentvolumeclaims/c", "")
		synctest.Wait()
		p.want(200, "GET", ns+"/persistentvolumeclaims/c", "")
		p.want(200, "DELETE", ns+"/pods/a?gracePeriodSeconds=0", "")
		synctest.Wait()
		p.want(404, "GET", ns+"/persistentvolumeclaims/c", "")

		volume := object("v1", "PersistentVolume", "v",
			`,"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/x"}}`)
		p.wantField(p.want(201, "POST", "/api/v1/persistentvolumes", volume), "[kubernetes.io/pv-protection]",
			"metadata", "finalizers")
		p.want(200, "PATCH", "/api/v1/persistentvolumes/v/status", `{"status":{"phase":"Bound"}}`, merge)
		p.want(200, "DELETE", "/api/v1/persistentvolumes/v", "")
		synctest.Wait()
		p.want(200, "PATCH", "/api/v1/persistentvolumes/v/status", `{"status":{"phase":"Released"}}`, merge)
		synctest.Wait()
		p.want(404, "GET", "/api/v1/persistentvolumes/v", "")
	})
}

// A user can't set blockOwnerDeletion, or change owner references, without the permissions that the
// plugin requires.
func TestOwnerReferencesPermissionEnforcement(t *testing.T) {
	inBubble(t, func(p plane) {
		owner := p.want(201, "POST", ns+"/configmaps", object("v1", "ConfigMap", "owner", ""))
		p.want(201, "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
			object("rbac.authorization.k8s.io/v1", "Role", "r",
				`,"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["create","patch","get"]}]`))
		p.want(201, "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
			object("rbac.authorization.k8s.io/v1", "RoleBinding", "b",
				`,"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},"subjects":[{"kind":"User","name":"jo","apiGroup":"rbac.authorization.k8s.io"}]`))
		jo := p.as("jo")
		dependent := func(name, blocks string) string {
			return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner",
				"uid":%q%s}]}}`, name, apitest.At(owner, "metadata", "uid"), blocks)
		}
		jo.Want(t, 201, "POST", ns+"/configmaps", dependent("a", ""))
		status := jo.Want(t, 403, "POST", ns+"/configmaps", dependent("b", `,"blockOwnerDeletion":true`))
		if message := fmt.Sprint(status["message"]); !strings.Contains(message,
			"cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on") {
			t.Error(message)
		}
		jo.Want(t, 403, "PATCH", ns+"/configmaps/a", `{"metadata":{"ownerReferences":null}}`, merge)
		p.want(201, "POST", ns+"/configmaps", dependent("b", `,"blockOwnerDeletion":true`))
	}, "OwnerReferencesPermissionEnforcement")
}

// Pods get the overhead and the node selector of their RuntimeClass. A missing class and another
// overhead are refused.
func TestRuntimeClass(t *testing.T) {
	inBubble(t, func(p plane) {
		const uses = `,"runtimeClassName":"vm"`
		p.refused("POST", ns+"/pods", pod("a", "", uses), `pod rejected: RuntimeClass "vm" not found`)
		p.want(201, "POST", "/apis/node.k8s.io/v1/runtimeclasses", object("node.k8s.io/v1", "RuntimeClass", "vm",
			`,"handler":"h","overhead":{"podFixed":{"cpu":"10m"}},"scheduling":{"nodeSelector":{"vm":"yes"}}`))
		created := p.want(201, "POST", ns+"/pods", pod("a", "", uses))
		p.wantField(created, "map[cpu:10m]", "spec", "overhead")
		p.wantField(created, "map[vm:yes]", "spec", "nodeSelector")
		p.refused("POST", ns+"/pods", pod("b", "", uses+`,"overhead":{"cpu":"20m"}`),
			"pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
	})
}

// Services with external IPs are refused only if the plugin is enabled.
func TestDenyServiceExternalIPs(t *testing.T) {
	service := object("v1", "Service", "s", `,"spec":{"ports":[{"port":1}],"externalIPs":["1.2.3.4"]}`)
	inBubble(t, func(p plane) {
		p.refused("POST", ns+"/services", service, "Use of external IPs is denied by admission control")
	}, "DenyServiceExternalIPs")
	inBubble(t, func(p plane) { p.want(201, "POST", ns+"/services", service) })
}

// The webhook decides about the images of new Pods and of ephemeral containers. If it can't be
// reached, Pods are refused with this configuration.
func TestImagePolicyWebhook(t *testing.T) {
	var asked []string
	reviewer := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := imagepolicyv1alpha1.ImageReview{}
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&review))
		review.Status.Allowed = true
		for _, c := range review.Spec.Containers {
			asked = append(asked, c.Image)
			if strings.HasPrefix(c.Image, "evil") {
				review.Status.Allowed, review.Status.Reason = false, "not this one"
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer reviewer.Close()
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	ca := base64.StdEncoding.EncodeToString(pemOf(reviewer.Certificate().Raw))
	write(t, kubeconfig, fmt.Sprintf(`{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}],
		users: [{name: u, user: {}}], contexts: [{name: x, context: {cluster: c, user: u}}], current-context: x}`, reviewer.URL, ca))
	cfg := controlplane.Config{}
	cfg.Admission.Enable = []string{"ImagePolicyWebhook"}
	cfg.Admission.Plugins = map[string][]byte{"ImagePolicyWebhook": fmt.Appendf(nil,
		`{imagePolicy: {kubeConfigFile: %q, allowTTL: 50, denyTTL: 50, retryBackoff: 500, defaultAllow: false}}`,
		kubeconfig)}
	cp := startPlane(t, cfg)
	p := plane{t, &apitest.Plane{Client: &http.Client{Transport: cp.Transport()}}, nil}
	p.want(201, "POST", ns+"/pods", pod("good", "", ""))
	evil := strings.Replace(pod("evil", "", ""), "i:1", "evil:1", 1)
	p.refused("POST", ns+"/pods", evil, "image policy webhook backend denied one or more images: not this one")
	// CVE-2023-2727: containers added later are also checked.
	p.refused("PATCH", ns+"/pods/good/ephemeralcontainers",
		`{"spec":{"ephemeralContainers":[{"name":"e","image":"evil:2"}]}}`, "not this one",
		"Content-Type: application/strategic-merge-patch+json")
	if got := strings.Join(asked, " "); got != "i:1 evil:1 evil:2" && got != "i:1 evil:1 i:1 evil:2" {
		t.Errorf("requested %s", got)
	}
	reviewer.Close()
	p.refused("POST", ns+"/pods", strings.Replace(pod("late", "", ""), "i:1", "new:1", 1), `pods "late" is forbidden`)
}
