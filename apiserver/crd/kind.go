package crd

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilversion "k8s.io/apimachinery/pkg/version"
	upstream "k8s.io/apiserver/pkg/registry/rest"

	"kelson.dev/apiserver/fastpath/managedfields"
	"kelson.dev/apiserver/resource"
)

// kind is one served definition. It is immutable. Lazily compiled parts are in compiled, which
// successive kinds of the same spec share.
type kind struct {
	*compiled
	definition *apiextensionsv1.CustomResourceDefinition
	revision   uint64 // of definition
	created    uint64 // the revision that created the definition
	resource   *resource.Resource
}

// compiled is everything that depends only on a definition's spec and accepted names.
type compiled struct {
	definition *apiextensionsv1.CustomResourceDefinition // only its spec and accepted names matter
	group      string
	name       string // kind
	storage    string // version
	namespaced bool
	versions   map[string]*version
	// since is the revision after which objects were certainly stored under this spec.
	since uint64

	// convertor returns the library's converter, which only webhooks need.
	convertor func() (runtime.ObjectConvertor, error)
	webhook   bool
	// noFastPaths is Config.NoFastPaths.
	noFastPaths bool
	models      *models
	// fields caches the field sets in the managedFields of the kind's objects.
	fields *managedfields.Cache
}

// newKind returns the kind of a definition at a revision. It reuses the compiled part of old if the
// spec is the same.
func newKind(d *Definitions, r *definitionRevision, old *kind) *kind {
	k := &kind{definition: r.definition, revision: r.revision, created: r.created}
	if old != nil && sameSpec(old.definition, r.definition) {
		k.compiled = old.compiled
	} else {
		k.compiled = r.compile(d)
	}
	k.resource = k.newResource(d)
	return k
}

func sameSpec(a, b *apiextensionsv1.CustomResourceDefinition) bool {
	return a.UID == b.UID && a.Generation == b.Generation &&
		equality.Semantic.DeepEqual(a.Status.AcceptedNames, b.Status.AcceptedNames)
}

// compile compiles the spec of a definition that was stored at revision. Of d, it uses only the
// clients of conversion webhooks and noFastPaths. A nil d has neither.
func compile(d *Definitions, definition *apiextensionsv1.CustomResourceDefinition, revision uint64) *compiled {
	c := &compiled{
		definition:  definition,
		group:       definition.Spec.Group,
		name:        definition.Status.AcceptedNames.Kind,
		namespaced:  definition.Spec.Scope == apiextensionsv1.NamespaceScoped,
		versions:    make(map[string]*version, len(definition.Spec.Versions)),
		since:       revision,
		fields:      &managedfields.Cache{},
		noFastPaths: d != nil && d.noFastPaths,
		webhook: definition.Spec.Conversion != nil &&
			definition.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter,
	}
	for i := range definition.Spec.Versions {
		spec := &definition.Spec.Versions[i]
		c.versions[spec.Name] = newVersion(c, spec)
		if spec.Storage {
			c.storage = spec.Name
		}
	}
	c.convertor = sync.OnceValues(func() (runtime.ObjectConvertor, error) { // for webhooks only
		converters, err := d.converters()
		if err != nil {
			return nil, fmt.Errorf("make conversion webhook clients: %w", err)
		}
		_, unsafe, err := converters.NewConverter(definition)
		return unsafe, err
	})
	c.models = newModels(c)
	return c
}

// gvk returns the kind in a version.
func (c *compiled) gvk(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: c.group, Version: version, Kind: c.name}
}

// preserves reports whether unknown fields are kept everywhere, as definitions of v1beta1 could
// request.
func (c *compiled) preserves() bool { return c.definition.Spec.PreserveUnknownFields }

// version returns a version, served or not.
func (c *compiled) version(name string) (*version, error) {
	if v, ok := c.versions[name]; ok {
		return v, nil
	}
	return nil, fmt.Errorf("%s in version %q: %w", c.name, name, ErrNoVersion)
}

