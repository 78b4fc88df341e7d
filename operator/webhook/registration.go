package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/reconcile"
)

// Hook is an admission webhook that an operator serves.
type Hook struct {
	Path     string
	Kind     schema.GroupVersionKind
	Mutating bool
}

// RegistrationConfig configures a Registration.
type RegistrationConfig struct {
	// Client accesses the API server; it must read from the server. Required.
	Client client.Client
	// CABundle returns the certificates that clients must trust, and a channel that is closed when
	// they change, as (*Authority).CABundle does. Required.
	CABundle func() (pem []byte, changed <-chan struct{})
	// Hooks are the admission webhooks, and Conversions the kinds with a conversion webhook.
	Hooks       []Hook
	Conversions []schema.GroupKind
	// Namespace is the namespace of the operator. Configurations belong to the operator if they
	// refer to a service there and to the path of one of the hooks.
	Namespace string
	// URL, if not empty, is the address at which the API server reaches the operator.
	// Configurations that refer to a service with the path of a hook are changed to refer to the
	// URL, and hooks without a configuration get one while the operator runs. It is for operators
	// on a developer's machine.
	URL string
	// Name is the name of the operator, from which the name of a configuration for URL is derived.
	Name string
	// Progress, if not nil, is called at the start and whenever a webhook was registered for the
	// first time, with the names of those that are not yet registered: the paths of hooks, and
	// kinds with a conversion. Calls do not overlap.
	Progress func(missing []string)
	// Log receives the log; slog.Default() if nil.
	Log *slog.Logger
}

// Registration keeps the registration of the operator's webhooks up to date: the CA bundle in
// webhook configurations and CustomResourceDefinitions and, with a URL, the complete client
// configuration.
type Registration struct {
	cfg   RegistrationConfig
	paths map[string]bool

	mu      sync.Mutex
	missing []string // for Config.Progress
}

// NewRegistration returns a Registration. It does nothing before Run.
func NewRegistration(cfg RegistrationConfig) *Registration {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	r := &Registration{cfg: cfg, paths: map[string]bool{}}
	for _, h := range cfg.Hooks {
		r.paths[h.Path] = true
		r.missing = append(r.missing, h.Path)
	}
	for _, kind := range cfg.Conversions {
		r.missing = append(r.missing, conversionOf(kind))
	}
	return r
}

func conversionOf(kind schema.GroupKind) string { return "conversion of " + kind.String() }

// registered reports that webhooks are registered.
func (r *Registration) registered(names ...string) {
	if r.cfg.Progress == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.missing)
	r.missing = slices.DeleteFunc(r.missing, func(name string) bool { return slices.Contains(names, name) })
	if len(r.missing) < before {
		r.cfg.Progress(slices.Clone(r.missing))
	}
}

var (
	mutatingConfigurations   = admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration")
	validatingConfigurations = admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration")
	definitions              = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinition"}
)

// Run maintains the registration until ctx ends. It watches the metadata of the configurations.
func (r *Registration) Run(ctx context.Context) error {
	if r.cfg.Progress != nil {
		r.cfg.Progress(slices.Clone(r.missing))
	}
	informers, err := informer.New(informer.Config{Client: r.cfg.Client, Log: r.cfg.Log})
	if err != nil {
		return err
	}
	var controllers []*controller.Controller
	for _, kind := range r.kinds() {
		obj := &metav1.PartialObjectMetadata{}
		obj.SetGroupVersionKind(kind)
		source := &controller.Kind{Informers: informers, Object: obj,
			Handler: func(e controller.Event, enqueue func(reconcile.Request)) {
				if e.Type != "delete" || r.cfg.URL != "" {
					controller.EnqueueObject(e, enqueue)
				}
			}}
		c, err := controller.New(controller.Config{
			Name: "webhook-registration", Kind: kind.Kind, Log: r.cfg.Log, SyncTimeout: forever,
			Reconciler: reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, client.IgnoreNotFound(r.register(ctx, kind, req.Name))
			}),
			Sources: []controller.Source{source, r.bundleSource(informers, obj)},
		})
		if err != nil {
			return err
		}
		controllers = append(controllers, c)
	}
	if r.cfg.URL != "" {
		defer r.unregister(context.WithoutCancel(ctx))
	}
	return runAll(ctx, informers, controllers)
}

// forever disables the sync timeout.
const forever = 1 << 62

