// Package fake is the base of generated fake clientsets: clients that keep objects in memory and
// record actions, compatible with those of client-gen.
//
//	clients := fake.NewClientset(&shopv1.Pizza{…})       // of the generated package clientset/versioned/fake
//	clients.PrependReactor("update", "pizzas", func(a testing.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no") })
//	…
//	for _, a := range clients.Actions() { … }
//
// Existing tests with fake clientsets work unchanged. For new tests, prefer a control plane
// (kelson.dev/lab/testenv, kelson.dev/operator/operatortest): it starts in milliseconds, and unlike
// a fake it validates, sets defaults, prunes, rejects conflicts, counts generations and collects
// garbage. Fakes are useful for faults that a server can't be made to produce.
//
// # Model
//
// A clientset is client-go's [testing.Fake] with its object tracker. Typed clients invoke actions
// directly. [Clientset.Client], and informers that use it, send requests through a transport that
// converts each request to an action, so that reactors receive these too.
package fake

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/testing"

	"kelson.dev/operator/client"
)

// Kind is a kind for which a clientset has a client.
type Kind struct {
	schema.GroupVersionKind
	Resource   string // as in paths
	Namespaced bool
}

func (k Kind) resource() schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.Resource)
}

// Config configures a Clientset.
type Config struct {
	Scheme  *runtime.Scheme
	Decoder runtime.Decoder
	Kinds   []Kind
	// Converter converts objects to typed values for server-side apply. Without it, field ownership
	// is not tracked.
	Converter managedfields.TypeConverter
}

// Clientset is embedded in generated clientsets. The zero value responds with the results of
// reactors, and with empty objects.
type Clientset struct {
	testing.Fake
	discovery *fakediscovery.FakeDiscovery
	tracker   testing.ObjectTracker
	objects   client.Client
}

// Track gives the clientset an object tracker with these objects. It panics on errors.
func (c *Clientset) Track(cfg Config, objects ...runtime.Object) {
	if cfg.Converter != nil {
		c.tracker = testing.NewFieldManagedObjectTracker(cfg.Scheme, cfg.Decoder, cfg.Converter)
	} else {
		c.tracker = testing.NewObjectTracker(cfg.Scheme, cfg.Decoder)
	}
	for _, obj := range objects {
		if err := c.add(cfg, obj); err != nil {
			panic(fmt.Sprintf("fake clientset: %v", err))
		}
	}
	c.AddReactor("*", "*", testing.ObjectReaction(c.tracker))
	c.AddWatchReactor("*", func(action testing.Action) (bool, watch.Interface, error) {
		var opts metav1.ListOptions
		if a, ok := action.(testing.WatchActionImpl); ok {
			opts = a.ListOptions
		}
		w, err := c.tracker.Watch(action.GetResource(), action.GetNamespace(), opts)
		return err == nil, w, err
	})
	c.Resources = resources(cfg.Kinds)
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, k := range cfg.Kinds {
		scope := meta.RESTScopeRoot
		if k.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		mapper.AddSpecific(k.GroupVersionKind, k.resource(), k.resource(), scope)
	}
	var err error
	c.objects, err = client.New(client.Config{
		REST: &rest.Config{Host: "http://fake.invalid",
			Transport: &transport{fake: &c.Fake, scheme: cfg.Scheme, kinds: cfg.Kinds}},
		Scheme: cfg.Scheme, Mapper: mapper,
	})
	if err != nil {
		panic(fmt.Sprintf("fake clientset: %v", err))
	}
}

// add adds an object, or the objects of a list, to the tracker under the resource of its kind. The
// tracker's own Add would guess the resource.
func (c *Clientset) add(cfg Config, obj runtime.Object) error {
	if meta.IsListType(obj) {
		items, err := meta.ExtractList(obj)
		if err != nil {
			return err
		}
		for _, item := range items {
			if err := c.add(cfg, item); err != nil {
				return err
			}
		}
		return nil
	}
	kinds, _, err := cfg.Scheme.ObjectKinds(obj)
	if err != nil {
		return err
	}
	for _, k := range cfg.Kinds {
		if guess, _ := meta.UnsafeGuessKindToResource(k.GroupVersionKind); k.GroupVersionKind == kinds[0] &&
			guess != k.resource() {
			m, err := meta.Accessor(obj)
			if err != nil {
				return err
			}
			return c.tracker.Create(k.resource(), obj, m.GetNamespace())
		}
	}
	return c.tracker.Add(obj)
}

// resources returns the discovery documents.
func resources(kinds []Kind) []*metav1.APIResourceList {
	var lists []*metav1.APIResourceList
	for _, k := range kinds {
		gv := k.GroupVersion().String()
		if len(lists) == 0 || lists[len(lists)-1].GroupVersion != gv {
			lists = append(lists, &metav1.APIResourceList{GroupVersion: gv})
		}
		last := lists[len(lists)-1]
		last.APIResources = append(last.APIResources,
			metav1.APIResource{Name: k.Resource, Kind: k.Kind, Namespaced: k.Namespaced})
	}
	return lists
}

// Discovery returns a fake discovery client: a *fake.FakeDiscovery of client-go.
func (c *Clientset) Discovery() discovery.DiscoveryInterface {
	if c.discovery == nil {
		c.discovery = &fakediscovery.FakeDiscovery{Fake: &c.Fake}
	}
	return c.discovery
}

// Tracker returns the tracker, which has the objects.
func (c *Clientset) Tracker() testing.ObjectTracker { return c.tracker }

// Client returns a client that reads and writes objects of all kinds. Informers use it.
func (c *Clientset) Client() client.Client { return c.objects }

// IsWatchListSemanticsUnSupported tells client-go's reflectors to list before they watch.
func (c *Clientset) IsWatchListSemanticsUnSupported() bool { return true }

// Result converts the result of an action to the type of a typed client. The tracker does not
// support subresources: it returns the object itself, which is an error if the subresource has
// another type. A reactor must then respond.
func Result[T runtime.Object](empty T, obj runtime.Object, err error) (T, error) {
	if obj == nil {
		return empty, err
	}
	if typed, ok := obj.(T); ok || err != nil {
		return typed, err
	}
	return empty, fmt.Errorf("the fake clientset has a %T, not a %T: it needs a reactor for this subresource", obj,
		empty)
}
