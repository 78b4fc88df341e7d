// Package informer generates the factory of shared informers with the same API as informer-gen:
//
//	OUTPUT/informers/externalversions/factory.go                        NewSharedInformerFactory
//	OUTPUT/informers/externalversions/generic.go                        ForResource
//	OUTPUT/informers/externalversions/GROUP/{interface.go,VERSION/…}    factory.Group().V1().Foos().Informer(), .Lister()
//
// The informers are those of kelson.dev/operator, through kelson.dev/operator/clientset.
package informer

import (
	"fmt"
	"path"
	"strings"

	"kelson.dev/toolchain/gen/client"
	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/model"
)

// Generate generates the factory of groups.
func Generate(groups []*model.ClientGroup, out client.Output) ([]client.File, error) {
	g := &generator{out: out}
	g.factory(groups)
	g.generic(groups)
	for _, group := range groups {
		g.group(group)
		for _, v := range group.Versions {
			g.version(v)
			for _, k := range kinds(v) {
				g.kind(k)
			}
		}
	}
	return g.files, g.err
}

type generator struct {
	out   client.Output
	files []client.File
	err   error
}

func (g *generator) add(f *source.File, name string) {
	data, err := f.Bytes(source.Options{Header: g.out.Header})
	if err != nil && g.err == nil {
		g.err = err
	}
	g.files = append(g.files, client.File{Name: path.Join(f.Path(), name), Content: data})
}

// kinds returns the kinds that have informers.
func kinds(v *model.ClientVersion) []*model.ClientKind {
	var list []*model.ClientKind
	for _, k := range v.Kinds {
		if k.Has("list") && k.Has("watch") {
			list = append(list, k)
		}
	}
	return list
}

func (g *generator) groupPath(group *model.ClientGroup) string {
	return g.out.Informers() + "/" + group.Package
}

func (g *generator) factory(groups []*model.ClientGroup) {
	f := source.New(g.out.Informers(), "externalversions")
	var members, methods strings.Builder
	for _, group := range groups {
		pkg := f.Use(g.groupPath(group), group.Package, group.Package)
		fmt.Fprintf(&members, "%s() %s.Interface\n", group.GoName, pkg)
		fmt.Fprintf(&methods, "\n// %s is the informers of %s.\nfunc (f *factory) %s() %s.Interface { return %s.New(f.Factory) }\n",
			group.GoName, group.Name, group.GoName, pkg, pkg)
	}
	f.Expand(`// SharedInformerFactory has the informers of all kinds. An informer starts with Start, or at once if Start was called before.
type SharedInformerFactory interface {
	// Start runs the informers until the channel is closed; it does not block.
	Start(stopCh <-chan struct{})
	// StartWithContext runs the informers until the context ends; it does not block.
	StartWithContext(ctx $context.Context)
	// Shutdown stops the informers and waits until they have stopped.
	Shutdown()
	// WaitForCacheSync waits for the first lists of the informers, and returns which have synced.
	WaitForCacheSync(stopCh <-chan struct{}) map[$reflect.Type]bool
	// WaitForCacheSyncWithContext does the same; the error lists the informers that have not synced, with reasons.
	WaitForCacheSyncWithContext(ctx $context.Context) error
	// ForResource returns the informer of a resource.
	ForResource(resource $schema.GroupVersionResource) (GenericInformer, error)
	// InformerFor returns the informer of an object's kind.
	InformerFor(obj $operatorclient.Object) *$clientset.Informer

	$members}

// SharedInformerOption changes a factory.
type SharedInformerOption = $clientset.Option

// WithNamespace limits informers to a namespace.
func WithNamespace(namespace string) SharedInformerOption { return $clientset.WithNamespace(namespace) }

// WithTweakListOptions limits informers by the selectors that the function sets.
func WithTweakListOptions(tweak func(*$metav1.ListOptions)) SharedInformerOption { return $clientset.WithTweakListOptions(tweak) }

// WithTransform changes objects before they are stored.
func WithTransform(transform $cache.TransformFunc) SharedInformerOption { return $clientset.WithTransform(transform) }

type factory struct{ *$clientset.Factory }

// NewSharedInformerFactory returns a factory for all namespaces. If resync is positive, handlers get all objects again at this period.
func NewSharedInformerFactory(clients $versioned.Interface, resync $time.Duration) SharedInformerFactory {
	return NewSharedInformerFactoryWithOptions(clients, resync)
}

// NewSharedInformerFactoryWithOptions returns a factory.
func NewSharedInformerFactoryWithOptions(clients $versioned.Interface, resync $time.Duration, options ...SharedInformerOption) SharedInformerFactory {
	return &factory{$clientset.NewFactory(clients.Client(), resync, options...)}
}
$methods`, source.Vars{"members": members.String(), "methods": methods.String(), "versioned": f.Use(g.out.Clientset(), "versioned", "versioned")})
	g.add(f, "factory.go")
}

