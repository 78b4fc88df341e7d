package builtin

import (
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// schemas is the managedfields.TypeConverter of all built-in kinds. It makes the schema of each kind
// when an object of the kind is first seen, from the definitions that the kind reaches and no others.
type schemas struct {
	made sync.Map // GVK → func() (managedfields.TypeConverter, error)
}

// sharedSchemas is one for the process: schemas never change.
var sharedSchemas = sync.OnceValue(func() *schemas { return &schemas{} })

func (t *schemas) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	converter, err := t.of(obj.GetObjectKind().GroupVersionKind())
	if err != nil {
		return nil, err
	}
	return converter.ObjectToTyped(obj, opts...)
}

// TypedToObject needs no schema.
func (t *schemas) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	return managedfields.NewDeducedTypeConverter().TypedToObject(value)
}

func (t *schemas) of(kind schema.GroupVersionKind) (managedfields.TypeConverter, error) {
	made, ok := t.made.Load(kind)
	if !ok {
		made, _ = t.made.LoadOrStore(kind, sync.OnceValues(func() (managedfields.TypeConverter, error) { return schemaOf(kind) }))
	}
	return made.(func() (managedfields.TypeConverter, error))()
}

// schemaOf makes the schema of one kind. A kind without a definition gives an empty converter, which answers
// as managedfields expects of kinds it does not know.
func schemaOf(kind schema.GroupVersionKind) (managedfields.TypeConverter, error) {
	models := map[string]*spec.Schema{}
	obj, err := Scheme().New(kind)
	if err == nil {
		if named, ok := obj.(interface{ OpenAPIModelName() string }); ok {
			collect(named.OpenAPIModelName(), models)
			if root := models[named.OpenAPIModelName()]; root != nil {
				marked := *root
				marked.Extensions = spec.Extensions{"x-kubernetes-group-version-kind": []any{
					map[string]any{"group": kind.Group, "version": kind.Version, "kind": kind.Kind},
				}}
				for k, v := range root.Extensions {
					marked.Extensions[k] = v
				}
				models[named.OpenAPIModelName()] = &marked
			}
		}
	}
	converter, err := managedfields.NewTypeConverter(models, false)
	if err != nil {
		return nil, fmt.Errorf("make schema of %s: %w", kind, err)
	}
	return converter, nil
}

// collect adds a definition and all that it refers to.
func collect(name string, models map[string]*spec.Schema) {
	if _, ok := models[name]; ok {
		return
	}
	def, ok := definitions()[name]
	if !ok {
		return
	}
	models[name] = &def.Schema
	for _, dep := range def.Dependencies {
		collect(dep, models)
	}
}

// definitions are those of every built-in type; all are made at once because that is how they are generated.
var definitions = sync.OnceValue(func() map[string]common.OpenAPIDefinition {
	return openapi.GetOpenAPIDefinitions(func(name string) spec.Ref {
		return spec.MustCreateRef("#/components/schemas/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1"))
	})
})
