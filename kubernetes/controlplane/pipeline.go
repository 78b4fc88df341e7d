package controlplane

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"runtime"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/compatibility"

	"kelson.dev/apiserver/aggregator"
	"kelson.dev/apiserver/authn"
	"kelson.dev/apiserver/crd"
	"kelson.dev/apiserver/discovery"
	"kelson.dev/apiserver/filters"
	"kelson.dev/apiserver/flowcontrol"
	"kelson.dev/apiserver/openapi"
	"kelson.dev/apiserver/resource"
	verbs "kelson.dev/apiserver/rest"
	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/builtin"
	"kelson.dev/kubernetes/controllers/cachesync"
	"kelson.dev/kubernetes/openapispec"
	"kelson.dev/kubernetes/tokens"
	"kelson.dev/kubernetes/usage"
)

// newChain builds the request pipeline in front of the handlers of resources and paths.
func newChain(cfg Config, metrics *prometheus.Registry, flows *flowcontrol.Controller, st *store.Store,
	issuer *tokens.Issuer, identify *authn.Authenticator, authorizer authorizer.Authorizer, registry *resource.Registry,
	resources *verbs.Handler, definitions *crd.Definitions, others *aggregator.Aggregator,
	waits *cachesync.Waits) (*filters.Chain, error) {
	effective, err := cfg.Version.Effective()
	if err != nil {
		return nil, err
	}
	found := discovery.New(discovery.Config{Registry: registry, Others: others.Discovery,
		Priorities: builtin.Priorities})
	groups := others.Handler(caughtUp(catchUp(st, definitions), found))
	documents := caughtUp(catchUp(st, definitions), openapi.New(openapi.Config{
		Registry: registry, Custom: usage.Describe(definitions), Others: others.OpenAPI, Packed: openapispec.Archive,
	}))
	// A store that failed rejects writes until the process restarts, so liveness also reports it. A
	// store without space accepts writes again as soon as there is space.
	checks := []filters.Check{{Name: "store", Func: func(context.Context) error { return st.Failed() }}}
	// kube-apiserver's check of this name reports the caches of its own informers.
	ready := append(reachable(st), append(checks, filters.Check{Name: "informer-sync", Func: waits.Check})...)
	live := []filters.Check{{Name: "store", Func: func(context.Context) error {
		if err := st.Failed(); !errors.Is(err, store.ErrFull) {
			return err
		}
		return nil
	}}}
	paths := map[string]http.Handler{
		"/api": groups, "/api/": groups, "/apis": groups, "/apis/": groups,
		"/openapi/": documents,
		BackupPath:  backup(st),
	}
	maps.Copy(paths, issuer.Discovery())
	maps.Copy(paths, cfg.Paths)
	if flows != nil {
		maps.Copy(paths, flows.Pages())
	}
	if cfg.Profiling {
		maps.Copy(paths, profiling())
	}
	var chain *filters.Chain
	maps.Copy(paths, diagnostics(cfg.Flags, effective, func() []string { return chain.ListedPaths() }))
	chain = filters.New(filters.Config{
		Resources:     others.Handler(resources),
		Paths:         paths,
		Below:         func() []string { return append(found.Paths(), "/openapi/v2", "/openapi/v3", "/openapi/v3/") },
		Authenticator: identify,
		Audiences:     identify.Audiences(),
		AuditPolicy:   cfg.Audit.Policy,
		AuditSink:     cfg.Audit.Sink,
		Authorizer:    authorizer,
		Version:       kubernetesVersion(effective),
		Checks:        filters.Checks{Health: checks, Live: live, Ready: ready},
		Metrics:       metrics,
		Serves:        serves(registry),
		FlowControl:   flows,
		MaxInFlight:   cfg.Limits.InFlight, MaxMutatingInFlight: cfg.Limits.MutatingInFlight,
		MaxLongRunningPerUser: cfg.Limits.LongRunningPerUser,
		Timeout:               cfg.RequestTimeout,
		Log:                   cfg.Log,
	})
	return chain, nil
}

// serves returns a function that reports whether the registry currently has the requested resource
// and subresource.
func serves(registry *resource.Registry) func(*request.RequestInfo) bool {
	return func(info *request.RequestInfo) bool {
		gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
		return registry.Current().Serves(gvr, info.Subresource)
	}
}

// kubernetesVersion is the document at /version, from which clients derive the supported features.
func kubernetesVersion(effective compatibility.EffectiveVersion) version.Info {
	number := func(n uint) string { return strconv.FormatUint(uint64(n), 10) }
	binary, emulated, least := effective.BinaryVersion(), effective.EmulationVersion(),
		effective.MinCompatibilityVersion()
	return version.Info{
		Major: number(binary.Major()), Minor: number(binary.Minor()), GitVersion: KubernetesVersion,
		GitTreeState:   "clean",
		EmulationMajor: number(emulated.Major()), EmulationMinor: number(emulated.Minor()),
		MinCompatibilityMajor: number(least.Major()), MinCompatibilityMinor: number(least.Minor()),
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}
