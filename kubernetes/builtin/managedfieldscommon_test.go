package builtin_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/builtin"
)

const usualMetadata = `"metadata":{"name":"one","namespace":"default","labels":{"app":"web","example.com/part":"of-it"},"annotations":{"note":"n"},"finalizers":["example.com/f"],` +
	`"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Site","name":"s","uid":"5b0f1bd4-8f4b-4b77-8f0d-0c0ffee0c0de","controller":true,"blockOwnerDeletion":true}]}`

const usualPod = `{"serviceAccountName":"web","securityContext":{"runAsNonRoot":true,"fsGroup":1000},"nodeSelector":{"disk":"fast"},
"tolerations":[{"key":"a","operator":"Exists","effect":"NoSchedule"}],
"affinity":{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"podAffinityTerm":{"topologyKey":"zone","labelSelector":{"matchLabels":{"app":"web"}}}}]}},
"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway","labelSelector":{"matchLabels":{"app":"web"}}}],
"volumes":[{"name":"config","configMap":{"name":"c"}},{"name":"keys","secret":{"secretName":"s"}},{"name":"data","persistentVolumeClaim":{"claimName":"d"}},
 {"name":"all","projected":{"sources":[{"serviceAccountToken":{"path":"token"}}]}}],
"initContainers":[{"name":"init","image":"example.com/init:v1","args":["--once"]}],
"containers":[{"name":"web","image":"example.com/web:v1","command":["/web"],"ports":[{"name":"http","containerPort":80},{"name":"dns","containerPort":53,"protocol":"UDP"}],
 "env":[{"name":"A","value":"1"},{"name":"B","valueFrom":{"secretKeyRef":{"name":"s","key":"b"}}},{"name":"C","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
 "envFrom":[{"configMapRef":{"name":"c"}}],"resources":{"requests":{"cpu":"100m","memory":"64Mi"},"limits":{"memory":"128Mi"}},
 "volumeMounts":[{"name":"config","mountPath":"/config"},{"name":"data","mountPath":"/data","readOnly":true}],
 "livenessProbe":{"httpGet":{"path":"/healthz","port":"http"},"periodSeconds":5},"readinessProbe":{"tcpSocket":{"port":80}},
 "securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}`

