package reconcile

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/client"
)

// ConditionAccepted is the type of the condition by which a typed reconciler's object says whether what it asks for is valid: False
// with ReasonInvalid after an InvalidError, True with ReasonAccepted when that has been mended. Objects that never were invalid do
// not have it. The type is that of the Gateway API, which uses it in this sense.
const ConditionAccepted = "Accepted"

// Reasons of ConditionAccepted, and of the event that goes with it.
const (
	ReasonInvalid  = "Invalid"
	ReasonAccepted = "Accepted"
)

// Conditions is the list of conditions of an object: its field Status.Conditions, of type []metav1.Condition. Nil if it has none.
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

// SetCondition puts a condition into the object, in place of the one of its type, and says whether that changed anything. The
// condition is observed at the object's generation. Its lastTransitionTime moves only when the status changes; it is now unless c
// says otherwise. An object without Status.Conditions is a programmer's error, and panics.
func SetCondition(obj client.Object, c metav1.Condition) bool {
	conditions := Conditions(obj)
	if conditions == nil {
		panic(fmt.Sprintf("reconcile: %T has no field Status.Conditions []metav1.Condition", obj))
	}
	c.ObservedGeneration = obj.GetGeneration()
	return meta.SetStatusCondition(conditions, c)
}

// GetCondition finds a condition of the object by its type.
func GetCondition(obj client.Object, conditionType string) (metav1.Condition, bool) {
	if conditions := Conditions(obj); conditions != nil {
		if c := meta.FindStatusCondition(*conditions, conditionType); c != nil {
			return *c, true
		}
	}
	return metav1.Condition{}, false
}

// IsTrue says whether the object has the condition with status True, observed at its present generation.
func IsTrue(obj client.Object, conditionType string) bool {
	c, ok := GetCondition(obj, conditionType)
	return ok && c.Status == metav1.ConditionTrue && c.ObservedGeneration >= obj.GetGeneration()
}

// statusField is the struct in the field Status of an object, or the zero Value.
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