func runAll(ctx context.Context, informers informer.Informers, controllers []*controller.Controller) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, len(controllers)+1)
	go func() { errs <- informers.Run(ctx) }()
	for _, c := range controllers {
		go func() { errs <- c.Run(ctx) }()
	}
	var all []error
	for range cap(errs) {
		err := <-errs
		if err != nil {
			cancel()
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// kinds returns the kinds of the configurations to maintain.
func (r *Registration) kinds() []schema.GroupVersionKind {
	var mutating, validating bool
	for _, h := range r.cfg.Hooks {
		mutating, validating = mutating || h.Mutating, validating || !h.Mutating
	}
	var kinds []schema.GroupVersionKind
	if mutating {
		kinds = append(kinds, mutatingConfigurations)
	}
	if validating {
		kinds = append(kinds, validatingConfigurations)
	}
	if len(r.cfg.Conversions) > 0 {
		kinds = append(kinds, definitions)
	}
	return kinds
}

// bundleSource enqueues all objects, and the operator's own configuration even if it does not
// exist, when the CA bundle changes.
func (r *Registration) bundleSource(informers informer.Informers, obj client.Object) controller.Source {
	return controller.SourceFunc(func(ctx context.Context, q controller.Queue) (<-chan struct{}, error) {
		inf, err := informers.For(obj)
		if err != nil {
			return nil, err
		}
		go func() {
			for {
				pem, changed := r.cfg.CABundle()
				if len(pem) > 0 {
					for _, o := range inf.List("") {
						q.Add(reconcile.Request{NamespacedName: client.KeyOf(o)}, controller.Why("certificate"))
					}
					if r.cfg.URL != "" && obj.GetObjectKind().GroupVersionKind() != definitions {
						q.Add(reconcile.Request{NamespacedName: client.Key{Name: r.ownName()}},
							controller.Why("certificate"))
					}
				}
				select {
				case <-changed:
				case <-ctx.Done():
					return
				}
			}
		}()
		return inf.Synced(), nil
	})
}

// register updates one configuration.
func (r *Registration) register(ctx context.Context, kind schema.GroupVersionKind, name string) error {
	pem, _ := r.cfg.CABundle()
	if len(pem) == 0 {
		return nil // bundleSource enqueues the object again when there is a bundle
	}
	if kind == definitions {
		return r.registerConversion(ctx, name, pem)
	}
	if r.cfg.URL != "" {
		if err := r.registerOwn(ctx, kind, pem); err != nil || name == r.ownName() {
			return err
		}
	}
	obj, hooks, err := r.read(ctx, kind, name)
	if err != nil {
		return err
	}
	var patch []Operation
	var paths []string
	for i, hook := range hooks {
		want, ours := r.clientConfig(hook, pem)
		if !ours {
			continue
		}
		paths = append(paths, configPath(want))
		if !sameConfig(hook, want) {
			patch = append(patch, Operation{Op: "replace", Path: fmt.Sprintf("/webhooks/%d/clientConfig", i),
				Value: want})
		}
	}
	if err := r.patch(ctx, obj, patch); err != nil {
		return err
	}
	r.registered(paths...)
	return nil
}

// configPath returns the path of a webhook; empty if there is none.
func configPath(c admissionregistrationv1.WebhookClientConfig) string {
	if c.Service != nil && c.Service.Path != nil {
		return *c.Service.Path
	}
	if c.URL != nil {
		if u, err := url.Parse(*c.URL); err == nil {
			return u.Path
		}
	}
	return ""
}

func (r *Registration) patch(ctx context.Context, obj client.Object, patch []Operation) error {
	if len(patch) == 0 {
		return nil
	}
	// Fail if the object has changed since it was read.
	patch = append([]Operation{{Op: "test", Path: "/metadata/resourceVersion", Value: obj.GetResourceVersion()}},
		patch...)
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	name := obj.GetName()
	if err := r.cfg.Client.Patch(ctx, obj, client.RawPatch(types.JSONPatchType, data)); err != nil {
		return fmt.Errorf("register webhooks in %s: %w", name, err)
	}
	r.cfg.Log.Info("registered webhooks", "in", name)
	return nil
}

// read returns a configuration and the client configurations of its webhooks.
func (r *Registration) read(ctx context.Context, kind schema.GroupVersionKind,
	name string) (client.Object, []admissionregistrationv1.WebhookClientConfig, error) {
	var configs []admissionregistrationv1.WebhookClientConfig
	if kind == mutatingConfigurations {
		obj := &admissionregistrationv1.MutatingWebhookConfiguration{}
		err := r.cfg.Client.Get(ctx, client.Key{Name: name}, obj)
		for _, w := range obj.Webhooks {
			configs = append(configs, w.ClientConfig)
		}
		return obj, configs, err
	}
	obj := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	err := r.cfg.Client.Get(ctx, client.Key{Name: name}, obj)
	for _, w := range obj.Webhooks {
		configs = append(configs, w.ClientConfig)
	}
	return obj, configs, err
}

// clientConfig returns the desired client configuration of a webhook, if it belongs to the
// operator.
func (r *Registration) clientConfig(current admissionregistrationv1.WebhookClientConfig,
	pem []byte) (admissionregistrationv1.WebhookClientConfig, bool) {
	path := ""
	if current.Service != nil || current.URL != nil && r.cfg.URL != "" && local(*current.URL) {
		path = configPath(current)
	}
	if !r.paths[path] {
		return current, false
	}
	if r.cfg.URL != "" {
		address := r.cfg.URL + path
		return admissionregistrationv1.WebhookClientConfig{URL: &address, CABundle: pem}, true
	}
	if current.Service == nil || current.Service.Namespace != r.cfg.Namespace {
		return current, false
	}
	current.CABundle = pem
	return current, true
}

// local reports whether a URL refers to this machine, as the URLs of earlier runs do.
func local(address string) bool {
	return strings.HasPrefix(address, "https://127.0.0.1:") || strings.HasPrefix(address, "https://localhost:") ||
		strings.HasPrefix(address, "https://[::1]:")
}

func sameConfig(a, b admissionregistrationv1.WebhookClientConfig) bool {
	return bytes.Equal(a.CABundle, b.CABundle) && (a.URL == nil) == (b.URL == nil) &&
		(a.URL == nil || *a.URL == *b.URL) &&
		(a.Service == nil) == (b.Service == nil)
}

// unregister deletes the configurations that were created for this run, because their server has
// stopped.
func (r *Registration) unregister(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, obj := range []client.Object{&admissionregistrationv1.MutatingWebhookConfiguration{},
		&admissionregistrationv1.ValidatingWebhookConfiguration{}} {
		obj.SetName(r.ownName())
		if err := client.IgnoreNotFound(r.cfg.Client.Delete(ctx, obj)); err != nil {
			r.cfg.Log.Warn("delete the operator's webhook configuration", "name", obj.GetName(), "err", err)
		}
	}
}
