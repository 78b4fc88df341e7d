package why

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"

	"kelson.dev/lab/causes"
)

// maxOwners bounds a chain of owners, which may be a circle.
const maxOwners = 10

// ownersInTraces reads an object from the cluster in the kubeconfig and follows its owners until the
// traces involve one. chain says who owns what, from the object on. found is empty if there is no
// such owner, or no cluster that has the object: then err says why.
func ownersInTraces(ctx context.Context, namespace, kind, name string, find func(kind, namespace, name string) []causes.Object) (chain string, found []causes.Object, err error) {
	flags := genericclioptions.NewConfigFlags(true)
	if namespace == "" {
		if namespace, _, err = flags.ToRawKubeConfigLoader().Namespace(); err != nil {
			return "", nil, err
		}
	}
	obj, err := read(ctx, flags, namespace, kind, name)
	if err != nil {
		return "", nil, err
	}
	// The argument may have the short name of the kind, which the traces do not have.
	if found = find(obj.GetKind(), namespace, name); len(found) > 0 {
		return "", found, nil
	}
	chain = describe(obj.GetKind(), obj.GetName())
	for range maxOwners {
		owner := ownerOf(obj)
		if owner == nil {
			return chain, nil, nil
		}
		chain += ", owned by " + describe(owner.Kind, owner.Name)
		if found = find(owner.Kind, namespace, owner.Name); len(found) > 0 {
			return chain, found, nil
		}
		group, version, _ := strings.Cut(owner.APIVersion, "/")
		if version == "" {
			group, version = "", group
		}
		// KIND.VERSION.GROUP names a kind unambiguously.
		if obj, err = read(ctx, flags, namespace, owner.Kind+"."+version+"."+group, owner.Name); err != nil {
			return chain, nil, err
		}
	}
	return chain, nil, nil
}

func describe(kind, name string) string { return kind + " " + name }

// ownerOf returns the controller of an object, or else its first owner.
func ownerOf(obj *unstructured.Unstructured) *metav1.OwnerReference {
	if owner := metav1.GetControllerOf(obj); owner != nil {
		return owner
	}
	if owners := obj.GetOwnerReferences(); len(owners) > 0 {
		return &owners[0]
	}
	return nil
}

func read(_ context.Context, flags *genericclioptions.ConfigFlags, namespace, kind, name string) (*unstructured.Unstructured, error) {
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
