package policy

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/manifest/metrics"
	"k8s.io/apiserver/pkg/admission/plugin/policy/config"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/apiserver/admission/matching"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// Config configures the plugins.
type Config struct {
	// Store has the policies, their bindings, and the namespaces that they select.
	Store *store.Store
	// Registry has the kinds of parameters.
	Registry *resource.Registry
	// Objects returns the store with the objects of a kind in the registry; nil means Store.
	Objects func(*resource.Resource) *store.Store
	// Cluster has parameters of kinds that are not in the registry; nil means that there are none.
	Cluster *Cluster
	// Authorizer is used by the variable authorizer of expressions.
	Authorizer authorizer.UnconditionalAuthorizer
	// Config is the plugin's own configuration, which can name a folder with manifests of policies.
	// It may be nil.
	Config []byte
	// Manifests reads the folder. If it is nil, Config must not name a folder.
	Manifests *initializer.ManifestLoaders
}

// source provides the compiled policies that have bindings, sorted by name: those of manifests,
// then those of the API. P is the type of policies, B of bindings, E of compiled policies.
type source[P, B runtime.Object, E generic.Evaluator] struct {
	manifests manifests[P, B, E]

	registry *resource.Registry
	objects  func(*resource.Resource) *store.Store
	remote   *remote // nil: no cluster
	view     *derived.View[*bound[P, B, E]]

	resolving sync.Mutex // held while resolved is changed
	resolved  atomic.Pointer[resolved[P, B, E]]
}

// bound are the policies of one state of the store.
type bound[P, B runtime.Object, E generic.Evaluator] struct {
	hooks  []generic.PolicyHook[P, B, E]
	params []*admissionregistrationv1.ParamKind // by index of the policy; nil: it has no parameters
	any    bool                                 // at least one policy has parameters
}

// resolved are policies with access to their parameters, for one state of the registry.
type resolved[P, B runtime.Object, E generic.Evaluator] struct {
	from       *bound[P, B, E]
	generation uint64
	hooks      []generic.PolicyHook[P, B, E]
	// when to look up kinds again that the cluster did not serve; zero means never
	until time.Time
}

// retryUnknown is how long a kind of parameters that the cluster does not serve counts as unknown.
const retryUnknown = time.Second

// current reports whether r, which may be nil, is still valid.
func (r *resolved[P, B, E]) current(from *bound[P, B, E], generation uint64) bool {
	return r != nil && r.from == from && r.generation == generation && (r.until.IsZero() || time.Now().Before(r.until))
}

// kinds describes one of the two kinds of policies.
type kinds[P, B runtime.Object, E generic.Evaluator] struct {
	policies, bindings string // resources
	policy             func(*store.Object) (P, error)
	binding            func(*store.Object) (B, error)
	policyName         func(B) string
	params             func(P) *admissionregistrationv1.ParamKind
	compile            func(P) E
	// These functions find and read the manifests of a folder. failed returns the error of compile.
	folder func(config io.Reader) (config.PolicyConfig, error)
	read   func(l *initializer.ManifestLoaders, dir string) ([]P, []B, string, error)
	failed func(E) error
	label  metrics.ManifestType // in metrics
}

// compiled is the key under which a compiled policy is cached with its object.
type compiled struct{}

func newSource[P, B runtime.Object, E generic.Evaluator](cfg Config, k kinds[P, B, E]) (*source[P, B, E], error) {
	s := &source[P, B, E]{registry: cfg.Registry, objects: cfg.Objects}
	if err := s.manifests.open(cfg, k); err != nil {
		return nil, err
	}
	if s.objects == nil {
		s.objects = func(*resource.Resource) *store.Store { return cfg.Store }
	}
	if cfg.Cluster != nil {
		s.remote = &remote{cluster: *cfg.Cluster, kinds: map[schema.GroupVersionKind]*remoteKind{}}
	}
	s.view = derived.NewView(cfg.Store, func(sn *store.Snapshot) (*bound[P, B, E], error) {
		bindings := map[string][]B{}
		for obj := range sn.Scan(k.bindings, "", store.Key{}) {
			b, err := k.binding(obj)
			if err != nil {
				return nil, err
			}
			bindings[k.policyName(b)] = append(bindings[k.policyName(b)], b)
		}
		all := &bound[P, B, E]{}
		for obj := range sn.Scan(k.policies, "", store.Key{}) {
			if len(bindings[obj.Key.Name]) == 0 {
				continue // a policy that is not bound has no effect
			}
			p, err := k.policy(obj)
			if err != nil {
				return nil, err
			}
			e, err := obj.Memo(compiled{}, func() (any, error) { return k.compile(p), nil })
			if err != nil {
				return nil, err
			}
			all.hooks = append(all.hooks, generic.PolicyHook[P, B, E]{Policy: p, Bindings: bindings[obj.Key.Name],
				Evaluator: e.(E)})
			all.params = append(all.params, k.params(p))
			all.any = all.any || k.params(p) != nil
		}
		return all, nil
	}, k.policies, k.bindings)
	return s, nil
}

