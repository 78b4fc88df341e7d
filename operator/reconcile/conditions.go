package reconcile

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/client"
)

// ConditionAccepted is the type of the condition that reports whether an object's spec is valid.
// Typed reconcilers set it to False with ReasonInvalid after an InvalidError, and to True with
// ReasonAccepted once the error is fixed. Objects that were never invalid don't have it. The type
// and its meaning are those of the Gateway API.
const ConditionAccepted = "Accepted"

// Reasons of ConditionAccepted and of the related event.
const (
	ReasonInvalid  = "Invalid"
	ReasonAccepted = "Accepted"
)

// Conditions returns a pointer to the field Status.Conditions of an object, of type
// []metav1.Condition; nil if there is no such field.
func Conditions(obj client.Object) *[]metav1.Condition {
	status := statusField(obj)
	if !status.IsValid() {
		return nil
	}
	field := status.FieldByName("Conditions")
	if !field.IsValid() || !field.CanAddr() {
		return nil
	}
	conditions, _ := field.Addr().Interface().(*[]metav1.Condition)
	return conditions
}

// SetCondition adds or replaces a condition of the object, and reports whether that changed
// anything. It sets the condition's observedGeneration to the object's generation. The
// lastTransitionTime changes only if the condition's status does; it is the current time unless c
// sets it. SetCondition panics if the object has no field Status.Conditions.
func SetCondition(obj client.Object, c metav1.Condition) bool {
	conditions := Conditions(obj)
	if conditions == nil {
		panic(fmt.Sprintf("reconcile: %T has no field Status.Conditions []metav1.Condition", obj))
	}
	c.ObservedGeneration = obj.GetGeneration()
	return meta.SetStatusCondition(conditions, c)
}

// GetCondition returns a condition of the object by its type.
func GetCondition(obj client.Object, conditionType string) (metav1.Condition, bool) {
	if conditions := Conditions(obj); conditions != nil {
		if c := meta.FindStatusCondition(*conditions, conditionType); c != nil {
			return *c, true
		}
	}
	return metav1.Condition{}, false
}

// IsTrue reports whether the object has the condition with status True, observed at the object's
// current generation.
func IsTrue(obj client.Object, conditionType string) bool {
	c, ok := GetCondition(obj, conditionType)
	return ok && c.Status == metav1.ConditionTrue && c.ObservedGeneration >= obj.GetGeneration()
}

// statusField returns the struct in the field Status of an object, or the zero Value.
func statusField(obj client.Object) reflect.Value {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return reflect.Value{}
	}
	status := v.Elem().FieldByName("Status")
	if status.IsValid() && status.Kind() == reflect.Pointer && !status.IsNil() {
		status = status.Elem()
	}
	if !status.IsValid() || status.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return status
}
