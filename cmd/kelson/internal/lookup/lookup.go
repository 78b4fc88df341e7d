// Package lookup reads objects that the arguments of commands name.
package lookup

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"
)

// Object reads an object. kind is as for kubectl: in any case, a plural, a short name, or
// KIND.VERSION.GROUP.
func Object(flags *genericclioptions.ConfigFlags, namespace, kind, name string) (*unstructured.Unstructured, error) {
	infos, err := resource.NewBuilder(flags).Unstructured().NamespaceParam(namespace).DefaultNamespace().
		ResourceTypeOrNameArgs(false, kind, name).Latest().Do().Infos()
	if err != nil {
		return nil, err
	}
	obj, ok := infos[0].Object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%s/%s is not an object", kind, name)
	}
	return obj, nil
}
