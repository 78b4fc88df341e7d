package apiserver

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/goschema"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/internal/strictjson"
)

// Part is a part of a server: a [Group], an [Admission] rule, a [Storage] or another option.
type Part interface{ addTo(*plan) }

type partFunc func(*plan)

func (f partFunc) addTo(p *plan) { f(p) }

// Parts combines parts, so that programs and tests can share the description of a server.
func Parts(parts ...Part) Part {
	return partFunc(func(p *plan) {
		for _, part := range parts {
			part.addTo(p)
		}
	})
}

// plan collects the parts of a server.
type plan struct {
	kinds      []*kind
	rules      []ruleMaker
	open       OpenStore
	fork       *store.Snapshot
	title      string
	version    string
	authentic  AuthOption
	checks     []namedCheck
	components []component
	noFast     bool
	errs       []error
}

func (p *plan) fail(format string, args ...any) { p.errs = append(p.errs, fmt.Errorf(format, args...)) }

// GroupPart is a kind of a [Group].
type GroupPart interface{ kind() *kind }

// Group serves kinds in an API group.
func Group(name string, kinds ...GroupPart) Part {
	return partFunc(func(p *plan) {
		if !strings.Contains(name, ".") {
			p.fail("group %q: the name of a custom group must be a domain name", name)
		}
		for _, part := range kinds {
			k := part.kind()
			k.group = name
			p.kinds = append(p.kinds, k)
		}
	})
}

// KindOption is an option of a [Kind].
type KindOption interface{ applyTo(*kind) }

type kindFunc func(*kind)

func (f kindFunc) applyTo(k *kind) { f(k) }

// Spoke is a version of a kind that is converted to and from the hub. H is the hub's pointer type,
// or an interface that it implements, such as conversion.Hub of controller-runtime.
type Spoke[H any] interface {
	runtime.Object
	ConvertTo(hub H) error
	ConvertFrom(hub H) error
}

// kind describes one kind. Its Resource is made from this description.
type kind struct {
	group      string
	name       string // Kind
	plural     string
	singular   string
	short      []string
	categories []string
	cluster    bool
	storage    string // version
	versions   []*kindVersion
	listMaps   map[string][]string // path → keys
	rules      rules
	subs       []subMaker
	subDocs    []subDoc
	source     sourceMaker
	uncond     bool
	errs       []error
}

// kindVersion is one version of a kind; the first one is the hub.
type kindVersion struct {
	name       string
	proto      runtime.Object
	deprecated string
	unserved   bool
	drops      []string // paths of fields that toHub loses on purpose
	// toHub and fromHub are nil for the hub.
	toHub, fromHub func(spoke, hub runtime.Object) error
}

func (k *kind) kind() *kind { return k }

func (k *kind) fail(format string, args ...any) { k.errs = append(k.errs, fmt.Errorf(format, args...)) }

// Kind describes a kind by a pointer to its hub type, which rules, admission and storage use:
//
//	apiserver.Kind(&v1beta1.Pizza{}, apiserver.Version(&v1alpha1.Pizza{}), pizza.Rules{})
//
// The name of the Go type is the name of the kind, the last element of its package's path is the
// version. TypeMeta of the argument overrides both. The type's method Default(), if it has one,
// sets the defaults of that version. If the type has a field with the JSON name status, the kind
// has the subresource status.
//
// Every part is a [KindOption] or a value with rules for the hub type: see [Rules] for the methods.
func Kind[H runtime.Object](hub H, parts ...any) GroupPart {
	k := &kind{listMaps: map[string][]string{}}
	k.addVersion(&kindVersion{proto: hub})
	for _, part := range parts {
		if option, ok := part.(KindOption); ok {
			option.applyTo(k)
		} else if err := adopt[H](&k.rules, part); err != nil {
			k.errs = append(k.errs, err)
		}
	}
	return k
}

