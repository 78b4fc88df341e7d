package kubernetes_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/internal/assert"
)

// Policies see the name of a Namespace as request.namespace, so that one about a single namespace
// also guards the Namespace itself.
func TestPoliciesOfANamespace(t *testing.T) {
	p := startPolicy(t, `
apiVersion: v1
kind: Namespace
metadata: {name: prod}
---
apiVersion: v1
kind: Namespace
metadata: {name: play}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: seen}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [namespaces, namespaces/status, namespaces/finalize]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{metadata: Object.metadata{annotations: {"seen": request.namespace}}}'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: seen}
spec: {policyName: seen}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: guard}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["UPDATE", "DELETE"], resources: ["*/*"]}]
  matchConditions: [{name: prod, expression: "request.namespace == 'prod'"}]
  validations: [{expression: "false", message: prod is guarded}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: guard}
spec: {policyName: guard, validationActions: [Deny]}
`)
	namespaces := p.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	ctx := t.Context()
	annotate := []byte(`{"metadata":{"annotations":{"a":"b"}}}`)
	for _, test := range []struct {
		name string
		call func(namespace string) (*unstructured.Unstructured, error)
	}{
		{"patch", func(ns string) (*unstructured.Unstructured, error) {
			return namespaces.Patch(ctx, ns, types.MergePatchType, annotate, metav1.PatchOptions{})
		}},
		{"patch status", func(ns string) (*unstructured.Unstructured, error) {
			return namespaces.Patch(ctx, ns, types.MergePatchType, annotate, metav1.PatchOptions{}, "status")
		}},
		{"update", func(ns string) (*unstructured.Unstructured, error) {
			obj, err := namespaces.Get(ctx, ns, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return namespaces.Update(ctx, obj, metav1.UpdateOptions{})
		}},
		{"finalize", func(ns string) (*unstructured.Unstructured, error) {
			obj, err := namespaces.Get(ctx, ns, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return namespaces.Update(ctx, obj, metav1.UpdateOptions{}, "finalize")
		}},
		{"delete", func(ns string) (*unstructured.Unstructured, error) {
			return nil, namespaces.Delete(ctx, ns, metav1.DeleteOptions{})
		}},
	} {
		if _, err := test.call("prod"); err == nil || !strings.Contains(err.Error(), "prod is guarded") {
			t.Errorf("%s of prod: %v, want the refusal of the policy", test.name, err)
		}
		obj, err := test.call("play")
		assert.NoErrorf(t, err, "%s of play", test.name)
		if obj != nil && obj.GetAnnotations()["seen"] != "play" {
			t.Errorf("%s of play: annotations %v, want request.namespace in them", test.name, obj.GetAnnotations())
		}
	}
}
