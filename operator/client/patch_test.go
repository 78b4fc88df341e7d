package client_test

import (
	"encoding/json"
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
)

// A merge patch has the changed fields, without the resource version unless it is locked.
func TestDifferences(t *testing.T) {
	from := pod("web", "a", "1", "b", "2")
	from.ResourceVersion = "7"
	from.Spec.Containers = []corev1.Container{{Name: "one", Image: "x"}, {Name: "two", Image: "y"}}
	change := func(p *corev1.Pod) {
		delete(p.Labels, "a")
		p.Labels["c"] = "3"
		p.Spec.Containers[1].Image = "z"
		p.ResourceVersion = "9"
	}
	for name, tt := range map[string]struct {
		patch func(client.Object, ...client.PatchOption) client.Patch
		opts  []client.PatchOption
		edit  func(*corev1.Pod)
		want  string
	}{
		"merge": {client.MergeFrom, nil, change,
			`{"metadata":{"labels":{"a":null,"c":"3"}},"spec":{"containers":[{"name":"one","image":"x","resources":{}},{"name":"two","image":"z","resources":{}}]}}`},
		"merge, locked": {client.MergeFrom, []client.PatchOption{client.OptimisticLock}, change,
			`{"metadata":{"labels":{"a":null,"c":"3"},"resourceVersion":"7"},"spec":{"containers":[{"name":"one","image":"x","resources":{}},{"name":"two","image":"z","resources":{}}]}}`},
		"nothing": {client.MergeFrom, nil, func(p *corev1.Pod) { p.ResourceVersion = "8" }, `{}`},
		"nothing, locked": {client.MergeFrom, []client.PatchOption{client.OptimisticLock}, func(*corev1.Pod) {},
			`{"metadata":{"resourceVersion":"7"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			obj := from.DeepCopy()
			patch := tt.patch(obj, tt.opts...) // obj itself is changed afterwards
			tt.edit(obj)
			data, err := patch.Data(obj)
			must(t, err)
			equalJSON(t, data, tt.want)
		})
	}
	if _, err := client.MergeFrom(pod("a")).Data(dynamic(podKind, "a")); err == nil {
		t.Error("no error for objects of two types")
	}
}

// A JSON patch keeps null values and omits members that an operation does not have.
func TestJSONPatch(t *testing.T) {
	data, err := client.JSONPatch(
		client.Operation{Op: "add", Path: "/a", Value: nil},
		client.Operation{Op: "remove", Path: "/b"},
		client.Operation{Op: "move", From: "/c", Path: "/d"},
	).Data(nil)
	must(t, err)
	equalJSON(t, data, `[{"op":"add","path":"/a","value":null},{"op":"remove","path":"/b"},{"op":"move","from":"/c","path":"/d"}]`)
}

// An apply contains only the fields that its author has set.
func TestApplyDocument(t *testing.T) {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	deployment.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "someone"}}
	deployment.Spec.Template.Labels = map[string]string{"app": "web"}
	deployment.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "tmp",
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	withStatus := pod("web")
	withStatus.Status.Phase = corev1.PodRunning
	custom := dynamic(widget, "w")
	custom.Object["spec"] = map[string]any{"gone": nil, "list": []any{map[string]any{"x": nil, "y": int64(0)}}}
	for name, tt := range map[string]struct {
		obj  client.Object
		want string
	}{
		"deployment": {deployment, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"default"},
			"spec":{"strategy":{},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"volumes":[{"name":"tmp","emptyDir":{}}]}}}}`},
		"empty status": {service, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{}}`},
		"status":       {withStatus, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default"},"spec":{},"status":{"phase":"Running"}}`},
		"dynamic":      {custom, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"default"},"spec":{"list":[{"y":0}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			before := tt.obj.DeepCopyObject()
			data, err := client.ApplyData(tt.obj)
			must(t, err)
			var got map[string]any
			must(t, json.Unmarshal(data, &got))
			// Some versions of the types omit it and others write it; it is an empty map in both
			// cases.
			if spec, ok := got["spec"].(map[string]any); ok && spec["containers"] == nil {
				delete(spec, "containers")
			}
			data, err = json.Marshal(got)
			must(t, err)
			equalJSON(t, data, tt.want)
			if !reflect.DeepEqual(before, tt.obj) {
				t.Error("the object was changed")
			}
		})
	}
}

// A merge patch applied to the old document results in the new one.
func FuzzMergeFrom(f *testing.F) {
	f.Add(`{"a":{"b":1},"c":[1,2]}`, `{"a":{"d":null},"c":[2]}`)
	f.Add(`{"a":null}`, `{"a":{}}`)
	f.Add(`{"a":{}}`, `{}`)
	f.Fuzz(func(t *testing.T, from, to string) {
		var a, b map[string]any
		if utiljson.Unmarshal([]byte(from), &a) != nil || utiljson.Unmarshal([]byte(to), &b) != nil || a == nil ||
			b == nil {
			t.Skip()
		}
		client.DropNulls(a) // objects contain no nulls: null means "not set"
		client.DropNulls(b)
		patch := client.DiffMaps(a, b)
		if got := apply(a, patch); !reflect.DeepEqual(got, any(b)) {
			t.Errorf("%v with %v is %v, want %v", a, patch, got, b)
		}
	})
}

// apply implements RFC 7386, section 2, literally.
func apply(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	for name, value := range p {
		if value == nil {
			delete(t, name)
		} else {
			t[name] = apply(t[name], value)
		}
	}
	return t
}

func equalJSON(t *testing.T, got []byte, want string) {
	t.Helper()
	var g, w any
	must(t, json.Unmarshal(got, &g))
	must(t, json.Unmarshal([]byte(want), &w))
	assert.Deepf(t, g, w, "got  %s\nwant %s", got, want)
}

// Cutting a member out of an encoded document equals removing it from the decoded one.
func TestApplyDocumentIsCut(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind":"A","status":{"a":{}},"z":1}`:                  `{"kind":"A","z":1}`,
		`{"kind":"A","status":{}}`:                              `{"kind":"A"}`,
		`{"kind":"A","status":{"a":[]}}`:                        `{"kind":"A","status":{"a":[]}}`,
		`{"kind":"A","spec":{"status":{}}}`:                     `{"kind":"A","spec":{"status":{}}}`,
		`{"status":{},"kind":"A"}`:                              `{"kind":"A"}`,
		`{"kind":"A","data":{"x":"null"}}`:                      `{"kind":"A","data":{"x":"null"}}`,
		`{"kind":"A","data":{"x":null,"managedFields":"here"}}`: `{"kind":"A","data":{"managedFields":"here"}}`,
		`{"kind":"A","metadata":{"managedFields":[]}}`:          `{"kind":"A","metadata":{}}`,
	} {
		data, err := client.ApplyDocument{Encoded: []byte(text)}.Data(nil)
		must(t, err)
		equalJSON(t, data, want)
	}
}

// An optimistic lock without a resourceVersion is an error, instead of a patch without a
// precondition.
func TestOptimisticLockNeedsAVersion(t *testing.T) {
	p := &corev1.Pod{}
	data, err := client.MergeFrom(p, client.OptimisticLock).Data(p)
	assert.ErrorIsf(t, err, client.ErrNoVersion, "%s", data)
}
