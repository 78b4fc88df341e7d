package informer

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	"kelson.dev/operator/client"
)

// Config configures a set of informers.
type Config struct {
	// Client lists and watches; required. It must read from the server.
	Client client.Client
	// Resync, if positive, is the period after which each handler gets all objects again, as
	// updates with equal old and new objects.
	Resync time.Duration
	// Scope is the part of each kind that informers cache, unless Scopes has an entry for the kind.
	// The zero value is everything.
	Scope Scope
	// Scopes has the scopes of single kinds, each given by an object of the kind. A scope without
	// Namespaces has those of Scope.
	Scopes map[client.Object]Scope
	// Form is how informers keep objects, unless Forms has an entry for the kind. The zero value is
	// Full.
	Form Form
	// Forms has the forms of single kinds, each given by an object of the kind.
	Forms map[client.Object]Form
	// Transform, if not nil, changes each object before it is stored, to save memory. It may modify
	// and return its argument. It must not change the object's identity or resourceVersion.
	Transform func(client.Object) client.Object
	// Transforms has the transforms of single kinds, each given by an object of the kind. They are
	// called after Transform. A kind without a transform shares objects with the client, decodes
	// own writes once, and skips repeated applies; one with a transform does not.
	Transforms map[client.Object]func(client.Object) client.Object
	// Log defaults to slog.Default().
	Log *slog.Logger
}

// Scope is the part of a kind that an informer caches. The zero value is everything.
type Scope struct {
	// Namespaces, if not empty, are watched individually. They are ignored for cluster-scoped
	// kinds. If one of them is metav1.NamespaceAll, all namespaces are watched, by one watch.
	Namespaces []string
	Labels     labels.Selector
	Fields     fields.Selector
}

// normal returns the scope with no Namespaces if they are all namespaces.
func (s Scope) normal() Scope {
	if slices.Contains(s.Namespaces, metav1.NamespaceAll) {
		s.Namespaces = nil
	}
	return s
}

// Covers reports whether the scope may contain an object with a name: whether Namespaces have its
// namespace, and its name and namespace meet the requirements that Fields has on them. An object
// that is covered may still differ in labels or other fields.
func (s Scope) Covers(key client.Key) bool {
	if key.Namespace != "" && len(s.Namespaces) > 0 && !slices.Contains(s.Namespaces, key.Namespace) &&
		!slices.Contains(s.Namespaces, metav1.NamespaceAll) {
		return false
	}
	if s.Fields == nil {
		return true
	}
	values := map[string]string{"metadata.name": key.Name, "metadata.namespace": key.Namespace}
	for _, r := range s.Fields.Requirements() {
		if value, known := values[r.Field]; known && (value == r.Value) == (r.Operator == selection.NotEquals) {
			return false
		}
	}
	return true
}

// New returns a set of informers. It sends no requests before Run.
func New(cfg Config) (Informers, error) {
	if cfg.Client == nil {
		return nil, errors.New("new informers: Config.Client is nil")
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	s := &informers{
		cfg:        cfg,
		scopes:     map[schema.GroupKind]Scope{},
		forms:      map[schema.GroupKind]Form{},
		transforms: map[schema.GroupKind]func(client.Object) client.Object{},
		members:    map[id]*informer{},
		unshown:    map[schema.GroupKind]*atomic.Bool{},
		running:    make(chan struct{}),
		ended:      make(chan struct{}),
	}
	for obj, scope := range cfg.Scopes {
		kind, err := client.KindOf(obj, cfg.Client.Scheme())
		if err != nil {
			return nil, fmt.Errorf("new informers: scope of %s: %w", reflect.TypeOf(obj), err)
		}
		if len(scope.Namespaces) == 0 {
			scope.Namespaces = cfg.Scope.Namespaces
		}
		s.scopes[kind.GroupKind()] = scope.normal()
	}
	s.cfg.Scope = cfg.Scope.normal()
	for obj, form := range cfg.Forms {
		kind, err := client.KindOf(obj, cfg.Client.Scheme())
		if err != nil {
			return nil, fmt.Errorf("new informers: form of %s: %w", reflect.TypeOf(obj), err)
		}
		s.forms[kind.GroupKind()] = form
	}
	for obj, transform := range cfg.Transforms {
		kind, err := client.KindOf(obj, cfg.Client.Scheme())
		if err != nil {
			return nil, fmt.Errorf("new informers: transform of %s: %w", reflect.TypeOf(obj), err)
		}
		if s.transforms[kind.GroupKind()] != nil {
			return nil, fmt.Errorf("new informers: several transforms of %s", kind.GroupKind())
		}
		s.transforms[kind.GroupKind()] = chain(cfg.Transform, transform)
	}
	return s, nil
}

// chain returns a function that calls first, which may be nil, and then next.
func chain(first, next func(client.Object) client.Object) func(client.Object) client.Object {
	if first == nil {
		return next
	}
	return func(obj client.Object) client.Object { return next(first(obj)) }
}

// transformOf returns the transform of a kind; nil if it has none.
func (s *informers) transformOf(kind schema.GroupKind) func(client.Object) client.Object {
	if own := s.transforms[kind]; own != nil {
		return own
	}
	return s.cfg.Transform
}