// Idle reports whether no policy has a binding.
func (s *source[P, B, E]) Idle(admission.Operation) bool {
	all, err := s.view.Get()
	if err != nil || len(all.hooks) > 0 {
		return false
	}
	s.release()
	return len(s.manifests.hooks()) == 0
}

// candidates returns the policies that may match a request.
func (s *source[P, B, E]) candidates(a admission.Attributes) ([]generic.PolicyHook[P, B, E], error) {
	if matching.Review(a) {
		return nil, nil
	}
	static := s.manifests.hooks()
	if matching.Policy(a) {
		return static, nil
	}
	api, err := s.hooks()
	if err != nil || len(static) == 0 {
		return api, err
	}
	return slices.Concat(static, api), nil
}

// hooks returns the policies of the API that have bindings, with access to their parameters.
func (s *source[P, B, E]) hooks() ([]generic.PolicyHook[P, B, E], error) {
	all, err := s.view.Get()
	if err != nil {
		return nil, err
	}
	if !all.any {
		s.release()
		return all.hooks, nil
	}
	set := s.registry.Current()
	if r := s.resolved.Load(); r.current(all, set.Generation) {
		return r.hooks, nil
	}
	s.resolving.Lock()
	defer s.resolving.Unlock()
	if r := s.resolved.Load(); r.current(all, set.Generation) {
		return r.hooks, nil
	}
	next := s.resolve(all, set)
	s.resolved.Store(next)
	return next.hooks, nil
}

// resolve gives policies access to their parameters. The caller holds s.resolving.
func (s *source[P, B, E]) resolve(all *bound[P, B, E], set *resource.Set) *resolved[P, B, E] {
	next := &resolved[P, B, E]{from: all, generation: set.Generation}
	used := map[schema.GroupVersionKind]bool{} // kinds of parameters in the cluster
	for i, hook := range all.hooks {
		if kind := all.params[i]; kind != nil {
			gvk := schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
			res, ok := set.ByKind(gvk.GroupKind())
			if ok {
				_, ok = res.Serves(gvk.Version)
			}
			switch {
			case ok:
				hook.ParamInformer, hook.ParamScope = &params{store: s.objects(res), resource: res,
					version: gvk.Version}, meta.RESTScopeRoot
				if res.Namespaced {
					hook.ParamScope = meta.RESTScopeNamespace
				}
			case s.remote == nil:
				hook.ConfigurationError = fmt.Errorf("failed to find resource referenced by paramKind: '%v'", gvk)
			default:
				used[gvk] = true
				k, err := s.remote.kind(gvk)
				if err != nil {
					hook.ConfigurationError, next.until = err, time.Now().Add(retryUnknown)
					break
				}
				hook.ParamInformer, hook.ParamScope = k.informer, k.scope
				// The evaluation uses these to read a parameter that the informer does not have
				// yet.
				hook.DynamicClient, hook.RESTMapper = s.remote.cluster.Client, k.mapping
			}
		}
		next.hooks = append(next.hooks, hook)
	}
	if s.remote != nil {
		s.remote.keep(used)
	}
	return next
}

// release ends the access to parameters. It is called when no policy has a binding.
func (s *source[P, B, E]) release() {
	if s.resolved.Load() == nil {
		return
	}
	s.resolving.Lock()
	defer s.resolving.Unlock()
	s.resolved.Store(nil)
	if s.remote != nil {
		s.remote.keep(nil)
	}
}

// Stop stops following the manifests, and ends the watches of parameters.
func (s *source[P, B, E]) Stop() {
	s.manifests.stop()
	if s.remote != nil {
		s.remote.end()
	}
}
