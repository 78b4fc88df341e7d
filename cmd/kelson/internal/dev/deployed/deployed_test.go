package deployed

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"

	"kelson.dev/apiserver/services"
	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// project is an existing project: two Deployments with webhooks, certificates of cert-manager, a
// proxy container in the manager's pod, and a remote resource.
const project = `
-- config/default/kustomization.yaml --
namespace: shop-system
namePrefix: shop-
resources: [../crd, ../manager, ../webhook, ../gone, "https://example.com/other/crds.yaml", "github.com/example/other//config?ref=v1"]
patches:
- path: patch.yaml
-- config/default/patch.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller-manager, namespace: system}
spec:
  template:
    spec:
      containers:
      - name: manager
        args: [--config=/config.yaml, --leader-elect]
        volumeMounts: [{name: cert, mountPath: /tmp/k8s-webhook-server/serving-certs}]
      volumes: [{name: cert, secret: {secretName: serving}}]
-- config/crd/kustomization.yaml --
resources: [crd.yaml]
-- config/crd/crd.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: carts.shop.example.com
  annotations: {cert-manager.io/inject-ca-from: shop-system/shop-serving}
spec:
  group: shop.example.com
  names: {kind: Cart, plural: carts}
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: webhook, namespace: system, path: /convert}}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: orders.shop.example.com}
spec:
  group: shop.example.com
  names: {kind: Order, plural: orders}
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: shop-adapter, namespace: shop-system, path: /convert}}}}
-- config/manager/kustomization.yaml --
resources: [manager.yaml]
-- config/manager/manager.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller-manager, namespace: system}
spec:
  replicas: 2
  selector: {matchLabels: {app: manager}}
  template:
    metadata: {labels: {app: manager}}
    spec:
      serviceAccountName: outside
      nodeSelector: {disk: ssd}
      containers:
      - name: kube-rbac-proxy
        image: proxy
        volumeMounts: [{name: proxy, mountPath: /proxy}]
      - name: manager
        image: controller:latest
        command: [/usr/bin/shop, run]
        readinessProbe: {httpGet: {path: /readyz, port: 8081}, initialDelaySeconds: 30, periodSeconds: 10}
      volumes: [{name: proxy, secret: {secretName: proxy}}]
-- config/webhook/kustomization.yaml --
resources: [webhook.yaml]
-- config/webhook/webhook.yaml --
apiVersion: v1
kind: Service
metadata: {name: webhook, namespace: system}
spec: {ports: [{port: 443, targetPort: 9443}], selector: {app: manager}}
---
apiVersion: v1
kind: Service
metadata: {name: adapter, namespace: system}
spec: {ports: [{port: 443}], selector: {app: adapter}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: adapter, namespace: system}
spec:
  selector: {matchLabels: {app: adapter}}
  template: {metadata: {labels: {app: adapter}}, spec: {containers: [{name: manager, image: adapter}]}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hooks, annotations: {cert-manager.io/inject-ca-from: shop-system/shop-serving}}
webhooks: [{name: a.example.com, clientConfig: {service: {name: webhook, namespace: system, path: /a}}}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.metrics.example.com}
spec: {group: metrics.example.com, version: v1, groupPriorityMinimum: 1, versionPriority: 1, service: {name: shop-adapter, namespace: shop-system}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: all}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: outside, namespace: system}]
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: serving, namespace: system}
spec: {dnsNames: [shop-webhook.shop-system.svc], secretName: serving, issuerRef: {kind: Issuer, name: own}}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: own, namespace: system}
spec: {selfSigned: {}}
`

func write(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(text)).Files {
		name := filepath.Join(dir, f.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, f.Data, 0o644))
	}
	return dir
}

func find(t *testing.T, objects manifests.Objects, kind, name string) *unstructured.Unstructured {
	t.Helper()
	at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == kind && o.GetName() == name
	})
	if at < 0 {
		t.Fatalf("no %s %s", kind, name)
	}
	return objects[at]
}