// Version adds a version that is converted to and from the hub.
func Version[H any, S Spoke[H]](spoke S) KindOption {
	return kindFunc(func(k *kind) {
		if _, ok := k.versions[0].proto.(H); !ok {
			k.fail("version %T converts to %s, and the hub is %T", spoke, reflect.TypeFor[H](), k.versions[0].proto)
			return
		}
		k.addVersion(&kindVersion{
			proto:   spoke,
			toHub:   func(spoke, hub runtime.Object) error { return spoke.(S).ConvertTo(hub.(H)) },
			fromHub: func(spoke, hub runtime.Object) error { return spoke.(S).ConvertFrom(hub.(H)) },
		})
	})
}

// ClusterScoped makes the kind cluster-scoped. Other kinds are namespaced.
func ClusterScoped() KindOption { return kindFunc(func(k *kind) { k.cluster = true }) }

// Names sets the plural and the short names. A plural of "" is derived from the kind.
func Names(plural string, short ...string) KindOption {
	return kindFunc(func(k *kind) { k.plural, k.short = plural, short })
}

// Categories adds the kind to categories, such as "all" for kubectl get all.
func Categories(names ...string) KindOption {
	return kindFunc(func(k *kind) { k.categories = names })
}

// StorageVersion is the version in which objects are stored; the default is the hub.
func StorageVersion(name string) KindOption { return kindFunc(func(k *kind) { k.storage = name }) }

// Deprecated makes the server send a warning to clients of a version.
func Deprecated(version, warning string) KindOption {
	return kindFunc(func(k *kind) {
		if v := k.version(version); v != nil {
			v.deprecated = warning
		} else {
			k.fail("deprecated version %q: no such version; it must come after Version", version)
		}
	})
}

// Unserved keeps a version for stored objects without serving it.
func Unserved(version string) KindOption {
	return kindFunc(func(k *kind) {
		if v := k.version(version); v != nil {
			v.unserved = true
		} else {
			k.fail("unserved version %q: no such version; it must come after Version", version)
		}
	})
}

// Drops names fields that the conversion of a version to the hub loses on purpose, such as
// "spec.legacy" or, below a list, "spec.items.legacy". Clients that set another field that a
// conversion loses get a warning, or, with fieldValidation=Strict, an error.
func Drops(version string, paths ...string) KindOption {
	return kindFunc(func(k *kind) {
		if v := k.version(version); v != nil {
			v.drops = append(v.drops, paths...)
		} else {
			k.fail("dropped fields of version %q: no such version; it must come after Version", version)
		}
	})
}

// ListMap makes the list at a path, such as "spec.toppings", a map for server-side apply: elements
// with equal keys are merged. The struct tags patchStrategy and patchMergeKey do the same. It
// applies to all versions in which the list has elements with these keys.
func ListMap(path string, keys ...string) KindOption {
	return kindFunc(func(k *kind) { k.listMaps[path] = keys })
}

// UnconditionalUpdate allows updates without a resourceVersion.
func UnconditionalUpdate() KindOption { return kindFunc(func(k *kind) { k.uncond = true }) }

var versionName = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

// addVersion adds a version, named by its TypeMeta or its Go type.
func (k *kind) addVersion(v *kindVersion) {
	t := reflect.TypeOf(v.proto)
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		k.fail("kind %T: must be a pointer to a struct", v.proto)
		k.versions = append(k.versions, v)
		return
	}
	if _, err := meta.Accessor(v.proto); err != nil {
		k.fail("kind %T: must embed metav1.ObjectMeta", v.proto)
	}
	given := v.proto.GetObjectKind().GroupVersionKind()
	name := given.Kind
	if name == "" {
		name = t.Elem().Name()
	}
	if v.name = given.Version; v.name == "" {
		v.name = path.Base(t.Elem().PkgPath())
	}
	if !versionName.MatchString(v.name) {
		k.fail("kind %T: %q is not the name of a version; set TypeMeta.APIVersion", v.proto, v.name)
	}
	switch {
	case k.name == "":
		k.name = name
	case k.name != name:
		k.fail("kind %s has a version of the kind %s", k.name, name)
	}
	if k.version(v.name) != nil {
		k.fail("kind %s has version %s twice", k.name, v.name)
	}
	k.versions = append(k.versions, v)
}

