package kubernetes_test

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// plane is a control plane with an administrator's client that records warnings.
type policyPlane struct {
	*controlplane.ControlPlane
	client   *dynamic.DynamicClient
	warnings []string
}

func (p *policyPlane) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	p.warnings = append(p.warnings, text)
}

func startPolicy(t *testing.T, manifests ...string) *policyPlane {
	t.Helper()
	own := startPlane(t, controlplane.Config{})
	p := &policyPlane{ControlPlane: own}
	cfg := own.RESTConfig()
	cfg.WarningHandlerWithContext = p
	p.client = dynamic.NewForConfigOrDie(cfg)
	for _, m := range manifests {
		p.must(t, m)
	}
	return p
}

// objects returns the client of a kind, in the namespace default if the kind is namespaced.
func (p *policyPlane) objects(t *testing.T, u *unstructured.Unstructured) dynamic.ResourceInterface {
	t.Helper()
	kind := u.GroupVersionKind()
	res, ok := p.Registry().Current().ByKind(kind.GroupKind())
	if !ok {
		t.Fatalf("no kind %s", kind)
	}
	resource := p.client.Resource(schema.GroupVersionResource{Group: kind.Group, Version: kind.Version,
		Resource: res.Plural})
	if !res.Namespaced {
		return resource
	}
	if ns := u.GetNamespace(); ns != "" {
		return resource.Namespace(ns)
	}
	return resource.Namespace("default")
}

// create creates the objects of a manifest until one is refused, and returns the last result.
func (p *policyPlane) create(t *testing.T, manifest string) (made *unstructured.Unstructured, err error) {
	t.Helper()
	p.warnings = nil
	for doc := range strings.SplitSeq(manifest, "\n---\n") {
		u := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(doc), u))
		if made, err = p.objects(t, u).Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func (p *policyPlane) must(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	made, err := p.create(t, manifest)
	if err != nil {
		t.Fatalf("create: %v\n%s", err, manifest)
	}
	return made
}

// refuses checks that an object is refused with a message.
func (p *policyPlane) refuses(t *testing.T, manifest, want string) {
	t.Helper()
	_, err := p.create(t, manifest)
	assert.ErrorContainsf(t, err, want, "create")
}

// remove deletes the only object of a manifest.
func (p *policyPlane) remove(t *testing.T, manifest string) {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(manifest), u))
	require.NoError(t, p.objects(t, u).Delete(t.Context(), u.GetName(), metav1.DeleteOptions{}))
}

func field(u *unstructured.Unstructured, path string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(u.Object, strings.Split(path, ".")...)
	return v
}

func configMapPolicy(name, data string) string {
	return `{apiVersion: v1, kind: ConfigMap, metadata: {name: ` + name + `}, data: ` + data + `}`
}

const widgetsPolicy = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.shop.example}
spec:
  group: shop.example
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema: &schema
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer}
              replicas: {type: integer}
              tags: {type: array, items: {type: string}, x-kubernetes-list-type: set}
              parts: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name],
                items: {type: object, required: [name], properties: {name: {type: string}, count: {type: integer}}}}
          status: {type: object, properties: {replicas: {type: integer}}}
  - {name: v2, served: true, storage: false, schema: *schema}
`
