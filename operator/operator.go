package operator

import (
	"context"
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

// The everyday names.
type (
	// Client reads from the cache and writes to the API server. What it has written, it reads.
	Client = client.Client
	// Object is any API object.
	Object = client.Object
	// Key names an object within its kind.
	Key = client.Key
	// Result says when to reconcile again, if not only upon changes.
	Result = reconcile.Result
	// Request names an object to reconcile.
	Request = reconcile.Request
	// Event is what a Predicate judges.
	Event = controller.Event
	// Predicate says whether an event matters.
	Predicate = controller.Predicate
)

// Deps is what a reconciler may be constructed with. A constructor takes all of it, or the Client only.
type Deps struct {
	// Client reads from the cache and writes to the API server.
	Client Client
	// Live reads from the API server, for the rare read that must not come from the cache.
	Live Client
	// Events records Events about objects, in the cluster of the object; Events.In(ctx) records them in that of a reconcile, whatever the object.
	Events *events.Recorder
	// Log is the controller's logger. In a reconcile, use Log(ctx), which names the object.
	Log *slog.Logger
	// Informers are those that Client reads from, for indexes.
	Informers informer.Informers
	// Watch adds a source to the controller, also while it runs: for kinds that are known only then. stop ends it.
	Watch func(controller.Source) (stop func(), err error)
	// Manager runs all of it, for what has no name here: further clusters, checks, metrics.
	Manager *manager.Manager

	recorder reconcile.Recorder
}

// After is the Result that reconciles again after d, if nothing else causes it sooner.
func After(d time.Duration) Result { return Result{RequeueAfter: d} }

// Invalid says that the object asks for something impossible in the field at path. It becomes the object's condition Accepted, with
// status False (see reconcile.ConditionAccepted), and a Warning event. It is not retried until the object changes. The two results are
// those of Reconcile.
func Invalid(path string, err error) (Result, error) {
	return Result{}, reconcile.Invalid(path, err)
}

// Terminal marks an error that is not to be retried until something changes.
func Terminal(err error) error { return reconcile.Terminal(err) }

// Log is the logger of the reconcile under way. It names the controller and the object.
func Log(ctx context.Context) *slog.Logger { return reconcile.Log(ctx) }

// GenerationChanged is the Predicate that drops updates which leave the specification as it was, such as those of the status.
func GenerationChanged(e Event) bool { return controller.GenerationChanged(e) }

// Part is a part of an operator: what For, Webhook, Background, AddToScheme and others return.
type Part interface {
	install(*parts) error
}

// parts is what Parts add up to.
type parts struct {
	name   string
	scheme *runtime.Scheme
	caches informer.Config
	spans  oteltrace.TracerProvider
	start  []func(*host) error // each adds something to the manager
}

type partFunc func(*parts) error

func (f partFunc) install(p *parts) error { return f(p) }

// AddToScheme makes Go types known. Those of Kubernetes (k8s.io/api/…) are.
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

// Name is the name of the operator, which owns the fields it applies and is the source of its events: it must stay the same from one
// version to the next. By default it is the last element of the main package's path.
func Name(name string) Part {
	return partFunc(func(p *parts) error {
		p.name = name
		return nil
	})
}

// Tracing makes OpenTelemetry spans of reconciles and their writes: otel.GetTracerProvider() is the one that the program has set.
func Tracing(provider oteltrace.TracerProvider) Part {
	return partFunc(func(p *parts) error {
		p.spans = provider
		return nil
	})
}

// Background runs a function beside the controllers: where there is an election, in the replica that leads. It should return when its
// context ends; an error ends the operator.
func Background(run func(ctx context.Context, deps Deps) error) Part {
	return partFunc(func(p *parts) error {
		p.start = append(p.start, func(h *host) error {
			h.background(run)
			return nil
		})
		return nil
	})
}

// Provider has further clusters engaged that come, and those disengaged that go, while the operator runs: see manager.Provider. construct
// takes an operator.Client or operator.Deps.
func Provider[D any](construct func(D) manager.Provider) Part {
	return partFunc(func(p *parts) error {
		p.start = append(p.start, func(h *host) error {
			d, err := pick[D](h.deps(""))
			if err != nil {
				return fmt.Errorf("provider of clusters: %w", err)
			}
			h.AddProvider(construct(d))
			return nil
		})
		return nil
	})
}
