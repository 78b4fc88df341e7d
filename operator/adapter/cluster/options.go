package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
)

// defaultResync is controller-runtime's default.
const defaultResync = 10 * time.Hour

// leaf is a set of informers with one configuration.
type leaf struct {
	informers informer.Informers
	// shared makes reads return the informers' objects without a copy (UnsafeDisableDeepCopy).
	shared bool
	// only is the namespace that a field selector requires; empty if there is none. To readers, the
	// selector is a filter: other namespaces are empty.
	only string
}

// hides reports whether a field selector excludes all objects of a namespace.
func (l *leaf) hides(namespaced bool, namespace string) bool {
	return namespaced && l.only != "" && namespace != l.only
}

// placement describes which leaf has the objects of a kind.
type placement struct {
	whole  *leaf            // cluster-scoped kinds, and namespaced kinds unless spaces is set
	spaces map[string]*leaf // by namespace; "" has the namespaces without an own leaf
}

func (p placement) leaves(namespaced bool) []*leaf {
	if !namespaced || p.spaces == nil {
		return []*leaf{p.whole}
	}
	var all []*leaf
	for _, name := range slices.Sorted(maps.Keys(p.spaces)) {
		all = append(all, p.spaces[name])
	}
	return all
}

// leafOf returns the leaf of a namespace, or nil if the cache does not have the namespace.
func (p placement) leafOf(namespaced bool, namespace string) *leaf {
	if !namespaced || p.spaces == nil {
		return p.whole
	}
	if l := p.spaces[namespace]; l != nil {
		return l
	}
	return p.spaces[""]
}

// plan creates the leaves for options whose scheme and mapper are set.
func (c *Cache) plan(o cache.Options) error {
	if o.NewInformer != nil {
		c.log.Warn("cache option NewInformer has no effect: the informers are those of kelson.dev/operator")
	}
	global := cache.Config{
		LabelSelector: o.DefaultLabelSelector, FieldSelector: o.DefaultFieldSelector, Transform: o.DefaultTransform,
		UnsafeDisableDeepCopy: o.DefaultUnsafeDisableDeepCopy, SyncPeriod: o.SyncPeriod,
	}
	var err error
	if c.others, err = c.place(o.DefaultNamespaces, global); err != nil {
		return err
	}
	for obj, by := range o.ByObject {
		kind, err := apiutil.GVKForObject(obj, c.scheme)
		if err != nil {
			return fmt.Errorf("get kind of %T: %w", obj, err)
		}
		namespaced, err := apiutil.IsObjectNamespaced(obj, c.scheme, c.mapper)
		if err != nil {
			return fmt.Errorf("find out whether %T is namespaced: %w", obj, err)
		}
		if !namespaced && by.Namespaces != nil {
			return fmt.Errorf("type %T is not namespaced, but its ByObject.Namespaces setting is not nil", obj)
		}
		kindSettings := cache.Config{
			LabelSelector: by.Label, FieldSelector: by.Field, Transform: by.Transform,
			UnsafeDisableDeepCopy: by.UnsafeDisableDeepCopy, SyncPeriod: by.SyncPeriod,
		}
		namespaces := by.Namespaces
		if namespaced && namespaces == nil {
			namespaces = o.DefaultNamespaces
		}
		// The order of precedence is: the kind's settings for the namespace, the kind's settings,
		// the settings for the namespace of all kinds, and the settings of all kinds.
		merged := map[string]cache.Config{}
		for name, settings := range namespaces {
			if general := o.DefaultNamespaces[name]; !isEmpty(settings) || !isEmpty(general) {
				settings = withDefaults(withDefaults(settings, kindSettings), general)
			}
			merged[name] = settings
		}
		if c.kinds[kind], err = c.place(merged, withDefaults(kindSettings, global)); err != nil {
			return err
		}
	}
	return nil
}