func TestRead(t *testing.T) {
	source := &Source{Dir: write(t, project)}
	m, err := source.Read()
	require.NoError(t, err)
	if m.Manager.Name != "shop-controller-manager" || m.Manager.Namespace != "shop-system" ||
		*m.Manager.Spec.Replicas != 1 {
		t.Fatalf("the manager is %s/%s", m.Manager.Namespace, m.Manager.Name)
	}
	spec := m.Manager.Spec.Template.Spec
	if len(spec.Containers) != 1 || len(spec.Volumes) != 1 || spec.NodeName != NodeName || len(spec.NodeSelector) > 0 {
		t.Fatalf("pod: %+v", spec)
	}
	c := spec.Containers[0]
	if !slices.Equal(c.Command, []string{"/manager", "run"}) ||
		!slices.Equal(c.Args, []string{"--config=/config.yaml", "--leader-elect"}) || c.Image != image {
		t.Errorf("it runs %q %q of %s", c.Command, c.Args, c.Image)
	}
	if p := c.ReadinessProbe; p.InitialDelaySeconds != 0 || p.PeriodSeconds != 1 || p.FailureThreshold != 60 {
		t.Errorf("probe: %+v", p)
	}
	secret := find(t, m.Objects, "Secret", "serving")
	authority, _, _ := unstructured.NestedString(secret.Object, "data", "ca.crt")
	hooks, _, _ := unstructured.NestedSlice(find(t, m.Objects, "ValidatingWebhookConfiguration", "shop-hooks").Object,
		"webhooks")
	if got, _, _ := unstructured.NestedString(hooks[0].(map[string]any), "clientConfig", "caBundle"); got == "" ||
		got != authority {
		t.Errorf("the webhook trusts %q", got)
	}
	got, _, _ := unstructured.NestedString(m.Definitions[0].Object, "spec", "conversion", "webhook", "clientConfig",
		"caBundle")
	assert.Equalf(t, got, authority, "the conversion webhook trusts")
	if _, converts, _ := unstructured.NestedMap(find(t, m.Definitions, "CustomResourceDefinition",
		"orders.shop.example.com").Object, "spec", "conversion"); converts {
		t.Error("a definition has a conversion webhook that does not run")
	}
	find(t, m.Objects, "Namespace", "shop-system")
	find(t, m.Objects, "ServiceAccount", "outside")
	subjects, _, _ := unstructured.NestedSlice(find(t, m.Objects, "ClusterRoleBinding", "shop-all").Object, "subjects")
	if subjects[0].(map[string]any)["namespace"] != "shop-system" {
		t.Errorf("the binding names %v", subjects[0])
	}
	for _, obj := range m.Objects {
		if obj.GetKind() == "APIService" || obj.GroupVersionKind().Group == certManager {
			t.Errorf("%s %s is applied", obj.GetKind(), obj.GetName())
		}
	}
	notes := strings.Join(m.Notes, "\n")
	for _, part := range []string{"omitted https://example.com/other/crds.yaml", "omitted github.com/example/other",
		"lists ../gone: create it, or remove the line",
		"not run: Deployment shop-adapter", "container kube-rbac-proxy", "not registered: APIService",
		"not registered: the conversion webhook of orders.shop.example.com", "issued 1 certificates",
		"ServiceAccount outside"} {
		if !strings.Contains(notes, part) {
			t.Errorf("no note has %q:\n%s", part, notes)
		}
	}
	if !m.Defines("shop.example.com") || m.Defines("example.com") {
		t.Error("Defines")
	}
	// a second Read returns the same certificates
	again, err := source.Read()
	require.NoError(t, err)
	got, _, _ = unstructured.NestedString(find(t, again.Objects, "Secret", "serving").Object, "data",
		"ca.crt")
	assert.Equalf(t, got, authority, "the certificate changed")
	again.DisableWebhooks()
	if env := again.Manager.Spec.Template.Spec.Containers[0].Env; len(env) != 1 || env[0].Name != "ENABLE_WEBHOOKS" ||
		env[0].Value != "false" {
		t.Errorf("environment without webhooks: %v", env)
	}
	for _, obj := range again.Objects {
		if obj.GetKind() == "ValidatingWebhookConfiguration" {
			t.Error("a webhook is registered")
		}
	}
}

