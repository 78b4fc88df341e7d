package workloads

import (
	"context"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/endpoint"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/endpointslicemirroring"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/replication"
	"k8s.io/kubernetes/pkg/controller/resourceclaim"
	"k8s.io/kubernetes/pkg/controller/statefulset"

	"kelson.dev/apiserver/store"
)

// group is a set of controllers that start together.
type group struct {
	kinds     []string  // the first object of one of these resources starts the group
	but       store.Key // an object that does not start the group
	construct func(context.Context, *informers) ([]controller, error)
}

// controller is one of Kubernetes' controllers. Run returns when ctx has ended and its workers have
// stopped.
type controller interface {
	Run(ctx context.Context, workers int)
}

// kube-controller-manager's defaults.
const (
	endpointsPerSlice  = 100
	endpointsPerSubset = 1000
	daemonBackOff      = time.Second
	daemonBackOffMax   = 15 * time.Minute
)

func groups() []group {
	return []group{
		{kinds: []string{"deployments.apps", "replicasets.apps", "replicationcontrollers"}, construct: replicas},
		{kinds: []string{"statefulsets.apps"}, construct: statefulSets},
		{kinds: []string{"daemonsets.apps"}, construct: daemonSets},
		{kinds: []string{"jobs.batch"}, construct: jobs},
		{kinds: []string{"cronjobs.batch"}, construct: cronJobs},
		{kinds: []string{"resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"}, construct: resourceClaims},
		// Every control plane has the Service "kubernetes", whose endpoints no controller
		// maintains.
		{kinds: []string{"services"}, but: store.Key{Resource: "services", Namespace: "default", Name: "kubernetes"}, construct: endpoints},
	}
}

func replicas(ctx context.Context, read *informers) ([]controller, error) {
	deployments, err := deployment.NewDeploymentController(ctx, read.deployments(), read.replicaSets(), read.pods(), read.client)
	if err != nil {
		return nil, err
	}
	return []controller{
		deployments,
		replicaset.NewReplicaSetController(ctx, read.replicaSets(), read.pods(), read.client, replicaset.BurstReplicas),
		replication.NewReplicationManager(ctx, read.pods(), read.replicationControllers(), read.client, replication.BurstReplicas),
	}, nil
}

func statefulSets(ctx context.Context, read *informers) ([]controller, error) {
	return []controller{
		statefulset.NewStatefulSetController(ctx, read.pods(), read.statefulSets(), read.claims(), read.revisions(), read.client),
	}, nil
}

func daemonSets(ctx context.Context, read *informers) ([]controller, error) {
	sets, err := daemon.NewDaemonSetsController(ctx, read.daemonSets(), read.revisions(), read.pods(), read.nodes(), read.client,
		flowcontrol.NewBackOff(daemonBackOff, daemonBackOffMax))
	return []controller{sets}, err
}

func jobs(ctx context.Context, read *informers) ([]controller, error) {
	// The feature gate of gang scheduling (pod groups) is off, so its informers are nil.
	jobs, err := job.NewController(ctx, read.client, read.pods(), read.jobs(), nil, nil)
	return []controller{jobs}, err
}

func cronJobs(ctx context.Context, read *informers) ([]controller, error) {
	crons, err := cronjob.NewControllerV2(ctx, read.jobs(), read.cronJobs(), read.client)
	return []controller{crons}, err
}

// resourceClaims returns the controller that creates the claims of pods from their templates, and
// removes reservations and claims of pods that have ended.
func resourceClaims(ctx context.Context, read *informers) ([]controller, error) {
	// The feature gate of claims for pod groups is off, so their informer is nil.
	claims, err := resourceclaim.NewController(klog.FromContext(ctx), read.client, read.pods(), nil, read.resourceClaims(), read.claimTemplates())
	return []controller{claims}, err
}

// endpoints returns the controllers that write the ready pods of Services to EndpointSlices and to
// the older Endpoints, and that mirror hand-written Endpoints to EndpointSlices.
func endpoints(ctx context.Context, read *informers) ([]controller, error) {
	return []controller{
		endpointslice.NewController(ctx, read.pods(), read.services(), read.nodes(), read.slices(), endpointsPerSlice, read.client, 0),
		endpoint.NewEndpointController(ctx, read.pods(), read.services(), read.endpoints(), read.client, 0),
		endpointslicemirroring.NewController(ctx, read.endpoints(), read.slices(), read.services(), endpointsPerSubset, read.client, 0),
	}, nil
}
