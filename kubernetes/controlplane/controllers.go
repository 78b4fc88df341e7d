package controlplane

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/apiserver/aggregator"
	"kelson.dev/kubernetes/controllers/admissionpolicystatus"
	"kelson.dev/kubernetes/controllers/clusterroleaggregation"
	"kelson.dev/kubernetes/controllers/disruption"
	"kelson.dev/kubernetes/controllers/expiry"
	"kelson.dev/kubernetes/controllers/garbagecollector"
	"kelson.dev/kubernetes/controllers/namespace"
	"kelson.dev/kubernetes/controllers/namespacedefaults"
	"kelson.dev/kubernetes/controllers/nodelifecycle"
	"kelson.dev/kubernetes/controllers/nodetaints"
	"kelson.dev/kubernetes/controllers/resourcequota"
	"kelson.dev/kubernetes/controllers/storageprotection"
	"kelson.dev/kubernetes/controllers/ttlafterfinished"
	"kelson.dev/kubernetes/controllers/workloads"
	issuer "kelson.dev/kubernetes/tokens"
	"kelson.dev/operator/client"
)

// startControllers starts the controllers that are part of the API's expected behavior.
func (p *ControlPlane) startControllers(ctx context.Context, parts *parts, cfg Config, issue *issuer.Issuer, may authorizer.UnconditionalAuthorizer, others *aggregator.Aggregator) error {
	for _, run := range cfg.Once {
		parts.run(ctx, "run once", run)
	}
	parts.run(ctx, "event expiry", expiry.New(p.store, "events", cfg.EventLifetime).Run)
	if cfg.NoControllers && p.node.agent == nil {
		return nil
	}
	own, err := client.New(client.Config{REST: p.RESTConfig(), FieldOwner: "kelson-controllers"})
	if err != nil {
		return fmt.Errorf("create the controllers' client: %w", err)
	}
	// The control plane's own node needs this controller even with NoControllers: without it, the
	// node stays tainted.
	parts.run(ctx, "node taints", nodetaints.New(nodetaints.Config{Store: p.store, Client: own, Log: cfg.Log}).Run)
	if cfg.NoControllers {
		return nil
	}
	parts.run(ctx, "garbage collector", garbagecollector.New(garbagecollector.Config{
		Store: p.store, Registry: p.registry, Objects: p.verbs, Servers: p.serversAs(others, "generic-garbage-collector"), Log: cfg.Log,
	}).Run)
	parts.run(ctx, "namespace defaults", namespacedefaults.New(namespacedefaults.Config{Store: p.store, Client: own, RootCA: cfg.RootCA, Log: cfg.Log}).Run)
	parts.run(ctx, "ttl after finished", ttlafterfinished.New(ttlafterfinished.Config{Store: p.store, Client: own, Log: cfg.Log}).Run)
	parts.run(ctx, "cluster role aggregation", clusterroleaggregation.New(clusterroleaggregation.Config{Store: p.store, Client: own, Log: cfg.Log}).Run)
	parts.run(ctx, "storage protection", storageprotection.New(storageprotection.Config{Store: p.store, Client: own, Log: cfg.Log}).Run)
	parts.run(ctx, "disruption budgets", disruption.New(disruption.Config{
		Store: p.store, Registry: p.registry, Objects: p.verbs, Client: own, Log: cfg.Log,
	}).Run)
	parts.run(ctx, "node health", nodelifecycle.New(nodelifecycle.Config{Store: p.store, Client: own, Log: cfg.Log}).Run)
	parts.run(ctx, "resource quota", resourcequota.New(resourcequota.Config{Store: p.store, Registry: p.registry, Log: cfg.Log}).Run)
	parts.run(ctx, "policy status", admissionpolicystatus.New(admissionpolicystatus.Config{Store: p.store, Registry: p.registry, REST: p.RESTConfig(), Log: cfg.Log}).Run)
	parts.run(ctx, "namespace controller", namespace.New(namespace.Config{
		Store: p.store, Registry: p.registry, Objects: p.verbs, Client: own, Servers: p.serversAs(others, "namespace-controller"), Log: cfg.Log,
	}).Run)
	p.startCredentials(ctx, parts, cfg, own, issue, may)
	if cfg.Workloads {
		parts.run(ctx, "workloads", workloads.New(workloads.Config{Store: p.store, REST: p.RESTConfig(), Log: cfg.Log}).Run)
	}
	return nil
}