// place creates the leaves of one kind, or of all kinds without specific settings. Namespaces with
// empty settings use those of the rest.
func (c *Cache) place(namespaces map[string]cache.Config, rest cache.Config) (placement, error) {
	if len(namespaces) == 0 {
		whole, err := c.leaf(rest, nil)
		return placement{whole: whole}, err
	}
	names := slices.Sorted(maps.Keys(namespaces))
	alike := !slices.Contains(names, cache.AllNamespaces)
	for _, settings := range namespaces {
		alike = alike && isEmpty(settings)
	}
	if alike {
		whole, err := c.leaf(rest, names)
		return placement{whole: whole}, err
	}
	p := placement{spaces: map[string]*leaf{}}
	for _, name := range names {
		settings := withDefaults(namespaces[name], rest)
		only := []string{name}
		if name == cache.AllNamespaces {
			only = nil
			settings.FieldSelector = without(names, settings.FieldSelector)
		}
		var err error
		if p.spaces[name], err = c.leaf(settings, only); err != nil {
			return placement{}, err
		}
	}
	var err error
	p.whole, err = c.leaf(rest, nil)
	return p, err
}

// without returns the selector with the additional requirement that objects are in none of the
// namespaces.
func without(namespaces []string, selector fields.Selector) fields.Selector {
	var all []fields.Selector
	for _, name := range namespaces {
		if name != cache.AllNamespaces {
			all = append(all, fields.OneTermNotEqualSelector("metadata.namespace", name))
		}
	}
	if selector != nil {
		all = append(all, selector)
	}
	return fields.AndSelectors(all...)
}

func withDefaults(c, from cache.Config) cache.Config {
	if c.LabelSelector == nil {
		c.LabelSelector = from.LabelSelector
	}
	if c.FieldSelector == nil {
		c.FieldSelector = from.FieldSelector
	}
	if c.Transform == nil {
		c.Transform = from.Transform
	}
	c.UnsafeDisableDeepCopy = cmp.Or(c.UnsafeDisableDeepCopy, from.UnsafeDisableDeepCopy)
	c.SyncPeriod = cmp.Or(c.SyncPeriod, from.SyncPeriod)
	return c
}

// isEmpty reports whether a configuration has no settings. EnableWatchBookmarks has no effect.
func isEmpty(c cache.Config) bool {
	return c.LabelSelector == nil && c.FieldSelector == nil && c.Transform == nil && c.UnsafeDisableDeepCopy == nil &&
		c.SyncPeriod == nil
}

// leaf creates a set of informers.
func (c *Cache) leaf(o cache.Config, namespaces []string) (*leaf, error) {
	resync := defaultResync
	if o.SyncPeriod != nil {
		resync = *o.SyncPeriod
	}
	if resync > 0 { // within 10 %, so that kinds do not resync at the same time
		resync = time.Duration(float64(resync) * (0.9 + 0.2*rand.Float64()))
	}
	scope := informer.Scope{Namespaces: namespaces, Labels: o.LabelSelector, Fields: o.FieldSelector}
	only := ""
	if o.FieldSelector != nil && len(namespaces) == 0 {
		// Permissions may be limited to the namespace.
		if name, exact := o.FieldSelector.RequiresExactMatch("metadata.namespace"); exact && name != "" {
			only, scope.Namespaces = name, []string{name}
		}
	}
	informers, err := informer.New(informer.Config{
		Client: c.source, Resync: resync, Scope: scope, Transform: c.transform(o.Transform), Log: c.log,
	})
	if err != nil {
		return nil, err
	}
	l := &leaf{informers: informers, shared: o.UnsafeDisableDeepCopy != nil && *o.UnsafeDisableDeepCopy, only: only}
	c.leaves = append(c.leaves, l)
	return l, nil
}

// transform adapts a transform function. An object that it fails for is kept as it is.
func (c *Cache) transform(transform toolscache.TransformFunc) func(client.Object) client.Object {
	if transform == nil {
		return nil
	}
	return func(obj client.Object) client.Object {
		changed, err := transform(obj)
		if err == nil {
			if changed, ok := changed.(client.Object); ok && reflect.TypeOf(changed) == reflect.TypeOf(obj) {
				return changed
			}
			err = fmt.Errorf("result has the type %T, want %T", changed, obj)
		}
		c.log.Error("transform object for the cache; keeping it unchanged", "kind", kindOf(obj),
			"object", client.KeyOf(obj), "err", err)
		return obj
	}
}

func kindOf(obj client.Object) schema.GroupVersionKind { return obj.GetObjectKind().GroupVersionKind() }