// TestCommonObjectsTakeFastPath applies objects as operators write them: a new object, the same
// again, another value, and the same by another manager. The StructManager must not need the
// library for any of them.
func TestCommonObjectsTakeFastPath(t *testing.T) {
	for name, test := range map[string]struct {
		kind                   schema.GroupVersionKind
		content, before, after string
	}{
		"ConfigMap": {schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
			`"data":{"color":"blue","size":"1"},"immutable":false`, `"blue"`, `"red"`},
		"Secret": {schema.GroupVersionKind{Version: "v1", Kind: "Secret"},
			`"type":"Opaque","data":{"key":"dmFsdWU="}`, `"dmFsdWU="`, `"b3RoZXI="`},
		"Service": {schema.GroupVersionKind{Version: "v1", Kind: "Service"},
			`"spec":{"type":"ClusterIP","selector":{"app":"web"},"ports":[{"name":"http","port":80,"targetPort":8080},{"name":"dns","port":53,"protocol":"UDP","targetPort":"dns"}]}`,
			`"selector":{"app":"web"}`, `"selector":{"app":"other","a":"b"}`},
		"ServiceAccount": {schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"},
			`"imagePullSecrets":[{"name":"s"}]`, `"note":"n"`, `"note":"m"`},
		"Pod": {schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, `"spec":` + usualPod, `web:v1`,
			`web:v2`},
		"Deployment": {schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
			`"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},` +
				`"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%","maxUnavailable":0}},"template":{"metadata":{"labels":{"app":"web"}},"spec":` + usualPod + `}}`,
			`"replicas":2`, `"replicas":3`},
		"StatefulSet": {schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"},
			`"spec":{"serviceName":"web","selector":{"matchLabels":{"app":"web"}},` +
				`"template":{"metadata":{"labels":{"app":"web"}},"spec":` + usualPod + `}}`, `web:v1`, `web:v2`},
		"Job": {schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"},
			`"spec":{"parallelism":2,"template":{"spec":` + usualPod + `}}`, `"parallelism":2`, `"parallelism":1`},
		"Role": {schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
			`"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]`,
			`"note":"n"`, `"note":"m"`},
		"RoleBinding": {schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
			`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},"subjects":[{"kind":"ServiceAccount","name":"s","namespace":"default"}]`, `"note":"n"`, `"note":"m"`},
		"Lease": {schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
			`"spec":{"holderIdentity":"a","leaseDurationSeconds":15}`, `"a"`, `"b"`},
		"Ingress": {schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
			`"spec":{"rules":[{"host":"a.example.com","http":{"paths":[{"path":"/","pathType":"Prefix","backend":{"service":{"name":"web","port":{"number":80}}}}]}}]}`, `"note":"n"`, `"note":"m"`},
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"apiVersion":"` + test.kind.GroupVersion().String() + `","kind":"` + test.kind.Kind + `",` +
				usualMetadata + `,` + test.content + `}`
			config := func(old, new string) *unstructured.Unstructured {
				u := &unstructured.Unstructured{}
				require.NoError(t, u.UnmarshalJSON([]byte(strings.Replace(body, old, new, 1))))
				return u
			}
			if !json.Valid([]byte(body)) || !strings.Contains(body, test.before) {
				t.Fatal("malformed test case: ", body)
			}
			c := &comparison{T: t, codec: codecOf(t, test.kind), kind: test.kind}
			c.begin()
			applied, ok := c.apply(0, c.empty(), config("", ""), "op", true)
			if !ok {
				t.Fatal("the library answered the first apply")
			}
			for _, next := range []*unstructured.Unstructured{config("", ""), config(test.before, test.after)} {
				stored, err := c.codec.Store(applied)
				require.NoError(t, err)
				live, err := c.codec.Load(stored)
				require.NoError(t, err)
				if applied, ok = c.apply(0, live, next, "op", false); !ok {
					t.Error("the library answered the apply of ", next)
				}
			}
			// Another manager applies the same fields, and then a field that the object lacks.
			if applied, ok = c.apply(0, applied, config(test.before, test.after), "other", true); !ok {
				t.Error("the library answered the apply of a second manager")
			}
			longer := config(test.before, test.after)
			longer.SetLabels(map[string]string{"new": "label"})
			if _, ok := c.apply(0, applied, longer, "third", true); ok {
				t.Error("the fast path answered an apply that adds a field")
			}
			hub, strict, err := c.codec.Decode([]byte(body), "application/json", test.kind.Version)
			if err != nil || strict != nil {
				t.Fatal(err, strict)
			}
			want := c.text(c.library.UpdateNoErrors(c.empty(), hub.DeepCopyObject(), "hand"))
			c.asked = false
			if got := c.text(c.manager.UpdateNoErrors(c.empty(), hub, "hand")); got != want || c.asked {
				t.Errorf("create (library used: %v):\n%s\nnot\n%s", c.asked, got, want)
			}
		})
	}
}

func codecOf(t testing.TB, kind schema.GroupVersionKind) *builtin.Codec {
	t.Helper()
	resources, err := builtin.Resources(builtin.Config{})
	require.NoError(t, err)
	for _, r := range resources {
		if r.GVK(kind.Version) == kind {
			return r.Codec.(*builtin.Codec)
		}
	}
	t.Fatal("no resource of kind ", kind)
	return nil
}

// TestManagerIsSafeForConcurrentUse applies different objects through one manager from several
// goroutines.
func TestManagerIsSafeForConcurrentUse(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	codec := codecOf(t, kind)
	manager, err := codec.FieldManager(kind.Version, "")
	require.NoError(t, err)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 10 {
				c := &comparison{T: t, codec: codec, kind: kind}
				config := func(image string) *unstructured.Unstructured {
					u := &unstructured.Unstructured{}
					body := `{"apiVersion":"apps/v1","kind":"Deployment",` + usualMetadata +
						`,"spec":{"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":` + usualPod + `}}}`
					assert.NoError(t, u.UnmarshalJSON([]byte(strings.ReplaceAll(body, "web:v1", image))))
					u.SetName(fmt.Sprint("d", i, "-", j))
					return u
				}
				live, err := manager.Apply(c.empty(), config("web:v1"), "op", true)
				if err != nil {
					t.Error(err)
					return
				}
				next, err := manager.Apply(live, config("web:v2"), "op", true)
				if err != nil {
					t.Error(err)
					return
				}
				if text := c.text(next); !strings.Contains(text, fmt.Sprintf(`"name":"d%d-%d"`, i, j)) ||
					strings.Contains(text, "web:v1") {
					t.Error("after two applies: ", text)
				}
			}
		})
	}
	all.Wait()
}
