// Package lister generates listers with the same API as lister-gen: FooLister has List and, for
// kinds in namespaces, Foos(namespace), which has List and Get. They read informers of
// kelson.dev/operator.
package lister

import (
	"path"
	"strings"

	"kelson.dev/toolchain/gen/client"
	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/model"
)

// Generate generates the listers of groups: OUTPUT/listers/GROUP/VERSION/kind.go.
func Generate(groups []*model.ClientGroup, out client.Output) ([]client.File, error) {
	var files []client.File
	for _, g := range groups {
		for _, v := range g.Versions {
			for _, k := range v.Kinds {
				if !k.Has("list") || !k.Has("watch") {
					continue
				}
				f := source.New(out.Lister(v), v.Name)
				kind(f, k)
				data, err := f.Bytes(source.Options{Header: out.Header})
				if err != nil {
					return nil, err
				}
				files = append(files, client.File{Name: path.Join(f.Path(), strings.ToLower(k.Name)+".go"),
					Content: data})
			}
		}
	}
	return files, nil
}

func kind(f *source.File, k *model.ClientKind) {
	v := k.Version
	vars := source.Vars{
		"Kind": k.Name, "Plural": k.Plural, "resource": k.Resource, "group": v.Group.Name,
		"private": strings.ToLower(k.Name[:1]) + k.Name[1:],
		"T":       "*" + f.Use(v.Package.Path, v.Package.Name, v.Group.Package+v.Name) + "." + k.Name,
	}
	if !k.Namespaced {
		f.Expand(`// ${Kind}Lister reads $resource from an informer. The objects are shared and must not be changed.
type ${Kind}Lister interface {
	// List returns the objects that match the selector.
	List(selector $labels.Selector) ([]$T, error)
	// Get returns the object with the name.
	Get(name string) ($T, error)
}

// New${Kind}Lister returns a lister of an informer.
func New${Kind}Lister(i *$clientset.Informer) ${Kind}Lister {
	return $clientset.NewLister[$T](i, $schema.GroupResource{Group: "$group", Resource: "$resource"})
}
`, vars)
		return
	}
	f.Expand(`// ${Kind}Lister reads $resource from an informer. The objects are shared and must not be changed.
type ${Kind}Lister interface {
	// List returns the objects of all namespaces that match the selector.
	List(selector $labels.Selector) ([]$T, error)
	// $Plural returns the lister of a namespace.
	$Plural(namespace string) ${Kind}NamespaceLister
}

// ${Kind}NamespaceLister reads $resource of one namespace.
type ${Kind}NamespaceLister interface {
	// List returns the objects of the namespace that match the selector.
	List(selector $labels.Selector) ([]$T, error)
	// Get returns the object with the name.
	Get(name string) ($T, error)
}

type ${private}Lister struct { $clientset.Lister[$T] }

// New${Kind}Lister returns a lister of an informer.
func New${Kind}Lister(i *$clientset.Informer) ${Kind}Lister {
	return ${private}Lister{$clientset.NewLister[$T](i, $schema.GroupResource{Group: "$group", Resource: "$resource"})}
}

func (l ${private}Lister) $Plural(namespace string) ${Kind}NamespaceLister { return l.Namespaced(namespace) }
`, vars)
}
