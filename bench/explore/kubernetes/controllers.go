package kubernetes

import (
	"context"
	"time"

	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/statefulset"
)

// kube-controller-manager's defaults.
const (
	workers          = 5
	endpointsPerPart = 100
	daemonBackOff    = time.Second
	daemonBackOffMax = 15 * time.Minute
)

// controller is one of Kubernetes' controllers.
type controller interface {
	Run(ctx context.Context, workers int)
}

// process has the informers and the client of one process.
type process struct {
	informers.SharedInformerFactory
	client clientset.Interface
	config *rest.Config
}

// constructor creates a controller of a process.
type constructor func(context.Context, process) (controller, error)

// operator returns a Scenario.Operator that runs the controller with informers of its own.
func operator(construct constructor) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, config *rest.Config) error {
		config = rest.CopyConfig(config)
		config.QPS = -1
		client, err := clientset.NewForConfig(config)
		if err != nil {
			return err
		}
		factory := informers.NewSharedInformerFactory(client, 0)
		c, err := construct(ctx, process{factory, client, config})
		if err != nil {
			return err
		}
		factory.StartWithContext(ctx)
		defer factory.Shutdown()
		c.Run(ctx, workers)
		return nil
	}
}

func replicaSets(ctx context.Context, p process) (controller, error) {
	return replicaset.NewReplicaSetController(ctx, p.Apps().V1().ReplicaSets(), p.Core().V1().Pods(), p.client,
		replicaset.BurstReplicas), nil
}

func deployments(ctx context.Context, p process) (controller, error) {
	return deployment.NewDeploymentController(ctx, p.Apps().V1().Deployments(), p.Apps().V1().ReplicaSets(),
		p.Core().V1().Pods(), p.client)
}

func statefulSets(ctx context.Context, p process) (controller, error) {
	return statefulset.NewStatefulSetController(ctx, p.Core().V1().Pods(), p.Apps().V1().StatefulSets(),
		p.Core().V1().PersistentVolumeClaims(), p.Apps().V1().ControllerRevisions(), p.client), nil
}

func daemonSets(ctx context.Context, p process) (controller, error) {
	return daemon.NewDaemonSetsController(ctx, p.Apps().V1().DaemonSets(), p.Apps().V1().ControllerRevisions(),
		p.Core().V1().Pods(), p.Core().V1().Nodes(), p.client, flowcontrol.NewBackOff(daemonBackOff, daemonBackOffMax))
}

func jobs(ctx context.Context, p process) (controller, error) {
	return job.NewController(ctx, p.client, p.Core().V1().Pods(), p.Batch().V1().Jobs(), nil, nil)
}

func cronJobs(ctx context.Context, p process) (controller, error) {
	return cronjob.NewControllerV2(ctx, p.Batch().V1().Jobs(), p.Batch().V1().CronJobs(), p.client)
}

func endpointSlices(ctx context.Context, p process) (controller, error) {
	return endpointslice.NewController(ctx, p.Core().V1().Pods(), p.Core().V1().Services(), p.Core().V1().Nodes(),
		p.Discovery().V1().EndpointSlices(), endpointsPerPart, p.client, 0), nil
}
