package reconcile_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/reconcile"
)

// SetCondition reports whether something changed, and moves the transition time only with the
// status. A condition of an older generation is not true.
func TestSetCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &budget{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
		set := func(status metav1.ConditionStatus, reason string) bool {
			time.Sleep(time.Minute)
			return reconcile.SetCondition(b, metav1.Condition{Type: "Ready", Status: status, Reason: reason})
		}
		steps := []struct {
			status     metav1.ConditionStatus
			reason     string
			generation int64
			changed    bool
			moved      bool // lastTransitionTime
		}{
			{metav1.ConditionFalse, "Starting", 1, true, true},
			{metav1.ConditionFalse, "Starting", 1, false, false},
			{metav1.ConditionFalse, "Waiting", 1, true, false},
			{metav1.ConditionTrue, "Ready", 1, true, true},
			{metav1.ConditionTrue, "Ready", 2, true, false},
		}
		for i, s := range steps {
			b.Generation = s.generation
			before, _ := reconcile.GetCondition(b, "Ready")
			changed := set(s.status, s.reason)
			assert.Equalf(t, changed, s.changed, "step %d: changed", i)
			c, _ := reconcile.GetCondition(b, "Ready")
			if moved := c.LastTransitionTime != before.LastTransitionTime; moved != s.moved ||
				c.ObservedGeneration != s.generation {
				t.Errorf("step %d: %+v after %+v", i, c, before)
			}
		}
		if len(b.Status.Conditions) != 1 || !reconcile.IsTrue(b, "Ready") || reconcile.IsTrue(b, "Other") {
			t.Errorf("the conditions are %+v", b.Status.Conditions)
		}
		if b.Generation++; reconcile.IsTrue(b, "Ready") {
			t.Error("a condition of an older generation is true")
		}
	})
}

// Objects without metav1 conditions have none, and setting one is a panic.
func TestNoConditions(t *testing.T) {
	if reconcile.Conditions(&corev1.ConfigMap{}) != nil || reconcile.Conditions(&corev1.Pod{}) != nil {
		t.Error("conditions of an object without the field")
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	reconcile.SetCondition(&corev1.ConfigMap{}, metav1.Condition{})
}

// Terminal and Invalid mark errors as terminal, also when they are wrapped, and keep the cause.
func TestErrors(t *testing.T) {
	base := errors.New("base")
	tests := []struct {
		name     string
		err      error
		text     string
		terminal bool
	}{
		{"terminal", reconcile.Terminal(base), "base", true},
		{"wrapped", fmt.Errorf("a: %w", reconcile.Terminal(base)), "a: base", true},
		{"invalid", reconcile.Invalid("spec.x", base), "spec.x: base", true},
		{"invalid, no path", reconcile.Invalid("", base), "base", true},
		{"other", base, "base", false},
		{"panic", &reconcile.PanicError{Value: base}, "panic: base", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.err.Error() != tt.text || reconcile.IsTerminal(tt.err) != tt.terminal || !errors.Is(tt.err, base) {
				t.Errorf("%v, terminal %v", tt.err, reconcile.IsTerminal(tt.err))
			}
		})
	}
	if reconcile.Terminal(nil) != nil || reconcile.IsTerminal(nil) {
		t.Error("a nil error is terminal")
	}
}
