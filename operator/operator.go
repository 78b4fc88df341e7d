package operator

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/events"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/reconcile"
)

// Aliases for the types that most operators use.
type (
	// Client reads from the cache and writes to the API server. Its reads see its own writes.
	Client = client.Client
	// Object is any API object.
	Object = client.Object
	// Key names an object within its kind.
	Key = client.Key
	// Result says when to reconcile again, in addition to reconciles that changes cause.
	Result = reconcile.Result
	// Request names an object to reconcile.
	Request = reconcile.Request
	// Event is the input of a Predicate.
	Event = controller.Event
	// Predicate reports whether an event matters.
	Predicate = controller.Predicate
)

// Deps has the dependencies of reconcilers. A constructor takes a Deps, or only a Client.
type Deps struct {
	// Client reads from the cache and writes to the API server.
	Client Client
	// Live reads from the API server, for reads that must not come from the cache. Its writes are
	// handled like those of Client: they are recorded in the trace, and reads of Client see them.
	Live Client
	// Events records Events about objects, in the cluster of the object. Events.In(ctx) records all
	// Events in the cluster of the reconcile.
	Events *events.Recorder
	// Log is the controller's logger. In a reconcile, use Log(ctx), which names the object.
	Log *slog.Logger
	// Informers are the informers that Client reads from; use them to add indexes.
	Informers informer.Informers
	// Watch adds a source to the controller while it runs, for kinds that are not known earlier.
	// stop removes it.
	Watch func(controller.Source) (stop func(), err error)
	// WatchFor adds the watches in opts (Owns, OwnsKind, Watches and WatchesKind) for the object of
	// the reconcile, in addition to the controller's own. They replace the watches of the object's
	// earlier calls; without opts, WatchFor removes those. A watch runs while at least one object
	// needs it, and then ends, with its cache. An object that is deleted needs none. When a watch
	// begins, each existing object is an event.
	//
	// Two watches are the same if they have the same function (Owns or Watches), kind and Go type.
	// The predicates and the mapping function of the first one then apply.
	// ctx is the context of the reconcile.
	WatchFor func(ctx context.Context, opts ...Option) error
	// Manager gives access to the rest: additional clusters, checks, metrics.
	Manager *manager.Manager

	recorder reconcile.Recorder
	deleted  func(context.Context, Request) // drops the records about a deleted object
}

// Cluster returns the cluster of a context. In a reconcile, this is the cluster of the reconciled
// object. It has what a Client does not do: the rest.Config for exec, attach and port-forward, and
// an HTTP client for logs.
func (d Deps) Cluster(ctx context.Context) (*manager.Cluster, error) {
	return d.Manager.ClusterFrom(ctx)
}

// After returns the Result that reconciles the object again after d, unless something else causes a
// reconcile earlier. If d is not positive, as for a time that has passed, that is after a
// millisecond.
func After(d time.Duration) Result {
	if d <= 0 {
		d = time.Millisecond // zero would mean not to reconcile again
	}
	return Result{RequeueAfter: d}
}

// Invalid reports that the field at path has a value that the reconciler can't act on. The
// framework sets the object's condition Accepted to False (see reconcile.ConditionAccepted),
// records a Warning event, and does not retry until the object changes. Return both results from
// Reconcile.
func Invalid(path string, err error) (Result, error) {
	return Result{}, reconcile.Invalid(path, err)
}

// Terminal wraps an error that the controller must not retry until something changes.
func Terminal(err error) error { return reconcile.Terminal(err) }

// SaveStatus writes the status of obj, the object that a reconciler was called with, in the middle
// of a reconcile. When it returns nil, all later reconciles read the status, even after a crash.
// Use it for values that must not be lost, such as the id of a resource that was created outside of
// the cluster. It survives conflicts and failed requests; see reconcile.SaveStatus.
func SaveStatus(ctx context.Context, obj Object) error { return reconcile.SaveStatus(ctx, obj) }

// Log returns the logger of the current reconcile. It adds the controller and the object to each
// record.
func Log(ctx context.Context) *slog.Logger { return reconcile.Log(ctx) }

// GenerationChanged is a Predicate that drops updates that leave the generation unchanged, such as
// status updates.
func GenerationChanged(e Event) bool { return controller.GenerationChanged(e) }

