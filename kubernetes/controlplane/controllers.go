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
	"kelson.dev/kubernetes/controllers/ipaddresses"
	"kelson.dev/kubernetes/controllers/loadbalancer"
	"kelson.dev/kubernetes/controllers/namespace"
	"kelson.dev/kubernetes/controllers/namespacedefaults"
	"kelson.dev/kubernetes/controllers/nodelifecycle"
	"kelson.dev/kubernetes/controllers/nodetaints"
	"kelson.dev/kubernetes/controllers/resourcequota"
	"kelson.dev/kubernetes/controllers/servicecidrs"
	"kelson.dev/kubernetes/controllers/simulatedvolumes"
	"kelson.dev/kubernetes/controllers/storagemigration"
	"kelson.dev/kubernetes/controllers/storageprotection"
	"kelson.dev/kubernetes/controllers/ttlafterfinished"
	"kelson.dev/kubernetes/controllers/workloads"
	issuer "kelson.dev/kubernetes/tokens"
	"kelson.dev/operator/client"
)

// startControllers starts the controllers that are part of the API's expected behavior.
func (p *ControlPlane) startControllers(ctx context.Context, parts *parts, cfg Config, issue *issuer.Issuer, authorizer authorizer.UnconditionalAuthorizer, others *aggregator.Aggregator) error {
	for _, run := range cfg.Once {
		parts.run(ctx, "run once", run)
	}
	parts.run(ctx, "event expiry", expiry.New(p.store, "events", cfg.EventLifetime).Run)
	if !restoresObjects(cfg) && !p.nodes.exist() {
		return nil
	}
	controllersClient, err := client.New(client.Config{REST: p.RESTConfig(), FieldOwner: "kelson-controllers"})
	if err != nil {
		return fmt.Errorf("create the controllers' client: %w", err)
	}
	run := func(name string, run func(context.Context) error) {
		if cfg.Controllers.Runs(name) {
			parts.run(ctx, name, run)
		}
	}
	if restoresObjects(cfg) {
		// These are parts of kube-apiserver, so --controllers does not select them.
		p.keepInitialObjects(ctx, parts, cfg)
		parts.run(ctx, "IP addresses", ipaddresses.New(ipaddresses.Config{Store: p.store, Client: controllersClient, Log: cfg.Log}).Run)
	}
	if !cfg.NoControllers || p.nodes.exist() {
		// The control plane's own node needs this controller even with NoControllers: without it,
		// the node stays tainted.
		run("node-lifecycle-controller", nodetaints.New(nodetaints.Config{Store: p.store, Client: controllersClient, Log: cfg.Log}).Run)
	}
	if cfg.NoControllers {
		return nil
	}
	run("service-cidr-controller", servicecidrs.New(servicecidrs.Config{Store: p.store, Client: controllersClient, Log: cfg.Log}).Run)
	run("garbage-collector-controller", garbagecollector.New(garbagecollector.Config{
		Store: p.store, Registry: p.registry, Objects: p.verbs, Client: controllersClient, Servers: p.serversAs(others, "generic-garbage-collector"), Log: cfg.Log,
	}).Run)
	run(defaultsNames[0], namespacedefaults.New(namespacedefaults.Config{Store: p.store, Client: controllersClient, RootCA: cfg.RootCA, Log: cfg.Log}).Run)
	run("ttl-after-finished-controller", ttlafterfinished.New(ttlafterfinished.Config{Store: p.store, Client: controllersClient, Log: cfg.Log}).Run)
	run("clusterrole-aggregation-controller", clusterroleaggregation.New(clusterroleaggregation.Config{Store: p.store, Client: controllersClient, Log: cfg.Log}).Run)
	run(protectionNames[0], storageprotection.New(storageprotection.Config{Store: p.store, Client: controllersClient, Log: cfg.Log}).Run)
	run("disruption-controller", disruption.New(disruption.Config{
		Store: p.store, Registry: p.registry, Objects: p.verbs, Client: controllersClient, Log: cfg.Log,
	}).Run)
	run("node-lifecycle-controller", nodelifecycle.New(nodelifecycle.Config{Store: p.store, Client: controllersClient, Log: cfg.Log}).Run)
	run("resourcequota-controller", resourcequota.New(resourcequota.Config{Store: p.store, Registry: p.registry, Log: cfg.Log}).Run)
	run("validatingadmissionpolicy-status-controller", admissionpolicystatus.New(admissionpolicystatus.Config{Store: p.store, Registry: p.registry, REST: p.RESTConfig(), Log: cfg.Log}).Run)
	run("storage-version-migrator-controller", storagemigration.New(storagemigration.Config{
		Store: p.store, Registry: p.registry, REST: p.RESTConfig(), Servers: p.serversAs(others, "storage-version-migrator-controller"), Log: cfg.Log,
	}).Run)
	run("namespace-controller", namespace.New(namespace.Config{
		Store: p.store, Registry: p.registry, Objects: p.verbs, Client: controllersClient, Servers: p.serversAs(others, "namespace-controller"), Log: cfg.Log,
	}).Run)
	p.startCredentials(ctx, parts, cfg, controllersClient, issue, authorizer)
	if len(cfg.LoadBalancers) > 0 {
		run(loadBalancersName, loadbalancer.New(loadbalancer.Config{Store: p.store, Client: controllersClient, Pool: cfg.LoadBalancers, Log: cfg.Log}).Run)
	}
	if simulatesVolumes(cfg) {
		volumes := simulatedvolumes.New(simulatedvolumes.Config{Store: p.store, Client: controllersClient, Log: cfg.Log})
		if err := volumes.Install(ctx); err != nil {
			return err
		}
		parts.run(ctx, "simulated volumes", volumes.Run)
	}
	if cfg.Workloads {
		parts.run(ctx, "workloads", workloads.New(workloads.Config{
			Store: p.store, REST: p.RESTConfig(), Selected: cfg.Controllers, PodRanges: cfg.PodRanges, Waits: p.waits, Log: cfg.Log,
		}).Run)
	}
	return nil
}
