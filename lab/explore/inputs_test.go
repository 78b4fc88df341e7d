package explore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/internal/assert"
	"kelson.dev/lab/explore"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// addressed creates a Secret for each Service with an address.
type addressed struct{ operator.Deps }

func (r *addressed) Reconcile(ctx context.Context, s *corev1.Service) (operator.Result, error) {
	if len(s.Status.LoadBalancer.Ingress) == 0 || s.DeletionTimestamp != nil {
		return operator.Result{}, nil
	}
	return operator.Result{}, ignoreExisting(r.Client.Create(ctx,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + "-address",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s,
				corev1.SchemeGroupVersion.WithKind("Service"))}}}))
}

// An input writes the status of an object as another controller does.
func TestInputOfAnotherController(t *testing.T) {
	service := func() *corev1.Service {
		s := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
		return s
	}
	created, status := service(), service()
	created.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}
	status.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	var managers []string
	s := explore.Scenario{
		Operator: explore.Parts(operator.Name("addresses"), operator.For(func(d operator.Deps) *addressed {
			return &addressed{d}
		}, operator.Owns[corev1.Secret]())),
		Inputs: []explore.Input{explore.Create(created),
			explore.ApplySubresource("status", status).As("system:serviceaccount:network:balancer")},
		Invariants: []explore.Invariant{{Name: "managers", Kind: "Service",
			Check: func(_ explore.View, c explore.Change) error {
				for _, f := range c.Object.GetManagedFields() {
					if f.Subresource == "status" {
						managers = append(managers, f.Manager)
					}
				}
				return nil
			}}},
	}
	got, steps := replayed(t, s, "no faults")
	if got != "" || !strings.Contains(steps, "input: apply status of Service default/web") ||
		!strings.Contains(steps, "request: create secrets default/web-address") {
		t.Errorf("%s\n%s", got, steps)
	}
	if !slices.Contains(managers, "balancer") {
		t.Errorf("managers of the status: %q, want balancer", managers)
	}
	if alarms := alarmsOf(t, s, explore.KillBefore, explore.KillAfter, explore.Lose, explore.Conflict, explore.Down,
		explore.Freeze, explore.Recreate); len(alarms) > 0 {
		t.Errorf("false alarms: %v", alarms)
	}
}

// A rule acts as another operator: the explored one waits until a Boat is ready and has a
// certificate.
func TestSimulatedOperator(t *testing.T) {
	s := boats(t, func(ctx context.Context, c client.Client, boat *unstructured.Unstructured) error {
		name, _, _ := unstructured.NestedString(boat.Object, "status", "certificate")
		if ready, _, _ := unstructured.NestedBool(boat.Object, "status", "ready"); !ready {
			return nil
		}
		certificate := configMap(name)
		if err := c.Get(ctx, client.KeyOf(certificate), certificate); err != nil {
			return err
		}
		return put(ctx, c, "sails", map[string]string{"with": certificate.Data["crew"]})
	})
	rule := explore.Simulated{Kind: "Boat.example.com", When: "has(object.spec.color)",
		Status: map[string]any{"ready": true, "certificate": "${object.metadata.name}-cert", "sails": "${1 + 1}"},
		Creates: []map[string]any{{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "${object.metadata.name}-cert"},
			"data":     map[string]any{"crew": "${object.spec.crew.captain}"}}}}
	s.Simulated = []explore.Simulated{rule}
	s.Retained = []string{"configmaps"}
	s.Invariants = []explore.Invariant{{Name: "number", Kind: "Boat",
		Rule: "object == null || !has(object.status) || object.status.sails == 2"},
		{Name: "content", Kind: "ConfigMap", Rule: `object == null || object.metadata.name != "sails" || object.data["with"] == "Ann"`}}
	got, steps := replayed(t, s, "no faults")
	if got != "" || !strings.Contains(steps, "the simulated operator of Boat.example.com acts on default/argo") ||
		!strings.Contains(steps, "request: create configmaps default/sails") {
		t.Errorf("%s\n%s", got, steps)
	}
	if repetition, err := explore.Repeat(t, s, "kill-after create configmaps default/sails #1", 3); err != nil ||
		repetition.Unequal > 0 {
		t.Errorf("%v, %v", repetition, err)
	}
	for name, test := range map[string]struct {
		change func(*explore.Simulated)
		want   string
	}{
		"nothing": {func(r *explore.Simulated) {
			r.Status, r.Creates = nil, nil
		}, "has neither Status nor Creates"},
		"a wrong rule": {func(r *explore.Simulated) { r.When = "object." }, "Syntax error"},
		"no condition": {func(r *explore.Simulated) { r.When = "1" }, "when is a value of type int, want bool"},
		"a wrong text": {func(r *explore.Simulated) {
			r.Status = map[string]any{"x": "${object"}
		}, "has an expression without its end"},
		"unknown kind": {func(r *explore.Simulated) { r.Kind = "Yacht" }, `serves no kind "Yacht", which is simulated`},
	} {
		other := rule
		test.change(&other)
		s.Simulated = []explore.Simulated{other}
		_, err := explore.Explore(t, s, explore.Options{Plans: 1})
		assert.ErrorContainsf(t, err, test.want, "%s", name)
	}
}

