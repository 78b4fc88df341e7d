package reconcile_test

import (
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"
)

// ownConditions is an object with conditions as knative's: pointers, and times in a struct.
type ownConditions struct {
	corev1.ConfigMap
	Status struct {
		Conditions []ownCondition `json:"conditions,omitempty"`
	} `json:"status"`
}

type ownCondition struct {
	Type               string
	Status             corev1.ConditionStatus
	Severity           string
	LastTransitionTime volatileTime
	Reason             *string
	ObservedGeneration int64
}

type volatileTime struct{ Inner metav1.Time }

// Conditions of types other than metav1.Condition, and on unstructured objects.
func TestConditionsOfOtherTypes(t *testing.T) {
	for name, obj := range map[string]client.Object{
		"deployment":   &appsv1.Deployment{},
		"pod":          &corev1.Pod{},
		"own":          &ownConditions{},
		"unstructured": &unstructured.Unstructured{Object: map[string]any{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				obj.SetGeneration(3)
				set := func(status metav1.ConditionStatus, reason string) bool {
					time.Sleep(time.Minute)
					return reconcile.SetCondition(obj,
						metav1.Condition{Type: "Ready", Status: status, Reason: reason, Message: "m"})
				}
				if _, ok := reconcile.GetCondition(obj, "Ready"); ok || reconcile.IsTrue(obj, "Ready") {
					t.Error("there is a condition")
				}
				if !set(metav1.ConditionFalse, "Starting") || set(metav1.ConditionFalse, "Starting") {
					t.Error("the first change, or the repetition, is reported wrongly")
				}
				first, ok := reconcile.GetCondition(obj, "Ready")
				if !ok || first.Status != metav1.ConditionFalse || first.Reason != "Starting" ||
					first.LastTransitionTime.IsZero() || reconcile.IsTrue(obj, "Ready") {
					t.Errorf("got %+v", first)
				}
				if !set(metav1.ConditionFalse, "Waiting") {
					t.Error("the change of the reason is not reported")
				}
				if c, _ := reconcile.GetCondition(obj,
					"Ready"); !c.LastTransitionTime.Equal(&first.LastTransitionTime) || c.Reason != "Waiting" {
					t.Errorf("the transition time moved: %+v", c)
				}
				if !set(metav1.ConditionTrue, "Done") || !reconcile.IsTrue(obj, "Ready") {
					t.Error("it is not true")
				}
				if c, _ := reconcile.GetCondition(obj,
					"Ready"); !first.LastTransitionTime.Before(&c.LastTransitionTime) {
					t.Errorf("the transition time did not move: %+v", c)
				}
				reconcile.SetCondition(obj, metav1.Condition{Type: "Other", Status: metav1.ConditionUnknown})
				if c, ok := reconcile.GetCondition(obj, "Other"); !ok || c.Status != metav1.ConditionUnknown ||
					!reconcile.IsTrue(obj, "Ready") {
					t.Errorf("with two: %+v", c)
				}
				obj.SetGeneration(4)
				_, hasGeneration := map[string]bool{"own": true, "unstructured": true, "pod": true}[name]
				if reconcile.IsTrue(obj, "Ready") == hasGeneration {
					t.Errorf("at another generation: %v", !hasGeneration)
				}
			})
		})
	}
	defer func() {
		if recover() == nil {
			t.Error("an object without conditions does not panic")
		}
	}()
	reconcile.SetCondition(&corev1.ConfigMap{}, metav1.Condition{Type: "Ready"})
}
