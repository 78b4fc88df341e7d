package kubernetes_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/apitest"
	"kelson.dev/kubernetes/controlplane"
)

// A pod gets its node's topology labels when it is bound, or when it is created with a node.
func TestPodTopologyLabels(t *testing.T) {
	const zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
	node := fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":{%q:"a","other":"x"}}}`, zone)
	bind := `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`
	withLabels := strings.Replace(pod("made", "", `,"nodeName":"n"`), `{"name":"made"}`,
		fmt.Sprintf(`{"name":"made","labels":{%q:"lie",%q:"mine"}}`, zone, region), 1)
	inBubble(t, func(p plane) {
		p.want(201, "POST", "/api/v1/nodes", node)
		p.want(201, "POST", ns+"/pods", pod("p", "", ""))
		p.want(201, "POST", ns+"/pods/p/binding", bind)
		p.wantField(p.want(200, "GET", ns+"/pods/p", ""), "map["+zone+":a]", "metadata", "labels")
		p.wantField(p.want(201, "POST", ns+"/pods", withLabels), "map["+region+":mine "+zone+":a]", "metadata",
			"labels")
		p.wantField(p.want(201, "POST", ns+"/pods", pod("elsewhere", "", `,"nodeName":"unknown"`)), "<nil>", "metadata",
			"labels")
	})
	withoutPlugins(t, func(p plane) {
		p.want(201, "POST", "/api/v1/nodes", node)
		p.wantField(p.want(201, "POST", ns+"/pods", withLabels), "map["+region+":mine "+zone+":lie]", "metadata",
			"labels")
	}, "PodTopologyLabels")
}

// A pod can't be resized beyond its node, or use features that the node lacks.
func TestPodResizeValidator(t *testing.T) {
	node := func(name, labels string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q,"labels":{%s}},
			"status":{"allocatable":{"cpu":"1","memory":"1Gi","pods":"9"},"capacity":{"cpu":"1","memory":"1Gi","pods":"9"}}}`, name, labels)
	}
	const resources = `,"resources":{"requests":{"cpu":"100m","memory":"10Mi"}}`
	resize := func(cpu string) string {
		return `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"` + cpu + `"}}}]}}`
	}
	const strategic = "Content-Type: application/strategic-merge-patch+json"
	prepare := func(p plane) {
		p.want(201, "POST", "/api/v1/nodes", node("n", ""))
		p.want(201, "POST", "/api/v1/nodes", node("w", `"kubernetes.io/os":"windows"`))
		p.want(201, "POST", ns+"/pods", pod("a", resources, `,"nodeName":"n"`))
		p.want(201, "POST", ns+"/pods", pod("b", resources, `,"nodeName":"w"`))
		p.want(201, "POST", ns+"/pods", pod("free", resources, ""))
	}
	inBubble(t, func(p plane) {
		prepare(p)
		p.refused("PATCH", ns+"/pods/a/resize", resize("2"),
			"node didn't have enough allocatable resources: cpu, requested: 2000, allocatable: 1000", strategic)
		p.refused("PATCH", ns+"/pods/b/resize", resize("200m"),
			`pod resize is only supported on linux nodes, node "w" is "windows"`, strategic)
		p.want(200, "PATCH", ns+"/pods/a/resize", resize("200m"), strategic)
		p.want(200, "PATCH", ns+"/pods/free/resize", resize("2"), strategic)
	})
	withoutPlugins(t, func(p plane) {
		prepare(p)
		p.want(200, "PATCH", ns+"/pods/a/resize", resize("2"), strategic)
	}, "PodResizeValidator")
}

// A client that publishes the roots of a signer needs permission to attest for the signer.
func TestClusterTrustBundleAttest(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().AddDate(10, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	roots, err := json.Marshal(string(pemOf(der)))
	require.NoError(t, err)
	const bundles = "/apis/certificates.k8s.io/v1/clustertrustbundles"
	bundle := func(name, signer string) string {
		return object("certificates.k8s.io/v1", "ClusterTrustBundle", name,
			fmt.Sprintf(`,"spec":{%s"trustBundle":%s}`, signer, roots))
	}
	const signed = `"signerName":"example.com/s",`
	grant := func(p plane, verbs, resources string) {
		name := strings.ReplaceAll(resources, "/", ".")
		p.want(201, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles",
			object("rbac.authorization.k8s.io/v1", "ClusterRole", name,
				`,"rules":[{"apiGroups":["certificates.k8s.io"],"resources":["`+resources+`"],"verbs":["`+verbs+`"]}]`))
		p.want(201, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
			object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", name,
				`,"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"`+name+
					`"},"subjects":[{"kind":"User","name":"jo","apiGroup":"rbac.authorization.k8s.io"}]`))
	}
	inBubble(t, func(p plane) {
		grant(p, "create", "clustertrustbundles")
		jo := p.as("jo")
		status := jo.Want(t, 403, "POST", bundles, bundle("example.com:s:a", signed))
		message := fmt.Sprint(status["message"])
		assert.Contains(t, message, `user not permitted to attest for signerName "example.com/s"`)
		jo.Want(t, 201, "POST", bundles, bundle("own", "")) // without a signer
		grant(p, "attest", "signers")
		jo.Want(t, 201, "POST", bundles, bundle("example.com:s:a", signed))
	})
	withoutPlugins(t, func(p plane) {
		grant(p, "create", "clustertrustbundles")
		p.as("jo").Want(t, 201, "POST", bundles, bundle("example.com:s:a", signed))
	}, "ClusterTrustBundleAttest")
}

