package informer

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/client"
)

// Config says what informers read.
type Config struct {
	// Client reads and watches; required. It must be one that asks the server.
	Client client.Client
	// Resync, if positive, is the period at which every handler is told of every object again, as an update of an object to
	// itself.
	Resync time.Duration
	// Scope is what informers hold of each kind, unless Scopes has one for the kind. The zero value is everything.
	Scope Scope
	// Scopes are per kind, by an object of it.
	Scopes map[client.Object]Scope
	// Form is how objects are kept, unless Forms has one for the kind. The zero value is Full.
	Form Form
	// Forms are per kind, by an object of it.
	Forms map[client.Object]Form
	// Transform, if set, changes each object before it is stored, to keep less of it. It must leave its identity and
	// resourceVersion, and may change and return its argument.
	Transform func(client.Object) client.Object
	// Log by default is slog.Default().
	Log *slog.Logger
}

// Scope is the part of a kind that an informer holds. The zero value is everything.
type Scope struct {
	// Namespaces, if there are any, are watched one by one. They do not count for kinds without namespace.
	Namespaces []string
	Labels     labels.Selector
	Fields     fields.Selector
}

// New makes a set of informers. Nothing happens before Run.
func New(cfg Config) (Informers, error) {
	if cfg.Client == nil {
		return nil, errors.New("new informers: Config.Client is missing")
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	s := &informers{
		cfg:     cfg,
		scopes:  map[schema.GroupKind]Scope{},
		forms:   map[schema.GroupKind]Form{},
		members: map[id]*informer{},
		unshown: map[schema.GroupKind]*atomic.Bool{},
		running: make(chan struct{}),
		ended:   make(chan struct{}),
	}
	for obj, scope := range cfg.Scopes {
		kind, err := client.KindOf(obj, cfg.Client.Scheme())
		if err != nil {
			return nil, fmt.Errorf("new informers: scope of %s: %w", reflect.TypeOf(obj), err)
		}
		s.scopes[kind.GroupKind()] = scope
	}
	for obj, form := range cfg.Forms {
		kind, err := client.KindOf(obj, cfg.Client.Scheme())
		if err != nil {
			return nil, fmt.Errorf("new informers: form of %s: %w", reflect.TypeOf(obj), err)
		}
		s.forms[kind.GroupKind()] = form
	}
	return s, nil
}
