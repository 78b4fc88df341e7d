package explore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/operator/client"
)

// Mutate installs an admission policy of another party before the operator creates the first object
// of a resource. The policy adds a label and an annotation to each object of the resource that any
// client creates or updates, and an annotation to the template of its Pods, if it has one. Service
// meshes and policy engines do this. An operator must not mind: if it replaces the objects because
// they are not as it has created them, it does so forever, because the policy adds them again.
//
// The policy is a MutatingAdmissionPolicy, because it needs no server. For the operator, it has the
// effect of a webhook. It stays until the end of the run. The state of a run does not contain what
// it adds.

// mutated is the label and annotation that it adds.
const mutated = "explore.kelson.dev/mutated"

// mutatedName is the name of the policy and of its binding.
const mutatedName = "explore.kelson.dev"

// labeledByServer are the resources whose objects get the labels of their template if they have
// none. A label of another party would prevent that, so the policy adds it only to objects that
// have others.
var labeledByServer = []string{"jobs.batch", "replicationcontrollers"}

// withTemplate are the resources whose objects have the template of Pods in spec.template.
var withTemplate = []string{"daemonsets.apps", "deployments.apps", "jobs.batch", "statefulsets.apps"}

// mutation returns the policy for a resource, and its binding.
func mutation(resource string) []*unstructured.Unstructured {
	plural, group, _ := strings.Cut(resource, ".")
	labels := fmt.Sprintf("labels: {%q: 'yes'}, ", mutated)
	both := labels + fmt.Sprintf("annotations: {%q: 'yes'}", mutated)
	expression := "Object{metadata: Object.metadata{" + both + "}}"
	if slices.Contains(withTemplate, resource) {
		expression = fmt.Sprintf("Object{metadata: Object.metadata{%s}, spec: Object.spec{template: "+
			"Object.spec.template{metadata: Object.spec.template.metadata{annotations: {%q: 'yes'}}}}}", both, mutated)
	}
	if slices.Contains(labeledByServer, resource) {
		expression = fmt.Sprintf("has(object.metadata.labels) && size(object.metadata.labels) > 0 ? %s : %s",
			expression, strings.Replace(expression, labels, "", 1))
	}
	object := func(kind string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "admissionregistration.k8s.io/v1",
			"kind": kind, "metadata": map[string]any{"name": mutatedName}, "spec": spec}}
	}
	return []*unstructured.Unstructured{
		object("MutatingAdmissionPolicy", map[string]any{
			"failurePolicy": "Fail", "reinvocationPolicy": "Never",
			"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
				"apiGroups": []any{group}, "apiVersions": []any{"*"}, "resources": []any{plural},
				"operations": []any{"CREATE", "UPDATE"}}}},
			"mutations": []any{map[string]any{"patchType": "ApplyConfiguration",
				"applyConfiguration": map[string]any{"expression": expression}}},
		}),
		object("MutatingAdmissionPolicyBinding", map[string]any{"policyName": mutatedName}),
	}
}

// installFirst installs the policy, if the step that comes next is the creation before which it is
// installed, and lets that step continue. It reports whether the trial can continue.
func (a *actions) installFirst() bool {
	s := a.trial.injector.mutating
	if s == nil {
		return true
	}
	a.trial.injector.mutating = nil
	refusals := a.users.refusals
	ok := a.users.try(func(ctx context.Context, c client.Client) error {
		for _, obj := range mutation(s.call.resource) {
			if err := c.Create(ctx, obj); err != nil {
				return err
			}
		}
		return nil
	})
	if a.users.refusals > refusals {
		a.result.failed = fmt.Errorf("the control plane refuses the policy for %s", s.call.resource)
		return false
	}
	s.held = false
	if a.trial.latest = s; ok && !a.trial.gate.isDead(s.process) {
		a.trial.injector.execute(s)
	}
	return ok
}

// withoutMutation returns a value of JSON types without what the policy has added.
func withoutMutation(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			inner, isMap := withoutMutation(member).(map[string]any)
			if _, has := inner[mutated]; !isMap || !has {
				continue
			}
			if delete(inner, mutated); len(inner) == 0 {
				delete(v, key)
			}
		}
	case []any:
		for _, element := range v {
			withoutMutation(element)
		}
	}
	return v
}