// A change of a pod may not need features that its node does not declare.
func TestNodeDeclaredFeatureValidator(t *testing.T) {
	const strategic = "Content-Type: application/strategic-merge-patch+json"
	const resources = `,"nodeName":"n","initContainers":[{"name":"i","image":"i","resources":{"requests":{"cpu":"100m"}}}]`
	resize := `{"spec":{"initContainers":[{"name":"i","resources":{"requests":{"cpu":"200m"}}}]}}`
	node := func(p plane, declares string) {
		p.want(201, "POST", "/api/v1/nodes", object("v1", "Node", "n",
			`,"status":{"declaredFeatures":[`+declares+`],"allocatable":{"cpu":"1"},"capacity":{"cpu":"1"}}`))
		p.want(201, "POST", ns+"/pods", pod("a", "", resources))
	}
	inBubble(t, func(p plane) {
		node(p, "")
		p.refused("PATCH", ns+"/pods/a/resize", resize,
			`pod update requires features InPlacePodVerticalScalingInitContainers which are not available on node "n"`,
			strategic)
	})
	inBubble(t, func(p plane) {
		node(p, `"InPlacePodVerticalScalingInitContainers"`)
		p.want(200, "PATCH", ns+"/pods/a/resize", resize, strategic)
	})
	withoutPlugins(t, func(p plane) {
		node(p, "")
		p.want(200, "PATCH", ns+"/pods/a/resize", resize, strategic)
	}, "NodeDeclaredFeatureValidator")
}

// AlwaysAdmit does nothing; AlwaysDeny runs last, and rejects all writes to the state.
func TestAlwaysAdmitAndAlwaysDeny(t *testing.T) {
	inBubble(t, func(p plane) {
		p.want(201, "POST", ns+"/configmaps", object("v1", "ConfigMap", "a", ""))
		p.want(404, "POST", "/api/v1/namespaces/nowhere/configmaps", object("v1", "ConfigMap", "a", ""))
	}, "AlwaysAdmit")
	st := storetest.New(t, store.Config{})
	for _, enable := range [][]string{nil, {"AlwaysDeny"}} {
		cp, err := controlplane.Start(t.Context(),
			controlplane.Config{Store: st, Controllers: controlplane.NoControllers{}, Admission: controlplane.Admission{Enable: enable}})
		require.NoError(t, err)
		p := plane{t, &apitest.Plane{Client: &http.Client{Transport: cp.Transport()}}, nil}
		if enable == nil {
			p.want(201, "POST", ns+"/configmaps", object("v1", "ConfigMap", "a", ""))
		} else {
			p.refused("POST", ns+"/configmaps", object("v1", "ConfigMap", "b", ""),
				"admission control is denying all modifications")
			p.refused("DELETE", ns+"/configmaps/a", "", "admission control is denying all modifications")
			p.want(200, "GET", ns+"/configmaps/a", "")
		}
		cp.Stop()
	}
}

// Objects can't be created in missing or terminating namespaces, and some namespaces can't be
// deleted.
func TestNamespaceLifecycle(t *testing.T) {
	configMap := object("v1", "ConfigMap", "a", "")
	prepare := func(p plane) {
		p.want(201, "POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"ends"}}`)
		p.want(201, "POST", "/api/v1/namespaces/ends/configmaps",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"stays","finalizers":["example.com/f"]}}`)
		p.want(200, "DELETE", "/api/v1/namespaces/ends", "")
	}
	inBubble(t, func(p plane) {
		p.want(201, "POST", ns+"/configmaps", configMap)
		p.want(404, "POST", "/api/v1/namespaces/nowhere/configmaps", configMap)
		p.refused("DELETE", "/api/v1/namespaces/default", "", "this namespace may not be deleted")
		p.refused("DELETE", "/api/v1/namespaces/kube-system", "", "this namespace may not be deleted")
		prepare(p)
		p.refused("POST", "/api/v1/namespaces/ends/configmaps", configMap,
			"unable to create new content in namespace ends because it is being terminated")
	})
	withoutPlugins(t, func(p plane) {
		prepare(p)
		p.want(201, "POST", "/api/v1/namespaces/ends/configmaps", configMap)
	}, "NamespaceLifecycle")
}