// Part is a part of an operator, as returned by For, Webhook, Background, AddToScheme and others.
type Part interface {
	install(*parts) error
}

// parts collects what the Parts install.
type parts struct {
	name   string
	scheme *runtime.Scheme
	caches informer.Config
	spans  oteltrace.TracerProvider
	flags  []func(*flag.FlagSet)
	before []func(*Config) error // of Configure and Parts, in order
	start  []func(*host) error   // each adds something to the manager
	ready  []func(context.Context, Deps) error

	running bool // the command line is parsed
}

type partFunc func(*parts) error

func (f partFunc) install(p *parts) error { return f(p) }

// AddToScheme registers Go types. The types of Kubernetes (k8s.io/api/…) need not be registered.
func AddToScheme(add ...func(*runtime.Scheme) error) Part {
	return partFunc(func(p *parts) error {
		for _, f := range add {
			if err := f(p.scheme); err != nil {
				return fmt.Errorf("add to scheme: %w", err)
			}
		}
		return nil
	})
}

// Name sets the name of the operator. It is the field manager of applies and the source of events,
// so it must not change between versions. The default is the last element of the main package's
// path.
func Name(name string) Part {
	return partFunc(func(p *parts) error {
		p.name = name
		return nil
	})
}

// Configure changes the configuration of the operator before it starts: the configuration from the
// flags of Main, or the Config passed to Run. Functions are called in the order of the parts, after
// the command line was parsed. With Main, cfg.REST is empty if no API server was found; unless a
// function sets it, the operator then ends with an error. An error ends the operator.
//
//	operator.Configure(func(cfg *operator.Config) error {
//		cfg.REST.Impersonate.UserName = "system:serviceaccount:apps:brewer"
//		return nil
//	})
func Configure(change func(cfg *Config) error) Part {
	return partFunc(func(p *parts) error {
		p.before = append(p.before, change)
		return nil
	})
}

// Parts adds the parts that list returns. Main calls list after it has parsed the command line, so
// that parts can depend on flags and on the configuration:
//
//	operator.Parts(func(*operator.Config) ([]operator.Part, error) {
//		return []operator.Part{operator.For(NewTeaReconciler, operator.Concurrency(workers))}, nil
//	})
//
// Parts also groups parts that belong together, such as a reconciler and the indexes that it reads,
// so that a package offers them as one:
//
//	func TeaController() operator.Part {
//		return operator.Parts(func(*operator.Config) ([]operator.Part, error) {
//			return []operator.Part{operator.For(NewTeaReconciler), operator.Index("kind", kindOf)}, nil
//		})
//	}
//
// If list returns parts of Configure, their functions are also called. An error ends the operator.
func Parts(list func(cfg *Config) ([]Part, error)) Part {
	return partFunc(func(p *parts) error {
		p.before = append(p.before, func(cfg *Config) error {
			listed, err := list(cfg)
			if err != nil {
				return err
			}
			return p.install(listed)
		})
		return nil
	})
}

// Tracing creates OpenTelemetry spans for reconciles and their writes. Pass
// otel.GetTracerProvider() to use the program's provider.
func Tracing(provider oteltrace.TracerProvider) Part {
	return partFunc(func(p *parts) error {
		p.spans = provider
		return nil
	})
}

// Background runs a function next to the controllers; with leader election, only in the leader. run
// must return when its context ends. If it returns an error, the operator stops; Run returns the
// error, also if the context has ended before (see manager.Runnable).
func Background(run func(ctx context.Context, deps Deps) error) Part {
	return partFunc(func(p *parts) error {
		p.start = append(p.start, func(h *host) error {
			h.background(run)
			return nil
		})
		return nil
	})
}

// Provider adds a manager.Provider, which engages and disengages clusters while the operator runs.
// construct takes an operator.Client or operator.Deps.
func Provider[D any](construct func(D) manager.Provider) Part {
	return partFunc(func(p *parts) error {
		p.start = append(p.start, func(h *host) error {
			d, err := pick[D](h.deps(""))
			if err != nil {
				return fmt.Errorf("cluster provider: %w", err)
			}
			h.AddProvider(construct(d))
			return nil
		})
		return nil
	})
}
