package client

import (
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// builtinPath is where the types of Kubernetes are: k8s.io/api/apps/v1.Deployment is Deployment of apps/v1. That need not be looked up in
// a scheme, and so a program has of these types only those that it uses: a scheme that knows all has them all in the program, and is itself
// a large part of the memory of an operator at rest.
const builtinPath = "k8s.io/api/"

// builtinGroups are the groups by the first element of the path below it.
var builtinGroups = map[string]string{
	"admission":             "admission.k8s.io",
	"admissionregistration": "admissionregistration.k8s.io",
	"apidiscovery":          "apidiscovery.k8s.io",
	"apiserverinternal":     "internal.apiserver.k8s.io",
	"apps":                  "apps",
	"authentication":        "authentication.k8s.io",
	"authorization":         "authorization.k8s.io",
	"autoscaling":           "autoscaling",
	"batch":                 "batch",
	"certificates":          "certificates.k8s.io",
	"coordination":          "coordination.k8s.io",
	"core":                  "",
	"discovery":             "discovery.k8s.io",
	"events":                "events.k8s.io",
	"extensions":            "extensions",
	"flowcontrol":           "flowcontrol.apiserver.k8s.io",
	"imagepolicy":           "imagepolicy.k8s.io",
	"lifecycle":             "lifecycle.k8s.io",
	"networking":            "networking.k8s.io",
	"node":                  "node.k8s.io",
	"policy":                "policy",
	"rbac":                  "rbac.authorization.k8s.io",
	"resource":              "resource.k8s.io",
	"scheduling":            "scheduling.k8s.io",
	"storage":               "storage.k8s.io",
	"storagemigration":      "storagemigration.k8s.io",
}

var builtinKinds sync.Map // reflect.Type → schema.GroupVersionKind; empty for types that are not of Kubernetes

// builtinKind is the kind of a type of Kubernetes.
func builtinKind(obj runtime.Object) (schema.GroupVersionKind, bool) {
	t := reflect.TypeOf(obj)
	if known, ok := builtinKinds.Load(t); ok {
		kind := known.(schema.GroupVersionKind)
		return kind, kind.Kind != ""
	}
	var kind schema.GroupVersionKind
	if t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct {
		kind = kindOfType(t.Elem())
	}
	builtinKinds.Store(t, kind)
	return kind, kind.Kind != ""
}

func kindOfType(t reflect.Type) schema.GroupVersionKind {
	_, path, ok := strings.Cut("/"+t.PkgPath(), "/"+builtinPath) // anywhere: it may be vendored
	dir, name, two := strings.Cut(path, "/")
	group, known := builtinGroups[dir]
	if !ok || !two || !known || !isVersion(name) || t.Name() == "" {
		return schema.GroupVersionKind{}
	}
	return schema.GroupVersionKind{Group: group, Version: name, Kind: t.Name()}
}

// isVersion says that a name is one of an API version.
func isVersion(name string) bool {
	return len(name) > 1 && name[0] == 'v' && name[1] >= '1' && name[1] <= '9' && !strings.Contains(name, "/")
}

// newScheme is a scheme for programs that bring none.
func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return s
}
