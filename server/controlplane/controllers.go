package controlplane

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/operator/client"
	issuer "kelson.dev/server/builtin/tokens"
	"kelson.dev/server/builtin/workloads"
	"kelson.dev/server/controllers/clusterroles"
	"kelson.dev/server/controllers/disruption"
	"kelson.dev/server/controllers/expiry"
	"kelson.dev/server/controllers/furnish"
	"kelson.dev/server/controllers/garbage"
	"kelson.dev/server/controllers/namespace"
	"kelson.dev/server/controllers/nodehealth"
	"kelson.dev/server/controllers/policystatus"
	"kelson.dev/server/controllers/protection"
	"kelson.dev/server/controllers/quota"
	"kelson.dev/server/controllers/taints"
	"kelson.dev/server/controllers/ttl"
)

// startControllers starts the controllers without which the API does not behave as one expects.
func (p *ControlPlane) startControllers(ctx context.Context, parts *parts, cfg Config, issue *issuer.Issuer, may authorizer.UnconditionalAuthorizer) error {
	for _, run := range cfg.Once {
		parts.run(ctx, "what is to run once", run)
	}
	parts.run(ctx, "event expiry", expiry.New(p.store, "events", cfg.EventLifetime).Run)
	if cfg.NoControllers && p.node.agent == nil {
		return nil
	}
	own, err := client.New(client.Config{REST: p.RESTConfig(), FieldOwner: "kelson-controllers"})
	if err != nil {
		return fmt.Errorf("make the controllers' client: %w", err)
	}
	// A node of its own is of no use without: it would stay tainted.
	parts.run(ctx, "node taints", taints.New(taints.Config{Store: p.store, Client: own, Log: cfg.Log}).Run)
	if cfg.NoControllers {
		return nil
	}
	parts.run(ctx, "garbage collector", garbage.New(garbage.Config{
		Store: p.store, Registry: p.registry, Objects: p.verbs, Log: cfg.Log,
	}).Run)
	parts.run(ctx, "namespaces' furnishing", furnish.New(furnish.Config{Store: p.store, Client: own, RootCA: cfg.RootCA, Log: cfg.Log}).Run)
	parts.run(ctx, "ttl after finished", ttl.New(ttl.Config{Store: p.store, Client: own, Log: cfg.Log}).Run)
	parts.run(ctx, "cluster role aggregation", clusterroles.New(clusterroles.Config{Store: p.store, Client: own, Log: cfg.Log}).Run)
	parts.run(ctx, "storage protection", protection.New(protection.Config{Store: p.store, Client: own, Log: cfg.Log}).Run)
	parts.run(ctx, "disruption budgets", disruption.New(disruption.Config{
		Store: p.store, Registry: p.registry, Objects: p.verbs, Client: own, Log: cfg.Log,
	}).Run)
	parts.run(ctx, "node health", nodehealth.New(nodehealth.Config{Store: p.store, Client: own, Log: cfg.Log}).Run)
	parts.run(ctx, "resource quota", quota.New(quota.Config{Store: p.store, Registry: p.registry, Log: cfg.Log}).Run)
	parts.run(ctx, "policy status", policystatus.New(policystatus.Config{Store: p.store, Registry: p.registry, REST: p.RESTConfig(), Log: cfg.Log}).Run)
	parts.run(ctx, "namespace controller", namespace.New(namespace.Config{
		Store: p.store, Registry: p.registry, Objects: p.verbs, Client: own, Log: cfg.Log,
	}).Run)
	p.startCredentials(ctx, parts, cfg, own, issue, may)
	if cfg.Workloads {
		parts.run(ctx, "workloads", workloads.New(workloads.Config{Store: p.store, REST: p.RESTConfig(), Log: cfg.Log}).Run)
	}
	return nil
}