// The input Fields changes each field to valid and invalid values, and back.
func TestChangedFields(t *testing.T) {
	for name, correct := range map[string]bool{"faulty": false, "correct": true} {
		s := boats(t, func(ctx context.Context, c client.Client, boat *unstructured.Unstructured) error {
			captain, found, _ := unstructured.NestedString(boat.Object, "spec", "crew", "captain")
			if !found && !correct {
				return errors.New("no captain") // the bug: it ends
			}
			return put(ctx, c, "captain", map[string]string{"is": captain})
		})
		boat := &unstructured.Unstructured{Object: map[string]any{}}
		boat.SetAPIVersion("example.com/v1")
		boat.SetKind("Boat")
		boat.SetNamespace("default")
		boat.SetName("argo")
		s.Inputs = append(s.Inputs, explore.Fields(boat))
		s.Retained = []string{"configmaps"}
		report, err := explore.Explore(t, s, explore.Options{Plans: 1})
		if !correct {
			if len(report.Alarms) != 1 || report.Alarms[0].String() != "the operator ended (O3): no captain" ||
				!strings.Contains(strings.Join(report.Alarms[0].Steps, "\n"), "input: set spec") {
				t.Errorf("%s: %v, %v", name, report.Alarms, err)
			}
			continue
		}
		_, steps := replayed(t, s, "no faults")
		for _, want := range []string{"input: set spec.color=\"\"", "refused: Boat", "input: set spec.crew=null",
			"input: set spec.size=1"} {
			if !strings.Contains(steps, want) {
				t.Errorf("%s: steps without %q\n%s", name, want, steps)
			}
		}
		if err != nil || len(report.Alarms) > 0 {
			t.Errorf("%s: %v, %v", name, err, fmt.Sprint(report.Alarms))
		}
	}
}

// An input that is Together follows the one before at once: the operator acts after both.
func TestTogether(t *testing.T) {
	service := func(name string) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		s.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
		return s
	}
	s := explore.Scenario{
		Operator: explore.Parts(operator.Name("addresses"), operator.For(func(d operator.Deps) *addressed {
			return &addressed{d}
		})),
		Inputs: []explore.Input{explore.Create(service("web")), explore.Create(service("shop")).Together()},
	}
	got, steps := replayed(t, s, "no faults")
	_, between, _ := strings.Cut(steps, "input: create Service default/web")
	between, _, found := strings.Cut(between, "input: create Service default/shop")
	if got != "" || !found || strings.Contains(between, "event: added services") {
		t.Errorf("%s\n%s", got, steps)
	}
	s.Inputs[1] = explore.Create(service("shop"))
	_, steps = replayed(t, s, "no faults")
	_, between, _ = strings.Cut(steps, "input: create Service default/web")
	between, _, _ = strings.Cut(between, "input: create Service default/shop")
	assert.Containsf(t, between, "event: added services default/web", "without Together:\n%s", steps)
	s.Inputs[0] = s.Inputs[0].Together()
	_, err := explore.Explore(t, s, explore.Options{})
	assert.ErrorContainsf(t, err, "Together", "the first input is Together")
}