// A project whose config/default deploys no certificate gets one, for its own webhooks.
func TestCertify(t *testing.T) {
	const line = `{"error": "open /tmp/k8s-webhook-server/serving-certs/tls.crt: no such file or directory"}`
	folder := MissingCertificate(line)
	if folder != "/tmp/k8s-webhook-server/serving-certs" || MissingCertificate("open /tmp/a: no such file") != "" {
		t.Fatalf("the certificate is missing in %q", folder)
	}
	source := &Source{Dir: write(t, project)}
	m, err := source.Read()
	require.NoError(t, err)
	if source.Certify(m, folder) {
		t.Error("it replaces the volume of the Deployment")
	}
	const other = "/other/serving-certs"
	if !source.Certify(m, other) {
		t.Fatal("it issues no certificate")
	}
	m, err = source.Read()
	require.NoError(t, err)
	pod := m.Manager.Spec.Template.Spec
	mount, volume := pod.Containers[0].VolumeMounts[1], pod.Volumes[1]
	if mount.MountPath != other || mount.Name != volume.Name || volume.Secret.SecretName != ownCertificate {
		t.Errorf("the pod mounts %+v of %+v", mount, volume)
	}
	secret := find(t, m.Objects, "Secret", ownCertificate)
	authority, _, _ := unstructured.NestedString(secret.Object, "data", "ca.crt")
	hooks, _, _ := unstructured.NestedSlice(find(t, m.Objects, "ValidatingWebhookConfiguration", "shop-hooks").Object,
		"webhooks")
	if got, _, _ := unstructured.NestedString(hooks[0].(map[string]any), "clientConfig", "caBundle"); got == "" ||
		got != authority {
		t.Errorf("the webhook trusts %q", got)
	}
	got, _, _ := unstructured.NestedString(m.Definitions[0].Object, "spec", "conversion", "webhook", "clientConfig",
		"caBundle")
	assert.Equalf(t, got, authority, "the conversion webhook trusts")
	public, err := base64.StdEncoding.DecodeString(authority)
	require.NoError(t, err)
	certificates, err := cert.ParseCertsPEM(public)
	require.NoError(t, err)
	assert.NoError(t, certificates[0].VerifyHostname("shop-webhook.shop-system.svc"))
}

func TestReadWithoutDeployment(t *testing.T) {
	for name, text := range map[string]string{
		"no kustomization": "-- config/manager/kustomization.yaml --\nresources: []\n",
		"no Deployment":    "-- config/default/kustomization.yaml --\nresources: [a.yaml]\n-- config/default/a.yaml --\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n",
	} {
		_, err := (&Source{Dir: write(t, text)}).Read()
		assert.ErrorIsf(t, err, ErrNone, "%s", name)
	}
}

// An operator can be a DaemonSet, for example one that configures nodes, or a StatefulSet.
func TestReadOtherWorkloads(t *testing.T) {
	const (
		folders = `
-- config/default/kustomization.yaml --
resources: [../manager, other.yaml]
-- config/manager/kustomization.yaml --
resources: [manager.yaml]
-- config/manager/manager.yaml --
`
		template = `  selector: {matchLabels: {app: manager}}
  template:
    metadata: {labels: {app: manager}}
    spec:
      containers:
      - name: manager
        image: controller:latest
        env: [{name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        volumeMounts: [{name: state, mountPath: /state}]
`
		none  = "-- config/default/other.yaml --\n"
		other = none + `apiVersion: apps/v1
kind: Deployment
metadata: {name: cache, namespace: a}
spec: {selector: {matchLabels: {app: cache}}, template: {metadata: {labels: {app: cache}}, spec: {containers: [{name: cache, image: cache}]}}}
`
	)
	daemons := "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent, namespace: a}\nspec:\n" +
		"  updateStrategy: {type: OnDelete}\n" + template + "      volumes: [{name: state, hostPath: {path: /var/agent}}]\n"
	set := "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: agent, namespace: a}\nspec:\n  serviceName: x\n" +
		"  volumeClaimTemplates: [{metadata: {name: state}, spec: {accessModes: [ReadWriteOnce]}}]\n" + template
	for name, test := range map[string]struct{ text, note, not string }{
		"a DaemonSet":                    {daemons + none, "DaemonSet agent runs as a Deployment, with one pod", ""},
		"a StatefulSet":                  {set + none, "StatefulSet agent runs as a Deployment, with one pod", ""},
		"a DaemonSet and a Deployment":   {daemons + other, "DaemonSet agent runs as", "not run: Deployment cache"},
		"a StatefulSet and a Deployment": {set + other, "StatefulSet agent runs as", "not run: Deployment cache"},
	} {
		m, err := (&Source{Dir: write(t, folders+test.text)}).Read()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		spec := m.Manager.Spec.Template.Spec
		if m.Manager.Kind != "Deployment" || m.Manager.Name != "agent" || *m.Manager.Spec.Replicas != 1 ||
			spec.NodeName != NodeName || len(spec.Containers[0].Env) != 1 {
			t.Errorf("%s: runs %s %s: %+v", name, m.Manager.Kind, m.Manager.Name, spec)
		}
		if len(spec.Volumes) != 1 || spec.Volumes[0].Name != "state" ||
			strings.HasPrefix(name, "a StatefulSet") != (spec.Volumes[0].EmptyDir != nil) {
			t.Errorf("%s: volumes %+v", name, spec.Volumes)
		}
		notes := strings.Join(m.Notes, "\n")
		if !strings.Contains(notes, test.note) || !strings.Contains(notes, test.not) {
			t.Errorf("%s: %s", name, notes)
		}
	}
}

