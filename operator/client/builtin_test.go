package client

import (
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// All kinds of Kubernetes are known without a scheme, with the names of client-go's scheme.
func TestBuiltinKinds(t *testing.T) {
	count := 0
	for kind, typ := range scheme.Scheme.AllKnownTypes() {
		obj, ok := reflect.New(typ).Interface().(runtime.Object)
		if !ok || kind.Version == runtime.APIVersionInternal || !strings.HasPrefix(typ.PkgPath(), builtinPath) {
			continue
		}
		count++
		if got, err := KindOf(obj, newScheme()); got != kind || err != nil {
			t.Errorf("%v has the kind %v: %v", kind, got, err)
		}
		if list, ok := obj.(ObjectList); ok && strings.HasSuffix(kind.Kind, listSuffix) && kind.Kind != listSuffix {
			item, err := ItemOf(list, newScheme())
			if err != nil || item.GetObjectKind().GroupVersionKind().Kind+listSuffix != kind.Kind {
				t.Errorf("item of %v: %T, %v", kind, item, err)
			}
		}
	}
	if count < 300 {
		t.Errorf("only %d kinds", count)
	}
	if kind, err := KindOf(&metav1.Status{}, newScheme()); kind != statusVersion || err != nil {
		t.Errorf("Status is %v, %v", kind, err)
	}
}

var statusVersion = schema.GroupVersionKind{Version: "v1", Kind: "Status"}

type stranger struct{ corev1.Pod }

// A type registered under another name has that name, if its TypeMeta has it; other types are
// unknown.
func TestOtherKinds(t *testing.T) {
	s := newScheme()
	other := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Pod"}
	s.AddKnownTypeWithName(other, &corev1.Pod{})
	obj := &corev1.Pod{}
	if kind, err := KindOf(obj, s); kind != corev1.SchemeGroupVersion.WithKind("Pod") || err != nil {
		t.Errorf("%v, %v", kind, err)
	}
	obj.SetGroupVersionKind(other)
	if kind, err := KindOf(obj, s); kind != other || err != nil {
		t.Errorf("%v, %v", kind, err)
	}
	obj.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Pod")) // not registered
	if kind, err := KindOf(obj, s); kind != corev1.SchemeGroupVersion.WithKind("Pod") || err != nil {
		t.Errorf("%v, %v", kind, err)
	}
	if kind, err := KindOf(&stranger{}, s); err == nil {
		t.Errorf("an unknown type has the kind %v", kind)
	}
}
