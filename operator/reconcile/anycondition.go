package reconcile

import (
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/operator/client"
)

// conditionList is the list Status.Conditions of an object whose conditions are not of type
// metav1.Condition.
type conditionList interface {
	// find returns the condition of a type, or nil.
	find(conditionType string) condition
	// add appends a condition of a type.
	add(conditionType string) condition
}

// condition is an element of a conditionList.
type condition interface {
	get() metav1.Condition
	// set sets the fields that the condition's type has, and reports whether a field other than the
	// times changed. It sets the transition time only if moved.
	set(c metav1.Condition, moved bool) (changed bool)
	// observes reports whether the condition has an observedGeneration.
	observes() bool
}

// otherConditions returns the conditions of an unstructured object, or of one with its own type of
// conditions; nil if it has none.
func otherConditions(obj client.Object) conditionList {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return conditionMaps{u}
	}
	status := statusField(obj)
	if !status.IsValid() {
		return nil
	}
	list := status.FieldByName("Conditions")
	if !list.IsValid() || !list.CanSet() || list.Kind() != reflect.Slice {
		return nil
	}
	if e := list.Type().Elem(); e.Kind() != reflect.Struct || !hasString(e, "Type") || !hasString(e, "Status") {
		return nil
	}
	return conditionStructs{list}
}

func hasString(t reflect.Type, name string) bool {
	f, ok := t.FieldByName(name)
	return ok && f.Type.Kind() == reflect.String
}

// setOther is SetCondition for a conditionList.
func setOther(list conditionList, c metav1.Condition) (changed bool) {
	if c.LastTransitionTime.IsZero() {
		c.LastTransitionTime = metav1.Now()
	}
	in := list.find(c.Type)
	if in == nil {
		list.add(c.Type).set(c, true)
		return true
	}
	return in.set(c, in.get().Status != c.Status)
}

// conditionStructs is a slice of a struct type.
type conditionStructs struct{ list reflect.Value }

func (s conditionStructs) find(conditionType string) condition {
	for i := range s.list.Len() {
		if e := s.list.Index(i); e.FieldByName("Type").String() == conditionType {
			return conditionStruct{e}
		}
	}
	return nil
}

func (s conditionStructs) add(conditionType string) condition {
	s.list.Set(reflect.Append(s.list, reflect.Zero(s.list.Type().Elem())))
	e := s.list.Index(s.list.Len() - 1)
	e.FieldByName("Type").SetString(conditionType)
	return conditionStruct{e}
}

// conditionStruct is a struct with fields named as in metav1.Condition. Reason and Message may be
// pointers, and the time may be in a struct.
type conditionStruct struct{ v reflect.Value }

func (s conditionStruct) text(name string) string {
	f := s.v.FieldByName(name)
	if f.IsValid() && f.Kind() == reflect.Pointer {
		f = f.Elem()
	}
	if !f.IsValid() || f.Kind() != reflect.String {
		return ""
	}
	return f.String()
}

func (s conditionStruct) setText(name, text string) (changed bool) {
	f := s.v.FieldByName(name)
	if !f.IsValid() || s.text(name) == text {
		return false
	}
	switch {
	case f.Kind() == reflect.String:
		f.SetString(text)
	case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.String:
		into := reflect.New(f.Type().Elem())
		into.Elem().SetString(text)
		f.Set(into)
	default:
		return false
	}
	return true
}

// timeField returns a field of type metav1.Time, which may be in a struct, or invalid.
func (s conditionStruct) timeField(name string, create bool) reflect.Value {
	f := s.v.FieldByName(name)
	for range 3 { // such as *VolatileTime{Inner metav1.Time}
		switch {
		case !f.IsValid() || f.Type() == reflect.TypeFor[metav1.Time]():
			return f
		case f.Kind() == reflect.Pointer:
			if f.IsNil() && create {
				f.Set(reflect.New(f.Type().Elem()))
			}
			f = f.Elem()
		case f.Kind() == reflect.Struct && f.NumField() == 1:
			f = f.Field(0)
		default:
			return reflect.Value{}
		}
	}
	return reflect.Value{}
}

func (s conditionStruct) setTime(name string, t metav1.Time) {
	if f := s.timeField(name, true); f.IsValid() && f.CanSet() && f.Type() == reflect.TypeFor[metav1.Time]() {
		f.Set(reflect.ValueOf(t))
	}
}