func (k *kind) version(name string) *kindVersion {
	for _, v := range k.versions {
		if v.name == name {
			return v
		}
	}
	return nil
}

func (k *kind) hub() *kindVersion { return k.versions[0] }

func (k *kind) gvk(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.group, Version: version, Kind: k.name}
}

// complete derives the settings that the parts did not set, and returns all errors of the
// description.
func (k *kind) complete() error {
	if len(k.errs) > 0 {
		return errors.Join(k.errs...)
	}
	plural, singular := meta.UnsafeGuessKindToResource(k.gvk(k.hub().name))
	if k.plural == "" {
		k.plural = plural.Resource
	}
	k.singular = singular.Resource
	if k.storage == "" {
		k.storage = k.hub().name
	}
	if k.version(k.storage) == nil {
		return fmt.Errorf("kind %s: storage version %q is not one of its versions", k.name, k.storage)
	}
	if !slices.ContainsFunc(k.versions, func(v *kindVersion) bool { return !v.unserved }) {
		return fmt.Errorf("kind %s: no version is served", k.name)
	}
	return k.checkListMaps()
}

// schemaOf returns the schema of a version.
func (k *kind) schemaOf(v *kindVersion) (*goschema.Schema, error) {
	s, err := goschema.Of(reflect.TypeOf(v.proto))
	if err != nil {
		return nil, err
	}
	for path, keys := range k.listMaps {
		k.setListMap(s, path, keys)
	}
	return s, nil
}

// setListMap makes a list in a schema a map, and reports whether it has a list of objects with the
// keys.
func (k *kind) setListMap(s *goschema.Schema, path string, keys []string) bool {
	list, set := goschema.At(s, path)
	if list == nil || list.Items == nil || list.Items.Schema == nil {
		return false
	}
	for _, key := range keys {
		if _, has := list.Items.Schema.Properties[key]; !has {
			return false
		}
	}
	kind := "map"
	list.XListType, list.XListMapKeys = &kind, keys
	set(*list)
	return true
}

// checkListMaps returns an error if no version has the list of a ListMap.
func (k *kind) checkListMaps() error {
	for path, keys := range k.listMaps {
		found := false
		for _, v := range k.versions {
			s, err := goschema.Of(reflect.TypeOf(v.proto))
			if err != nil {
				return err
			}
			found = found || k.setListMap(s, path, keys)
		}
		if !found {
			return fmt.Errorf("kind %s: no version has a list at %s with elements that have %s", k.name, path,
				strings.Join(keys, ", "))
		}
	}
	return nil
}

// resource returns the Resource of the kind.
func (k *kind) resource(s *Server) *resource.Resource {
	r := &resource.Resource{
		Group: k.group, Plural: k.plural, Singular: k.singular, Kind: k.name, ListKind: k.name + "List",
		ShortNames: k.short, Categories: k.categories, Namespaced: !k.cluster,
		StorageVersion: k.storage, StoragePath: k.group + "/" + k.plural,
		Fields: k.rules.fields, Table: k.table(), Owner: "apiserver",
	}
	r.Behavior.NoProtobuf, r.Behavior.QualifiedKind = !k.protobuf(), true
	for _, v := range k.versions {
		if !v.unserved {
			r.Versions = append(r.Versions, resource.Version{Name: v.name, Deprecated: v.deprecated})
		}
	}
	main := newStrategy(k, s.scheme)
	r.Strategy = main
	codec := &codec{kind: k, scheme: s.scheme, serializers: s.serializers(), reset: map[string]*strategy{"": main},
		noFastPaths: s.noFastPaths, since: s.since(k)}
	if !s.noFastPaths {
		codec.fast = strictjson.New(s.scheme)
	}
	if main.status >= 0 {
		status := *main
		status.ofStatus = true
		codec.reset["status"] = &status
		r.Subresources = append(r.Subresources, resource.Subresource{Name: "status",
			Update: &resource.UpdateView{Strategy: &status}})
	}
	for _, sub := range k.subs {
		r.Subresources = append(r.Subresources, sub(s, k))
	}
	r.Codec = codec
	return r
}
