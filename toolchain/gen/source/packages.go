package source

// Package is a package that generated code uses.
type Package struct{ Path, Clause string }

// Packages are the packages that texts can name as $alias.
var Packages = map[string]Package{
	"bytes":   {"bytes", "bytes"},
	"context": {"context", "context"},
	"fmt":     {"fmt", "fmt"},
	"http":    {"net/http", "http"},
	"json":    {"encoding/json", "json"},
	"reflect": {"reflect", "reflect"},
	"sync":    {"sync", "sync"},
	"testing": {"testing", "testing"},
	"time":    {"time", "time"},
	"unsafe":  {"unsafe", "unsafe"},

	"metav1":         {"k8s.io/apimachinery/pkg/apis/meta/v1", "v1"},
	"unstructured":   {"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured", "unstructured"},
	"equality":       {"k8s.io/apimachinery/pkg/api/equality", "equality"},
	"resource":       {"k8s.io/apimachinery/pkg/api/resource", "resource"},
	"intstr":         {"k8s.io/apimachinery/pkg/util/intstr", "intstr"},
	"labels":         {"k8s.io/apimachinery/pkg/labels", "labels"},
	"runtime":        {"k8s.io/apimachinery/pkg/runtime", "runtime"},
	"schema":         {"k8s.io/apimachinery/pkg/runtime/schema", "schema"},
	"serializer":     {"k8s.io/apimachinery/pkg/runtime/serializer", "serializer"},
	"types_":         {"k8s.io/apimachinery/pkg/types", "types"},
	"utilruntime":    {"k8s.io/apimachinery/pkg/util/runtime", "runtime"},
	"watch":          {"k8s.io/apimachinery/pkg/watch", "watch"},
	"conversion":     {"k8s.io/apimachinery/pkg/conversion", "conversion"},
	"rest":           {"k8s.io/client-go/rest", "rest"},
	"discovery":      {"k8s.io/client-go/discovery", "discovery"},
	"cache":          {"k8s.io/client-go/tools/cache", "cache"},
	"gentype":        {"k8s.io/client-go/gentype", "gentype"},
	"managedfields":  {"k8s.io/apimachinery/pkg/util/managedfields", "managedfields"},
	"typed":          {"sigs.k8s.io/structured-merge-diff/v6/typed", "typed"},
	"acmetav1":       {"k8s.io/client-go/applyconfigurations/meta/v1", "v1"},
	"commonapi":      {"k8s.io/kube-openapi/pkg/common", "common"},
	"spec":           {"k8s.io/kube-openapi/pkg/validation/spec", "spec"},
	"randfill":       {"sigs.k8s.io/randfill", "randfill"},
	"operatorclient": {"kelson.dev/operator/client", "client"},
	"clienttesting":  {"k8s.io/client-go/testing", "testing"},
	"fakes":          {"kelson.dev/operator/clientset/fake", "fake"},
	"clientset":      {"kelson.dev/operator/clientset", "clientset"},
}
