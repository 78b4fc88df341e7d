package controlplane

import (
	"context"

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
	"kelson.dev/kubernetes/controllers/objects"
	"kelson.dev/kubernetes/controllers/resourcequota"
	"kelson.dev/kubernetes/controllers/servicecidrs"
	"kelson.dev/kubernetes/controllers/simulatedvolumes"
	"kelson.dev/kubernetes/controllers/storagemigration"
	"kelson.dev/kubernetes/controllers/storageprotection"
	"kelson.dev/kubernetes/controllers/ttlafterfinished"
	"kelson.dev/kubernetes/controllers/workloads"
	"kelson.dev/kubernetes/identity"
	issuer "kelson.dev/kubernetes/tokens"
)

// collector is the service account of the garbage collector.
const collector = "generic-garbage-collector"

// startControllers starts the controllers that are part of the API's expected behavior.
func (p *ControlPlane) startControllers(ctx context.Context, parts *parts, cfg Config, issue *issuer.Issuer,
	authorizer authorizer.UnconditionalAuthorizer, others *aggregator.Aggregator) error {
	for _, run := range cfg.Once {
		parts.run(ctx, "run once", run)
	}
	parts.run(ctx, "event expiry", expiry.New(p.store, "events", cfg.EventLifetime).Run)
	if !restoresObjects(cfg) && !p.nodes.exist() {
		return nil
	}
	as, err := p.controllerClients()
	if err != nil {
		return err
	}
	run := func(name string, run func(context.Context) error) {
		if cfg.selects(name) {
			parts.run(ctx, name, run)
		}
	}
	if restoresObjects(cfg) {
		// These are parts of kube-apiserver, so --controllers does not select them.
		p.keepInitialObjects(ctx, parts, cfg)
		parts.run(ctx, "IP addresses", ipaddresses.New(ipaddresses.Config{Store: p.store, Client: as.server,
			Log: cfg.Log}).Run)
	}
	if cfg.controls() || p.nodes.exist() {
		// The control plane's own node needs this controller even with NoControllers: without it,
		// the node stays tainted.
		run("node-lifecycle-controller", nodetaints.New(nodetaints.Config{Store: p.store, Shared: p.shared,
			Client: as.controller("node-controller"), Log: cfg.Log}).Run)
	}
	if !cfg.controls() {
		return nil
	}
	run("service-cidr-controller", servicecidrs.New(servicecidrs.Config{Store: p.store,
		Client: as.controller("service-cidrs-controller"), Log: cfg.Log}).Run)
	run("garbage-collector-controller", garbagecollector.New(garbagecollector.Config{
		Store: p.store, Registry: p.registry, Objects: objects.New(p.controllerConfig(collector)),
		Client:  as.controller(collector),
		Servers: p.serversAs(others, collector), Log: cfg.Log,
	}).Run)
	run(defaultsNames[0], namespacedefaults.New(namespacedefaults.Config{
		Store: p.store, Accounts: as.controller("service-account-controller"),
		ConfigMaps: as.controller("root-ca-cert-publisher"), RootCA: cfg.RootCA, Log: cfg.Log,
	}).Run)
	run("ttl-after-finished-controller", ttlafterfinished.New(ttlafterfinished.Config{Store: p.store,
		Client: as.controller("ttl-after-finished-controller"), Log: cfg.Log}).Run)
	run("clusterrole-aggregation-controller",
		clusterroleaggregation.New(clusterroleaggregation.Config{Store: p.store,
			Client: as.controller("clusterrole-aggregation-controller"), Log: cfg.Log}).Run)
	run(protectionNames[0], storageprotection.New(storageprotection.Config{
		Store: p.store, Claims: as.controller("pvc-protection-controller"),
		Volumes: as.controller("pv-protection-controller"),
		Classes: as.controller("volumeattributesclass-protection-controller"), Log: cfg.Log,
	}).Run)
	run("disruption-controller", disruption.New(disruption.Config{
		Store: p.store, Registry: p.registry, Objects: p.verbs, Client: as.controller("disruption-controller"),
		Log: cfg.Log,
	}).Run)
	run("node-lifecycle-controller", nodelifecycle.New(nodelifecycle.Config{Store: p.store, Shared: p.shared,
		Client: as.controller("node-controller"), Log: cfg.Log}).Run)
	run("resourcequota-controller", resourcequota.New(resourcequota.Config{Store: p.store,
		Client: as.controller("resourcequota-controller"), Log: cfg.Log}).Run)
	run("validatingadmissionpolicy-status-controller", admissionpolicystatus.New(admissionpolicystatus.Config{
		Store: p.store, Registry: p.registry, REST: p.controllerConfig("validatingadmissionpolicy-status-controller"),
		Log: cfg.Log,
	}).Run)
	run("storage-version-migrator-controller", storagemigration.New(storagemigration.Config{
		Store: p.store, Registry: p.registry, REST: p.controllerConfig("storage-version-migrator-controller"),
		Servers: p.serversAs(others, "storage-version-migrator-controller"), Log: cfg.Log,
	}).Run)
	run("namespace-controller", namespace.New(namespace.Config{
		Store: p.store, Registry: p.registry, Objects: objects.New(p.controllerConfig("namespace-controller")),
		Client: as.controller("namespace-controller"), Servers: p.serversAs(others, "namespace-controller"),
		Log: cfg.Log,
	}).Run)
	p.startCredentials(ctx, parts, cfg, as, issue, authorizer)
	if pool := cfg.loadBalancers(); len(pool) > 0 {
		run(loadBalancersName, loadbalancer.New(loadbalancer.Config{Store: p.store,
			Client: as.controller("service-controller"), Pool: pool, Log: cfg.Log}).Run)
	}
	if simulatesVolumes(cfg) {
		volumes := simulatedvolumes.New(simulatedvolumes.Config{Store: p.store,
			Client: as.controller(identity.SimulatedVolumes), Log: cfg.Log})
		if err := volumes.Install(ctx); err != nil {
			return err
		}
		parts.run(ctx, "simulated volumes", volumes.Run)
	}
	if all, ok := cfg.Controllers.(AllControllers); ok {
		parts.run(ctx, "workloads", workloads.New(workloads.Config{
			Store: p.store, Shared: p.shared, As: p.RESTConfigAs, Selected: all.Selection, PodRanges: all.PodRanges,
			Waits: p.waits, Log: cfg.Log,
		}).Run)
	}
	return nil
}
