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
// sets it.
//
// The object is unstructured, or has a field Status.Conditions: a slice of metav1.Condition, or of
// a struct with string fields Type and Status. In such a struct, SetCondition also sets the fields
// Reason, Message, ObservedGeneration, LastTransitionTime and LastUpdateTime if they exist.
// SetCondition panics if the object has no such field.
func SetCondition(obj client.Object, c metav1.Condition) bool {
	conditions := Conditions(obj)
	c.ObservedGeneration = obj.GetGeneration()
	if conditions == nil {
		list := otherConditions(obj)
		if list == nil {
			panic(fmt.Sprintf("reconcile: %T has no field Status.Conditions with conditions", obj))
		}
		return setOther(list, c)
	}
	return meta.SetStatusCondition(conditions, c)
}

// GetCondition returns a condition of the object by its type. It accepts the same objects as
// SetCondition.
func GetCondition(obj client.Object, conditionType string) (metav1.Condition, bool) {
	if conditions := Conditions(obj); conditions != nil {
		if c := meta.FindStatusCondition(*conditions, conditionType); c != nil {
			return *c, true
		}
	} else if list := otherConditions(obj); list != nil {
		if c := list.find(conditionType); c != nil {
			return c.get(), true
		}
	}
	return metav1.Condition{}, false
}

// IsTrue reports whether the object has the condition with status True, observed at the object's
// current generation. It does not check the generation of conditions without an observedGeneration:
// conditions of a Go type without the field, and unstructured conditions without a value.
func IsTrue(obj client.Object, conditionType string) bool {
	if Conditions(obj) == nil {
		list := otherConditions(obj)
		if list == nil {
			return false
		}
		c := list.find(conditionType)
		return c != nil && c.get().Status == metav1.ConditionTrue &&
			(!c.observes() || c.get().ObservedGeneration >= obj.GetGeneration())
	}
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