// newResource returns the Resource of the kind. Its field In holds a Resource for each further
// version, because hubs are in the version of the request.
func (k *kind) newResource(d *Definitions) *resource.Resource {
	res := k.resourceIn(k.storage)
	res.Guard = d.guard(k, k.storage)
	if len(k.versions) == 1 {
		return res
	}
	res.In = map[string]*resource.Resource{}
	for name := range k.versions {
		if name != k.storage {
			res.In[name] = k.resourceIn(name)
			res.In[name].Guard = d.guard(k, name)
		}
	}
	return res
}

// customVerbs are the verbs of all custom kinds, in the order in which kube-apiserver lists them.
// They must not be changed.
var customVerbs = []string{
	resource.Delete, resource.DeleteCollection, resource.Get, resource.List, resource.Patch, resource.Create,
	resource.Update, resource.Watch,
}

// customBehavior holds the points on which kube-apiserver answers differently for custom kinds than
// for built-in ones.
var customBehavior = resource.Behavior{
	DispatchByVerb: true, NoProtobuf: true, TypedItems: true, MetadataBookmarks: true, GenericObjects: true,
	ResourceVersionRequired: true,
	QualifiedKind:           true,
}

// resourceIn returns the Resource whose hubs are in a version.
func (k *kind) resourceIn(hub string) *resource.Resource {
	names := k.definition.Status.AcceptedNames
	res := &resource.Resource{
		Group:          k.group,
		Plural:         names.Plural,
		Singular:       names.Singular,
		Kind:           names.Kind,
		ListKind:       names.ListKind,
		ShortNames:     names.ShortNames,
		Categories:     names.Categories,
		Namespaced:     k.namespaced,
		Verbs:          customVerbs,
		Behavior:       customBehavior,
		StorageVersion: k.storage,
		StoragePath:    k.group + "/" + names.Plural,
		Edition:        edition(k.definition),
		Codec:          &codec{compiled: k.compiled, hub: hub},
		Strategy:       &strategy{compiled: k.compiled, hub: hub},
		Fields:         k.versions[hub].selectable(),
		FieldLabel:     k.fieldLabel,
		Table:          func(version string) upstream.TableConvertor { return k.versions[version].table() },
		Subresources:   k.subresources(hub),
		Hooks:          k.hooks(),
		Owner:          Owner,
		Since:          k.created,
	}
	for _, v := range k.definition.Spec.Versions {
		if v.Served {
			res.Versions = append(res.Versions,
				resource.Version{Name: v.Name, Deprecated: deprecation(k.definition, &v)})
		}
	}
	slices.SortStableFunc(res.Versions, func(a, b resource.Version) int {
		return utilversion.CompareKubeAwareVersionStrings(b.Name, a.Name)
	})
	return res
}

// edition identifies what a definition says about its kind: its spec and its accepted names.
func edition(d *apiextensionsv1.CustomResourceDefinition) string {
	n := d.Status.AcceptedNames
	return fmt.Sprintf("%s/%d/%s/%s/%s/%s/%s/%s", d.UID, d.Generation, n.Plural, n.Singular, n.Kind, n.ListKind,
		strings.Join(n.ShortNames, ","), strings.Join(n.Categories, ","))
}

// deprecation returns the warning for requests in a version; "" if the version is not deprecated.
func deprecation(definition *apiextensionsv1.CustomResourceDefinition,
	v *apiextensionsv1.CustomResourceDefinitionVersion) string {
	if !v.Deprecated {
		return ""
	}
	if v.DeprecationWarning != nil {
		return *v.DeprecationWarning
	}
	group, name := definition.Spec.Group, definition.Spec.Names.Kind
	warning := fmt.Sprintf("%s/%s %s is deprecated", group, v.Name, name)
	best := ""
	for _, other := range definition.Spec.Versions {
		if !other.Served || other.Deprecated || utilversion.CompareKubeAwareVersionStrings(other.Name, v.Name) <= 0 {
			continue
		}
		if best == "" || utilversion.CompareKubeAwareVersionStrings(other.Name, best) > 0 {
			best = other.Name
		}
	}
	if best == "" {
		return warning
	}
	return fmt.Sprintf("%s; use %s/%s %s", warning, group, best, name)
}
