package client

import (
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// builtinPath is the import path prefix of Kubernetes' types: k8s.io/api/apps/v1.Deployment is the
// kind Deployment of apps/v1. These kinds need no scheme lookup, so a program links only the types
// that it uses. A scheme with all types links them all, and takes a large part of the memory of an
// idle operator.
const builtinPath = "k8s.io/api/"

// builtinGroups maps the first element of the path below builtinPath to the API group.
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

// reflect.Type → schema.GroupVersionKind; empty for types other than Kubernetes'
var builtinKinds sync.Map

// builtinKind returns the kind of a type of Kubernetes.
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
	// anywhere in the path: the package may be vendored
	_, path, ok := strings.Cut("/"+t.PkgPath(), "/"+builtinPath)
	dir, name, two := strings.Cut(path, "/")
	group, known := builtinGroups[dir]
	if !ok || !two || !known || !isVersion(name) || t.Name() == "" {
		return schema.GroupVersionKind{}
	}
	return schema.GroupVersionKind{Group: group, Version: name, Kind: t.Name()}
}

// isVersion reports whether a name is that of an API version.
func isVersion(name string) bool {
	return len(name) > 1 && name[0] == 'v' && name[1] >= '1' && name[1] <= '9' && !strings.Contains(name, "/")
}

// newScheme returns the scheme for a Config without one.
func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return s
}