func (s conditionStruct) generation() reflect.Value {
	if f := s.v.FieldByName("ObservedGeneration"); f.IsValid() && f.CanInt() {
		return f
	}
	return reflect.Value{}
}

func (s conditionStruct) observes() bool { return s.generation().IsValid() }

func (s conditionStruct) get() metav1.Condition {
	c := metav1.Condition{
		Type: s.text("Type"), Status: metav1.ConditionStatus(s.text("Status")), Reason: s.text("Reason"),
		Message: s.text("Message"),
	}
	if f := s.timeField("LastTransitionTime", false); f.IsValid() {
		c.LastTransitionTime, _ = f.Interface().(metav1.Time)
	}
	if f := s.generation(); f.IsValid() {
		c.ObservedGeneration = f.Int()
	}
	return c
}

func (s conditionStruct) set(c metav1.Condition, moved bool) (changed bool) {
	for name, text := range map[string]string{"Status": string(c.Status), "Reason": c.Reason, "Message": c.Message} {
		changed = s.setText(name, text) || changed
	}
	if f := s.generation(); f.IsValid() && f.Int() != c.ObservedGeneration {
		f.SetInt(c.ObservedGeneration)
		changed = true
	}
	if moved {
		s.setTime("LastTransitionTime", c.LastTransitionTime)
	}
	if changed {
		s.setTime("LastUpdateTime", metav1.Now())
	}
	return changed
}

// conditionMaps is the list status.conditions of an unstructured object.
type conditionMaps struct{ obj *unstructured.Unstructured }

func (m conditionMaps) list() []any {
	list, _, _ := unstructured.NestedFieldNoCopy(m.obj.Object, "status", "conditions")
	conditions, _ := list.([]any)
	return conditions
}

func (m conditionMaps) find(conditionType string) condition {
	for _, e := range m.list() {
		if c, ok := e.(map[string]any); ok && c["type"] == conditionType {
			return conditionMap(c)
		}
	}
	return nil
}

func (m conditionMaps) add(conditionType string) condition {
	c := map[string]any{"type": conditionType}
	status, ok := m.obj.Object["status"].(map[string]any)
	if !ok {
		status = map[string]any{}
		if m.obj.Object == nil {
			m.obj.Object = map[string]any{}
		}
		m.obj.Object["status"] = status
	}
	list := m.list()
	status["conditions"] = append(list[:len(list):len(list)], c)
	return conditionMap(c)
}

type conditionMap map[string]any

func (m conditionMap) observes() bool { return m["observedGeneration"] != nil }

func (m conditionMap) get() metav1.Condition {
	text := func(name string) string { s, _ := m[name].(string); return s }
	c := metav1.Condition{Type: text("type"), Status: metav1.ConditionStatus(text("status")), Reason: text("reason"),
		Message: text("message")}
	if t, err := time.Parse(time.RFC3339, text("lastTransitionTime")); err == nil {
		c.LastTransitionTime = metav1.NewTime(t)
	}
	switch n := m["observedGeneration"].(type) {
	case int64:
		c.ObservedGeneration = n
	case float64:
		c.ObservedGeneration = int64(n)
	}
	return c
}

func (m conditionMap) set(c metav1.Condition, moved bool) (changed bool) {
	was := m.get()
	for name, value := range map[string]any{"status": string(c.Status), "reason": c.Reason, "message": c.Message} {
		m[name] = value
	}
	if c.ObservedGeneration != 0 {
		m["observedGeneration"] = c.ObservedGeneration
	}
	if moved {
		m["lastTransitionTime"] = c.LastTransitionTime.UTC().Format(time.RFC3339)
	}
	return was.Status != c.Status || was.Reason != c.Reason || was.Message != c.Message ||
		was.ObservedGeneration != c.ObservedGeneration
}

// takesConditions reports whether the library may add its own condition to an object. An
// unstructured object takes one if it has others: its schema may have no conditions.
func takesConditions(obj client.Object) bool {
	if Conditions(obj) != nil {
		return true
	}
	list := otherConditions(obj)
	if m, ok := list.(conditionMaps); ok {
		return len(m.list()) > 0
	}
	return list != nil
}