// The Makefile may deploy another kustomization than config/default.
func TestReadWhatTheMakefileDeploys(t *testing.T) {
	source := &Source{Dir: write(t, project+`
-- config/cluster/kustomization.yml --
nameSuffix: -cluster
resources: [../default]
-- Makefile --
deploy: manifests
	kubectl apply --server-side -k config/cluster
`)}
	m, err := source.Read()
	require.NoError(t, err)
	if m.Manager.Name != "shop-controller-manager-cluster" ||
		!slices.Contains(m.Notes, "adopted config/cluster, which make deploy applies (Makefile:2)") {
		t.Errorf("deploys %s: %q", m.Manager.Name, m.Notes)
	}
}

// On a machine with loopback addresses only, the control plane reaches the operator's Services
// without endpoints.
func TestReadLoopback(t *testing.T) {
	source := &Source{Loopback: true, Dir: write(t, project+`
-- config/cluster/kustomization.yaml --
resources: [../default, services.yaml]
-- config/cluster/services.yaml --
apiVersion: v1
kind: Service
metadata: {name: named}
spec: {ports: [{port: 8443, targetPort: https}], selector: {app: manager}}
---
apiVersion: v1
kind: Service
metadata: {name: several}
spec: {ports: [{name: a, port: 80}, {name: b, port: 81}], selector: {app: manager}}
---
apiVersion: v1
kind: Service
metadata: {name: own, annotations: {kelson.dev/url: "https://127.0.0.1:7"}}
spec: {ports: [{port: 443}], selector: {app: manager}}
---
apiVersion: v1
kind: Service
metadata: {name: other}
spec: {ports: [{port: 443}], selector: {app: other}}
-- Makefile --
deploy:
	kubectl apply -k config/cluster
`)}
	deployment := filepath.Join(source.Dir, "config", "manager", "manager.yaml")
	text, err := os.ReadFile(deployment)
	require.NoError(t, err)
	text = []byte(strings.Replace(string(text), "readinessProbe:", "ports: [{name: https, containerPort: 8444}]\n        readinessProbe:", 1))
	require.NoError(t, os.WriteFile(deployment, text, 0o644))
	m, err := source.Read()
	require.NoError(t, err)
	for name, want := range map[string]struct {
		url      string
		selector bool
	}{
		"shop-webhook": {"https://127.0.0.1:9443", false},
		"named":        {"https://127.0.0.1:8444", false},
		"several":      {"", false},
		"own":          {"https://127.0.0.1:7", false},
		"other":        {"", true},
	} {
		service := find(t, m.Objects, "Service", name)
		_, selector, _ := unstructured.NestedMap(service.Object, "spec", "selector")
		if got := service.GetAnnotations()[services.URL]; got != want.url || selector != want.selector {
			t.Errorf("Service %s: URL %q, has a selector: %v; want %q, %v", name, got, selector, want.url, want.selector)
		}
	}
	assert.Containsf(t, strings.Join(m.Notes, "\n"), "only loopback addresses", "notes")
}