func (g *generator) generic(groups []*model.ClientGroup) {
	f := source.New(g.out.Informers(), "externalversions")
	var cases strings.Builder
	for _, group := range groups {
		for _, v := range group.Versions {
			for _, k := range kinds(v) {
				api := f.Use(v.Package.Path, v.Package.Name, group.Package+v.Name)
				fmt.Fprintf(&cases, "case $schema.GroupVersionResource{Group: %q, Version: %q, Resource: %q}:\nobj = &%s.%s{}\n", group.Name, v.Name, k.Resource, api, k.Name)
			}
		}
	}
	f.Expand(`// GenericInformer is an informer of a resource without its Go type.
type GenericInformer interface {
	Informer() *$clientset.Informer
	Lister() $clientset.Lister[$operatorclient.Object]
}

type genericInformer struct {
	informer *$clientset.Informer
	resource $schema.GroupResource
}

func (g genericInformer) Informer() *$clientset.Informer { return g.informer }

func (g genericInformer) Lister() $clientset.Lister[$operatorclient.Object] {
	return $clientset.NewLister[$operatorclient.Object](g.informer, g.resource)
}

// ForResource returns the informer of a resource.
func (f *factory) ForResource(resource $schema.GroupVersionResource) (GenericInformer, error) {
	var obj $operatorclient.Object
	switch resource {
`+cases.String()+`	default:
		return nil, $fmt.Errorf("no informer for %v", resource)
	}
	return genericInformer{f.InformerFor(obj), resource.GroupResource()}, nil
}
`, nil)
	g.add(f, "generic.go")
}

func (g *generator) group(group *model.ClientGroup) {
	f := source.New(g.groupPath(group), group.Package)
	var members, methods strings.Builder
	for _, v := range group.Versions {
		pkg := f.Use(g.groupPath(group)+"/"+v.Name, v.Name, v.Name)
		fmt.Fprintf(&members, "%s() %s.Interface\n", v.GoName, pkg)
		fmt.Fprintf(&methods, "\nfunc (g group) %s() %s.Interface { return %s.New(g.factory) }\n", v.GoName, pkg, pkg)
	}
	f.Expand(`// Interface has the versions of $name.
type Interface interface {
	$members}

type group struct { factory *$clientset.Factory }

// New returns the group of a factory.
func New(f *$clientset.Factory) Interface { return group{f} }
$methods`, source.Vars{"name": group.Name, "members": members.String(), "methods": methods.String()})
	g.add(f, "interface.go")
}

func (g *generator) version(v *model.ClientVersion) {
	f := source.New(g.groupPath(v.Group)+"/"+v.Name, v.Name)
	var members, methods strings.Builder
	for _, k := range kinds(v) {
		fmt.Fprintf(&members, "%s() %sInformer\n", k.Plural, k.Name)
		fmt.Fprintf(&methods, "\nfunc (v version) %s() %sInformer { return %sInformer{v.factory} }\n", k.Plural, k.Name,
			strings.ToLower(k.Name[:1])+k.Name[1:])
	}
	f.Expand(`// Interface has the informers of $group/$version.
type Interface interface {
	$members}

type version struct { factory *$clientset.Factory }

// New returns the version of a factory.
func New(f *$clientset.Factory) Interface { return version{f} }
$methods`, source.Vars{"group": v.Group.Name, "version": v.Name, "members": members.String(), "methods": methods.String()})
	g.add(f, "interface.go")
}

func (g *generator) kind(k *model.ClientKind) {
	v := k.Version
	f := source.New(g.groupPath(v.Group)+"/"+v.Name, v.Name)
	f.Expand(`// ${Kind}Informer is the informer and the lister of $resource.
type ${Kind}Informer interface {
	Informer() *$clientset.Informer
	Lister() $listers.${Kind}Lister
}

type ${private}Informer struct { factory *$clientset.Factory }

func (i ${private}Informer) Informer() *$clientset.Informer { return i.factory.InformerFor(&$api.$Kind{}) }

func (i ${private}Informer) Lister() $listers.${Kind}Lister { return $listers.New${Kind}Lister(i.Informer()) }
`, source.Vars{
		"Kind": k.Name, "resource": k.Resource, "private": strings.ToLower(k.Name[:1]) + k.Name[1:],
		"api":     f.Use(v.Package.Path, v.Package.Name, v.Group.Package+v.Name),
		"listers": f.Use(g.out.Lister(v), v.Name, "listers"),
	})
	g.add(f, strings.ToLower(k.Name)+".go")
}
