package kubernetes

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	podmetrics "k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	"k8s.io/kubernetes/pkg/controller/volume/persistentvolume"
	resourcemetrics "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/custom_metrics"
	"k8s.io/metrics/pkg/client/external_metrics"
)

// kube-controller-manager's defaults.
const (
	autoscalerSync      = 15 * time.Second
	downscaleWindow     = 5 * time.Minute
	autoscalerTolerance = 0.1
	cpuInitialization   = 5 * time.Minute
	initialReadiness    = 30 * time.Second
	namespaceSync       = 5 * time.Minute
	collectorSync       = 30 * time.Second
	binderSync          = 15 * time.Second
)

// run is a controller whose only parameter is a context.
type run func(context.Context)

func (r run) Run(ctx context.Context, _ int) { r(ctx) }

// volumeBinder has no plugins: the control plane's simulated driver creates the volumes.
func volumeBinder(ctx context.Context, p process) (controller, error) {
	binder, err := persistentvolume.NewController(ctx, persistentvolume.ControllerParameters{
		KubeClient: p.client, SyncPeriod: binderSync, EnableDynamicProvisioning: true,
		VolumeInformer: p.Core().V1().PersistentVolumes(), ClaimInformer: p.Core().V1().PersistentVolumeClaims(),
		ClassInformer: p.Storage().V1().StorageClasses(), PodInformer: p.Core().V1().Pods(),
		NodeInformer: p.Core().V1().Nodes(),
	})
	if err != nil {
		return nil, err
	}
	return run(binder.Run), nil
}

func podAutoscaler(ctx context.Context, p process) (controller, error) {
	kinds := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(p.client.Discovery()))
	scales, err := scale.NewForConfig(p.config, kinds, dynamic.LegacyAPIPathResolverFunc,
		scale.NewDiscoveryScaleKindResolver(p.client.Discovery()))
	if err != nil {
		return nil, err
	}
	resources, err := resourcemetrics.NewForConfig(p.config)
	if err != nil {
		return nil, err
	}
	external, err := external_metrics.NewForConfig(p.config)
	if err != nil {
		return nil, err
	}
	custom := custom_metrics.NewForConfig(p.config, kinds, custom_metrics.NewAvailableAPIsGetter(p.client.Discovery()))
	return podautoscaler.NewHorizontalController(ctx, p.client.CoreV1(), scales, p.client.AutoscalingV2(), kinds,
		podmetrics.NewRESTMetricsClient(resources, custom, external),
		p.Autoscaling().V2().HorizontalPodAutoscalers(), p.Core().V1().Pods(),
		autoscalerSync, downscaleWindow, autoscalerTolerance, cpuInitialization, initialReadiness), nil
}

func namespaces(ctx context.Context, p process) (controller, error) {
	objects, err := metadata.NewForConfig(p.config)
	if err != nil {
		return nil, err
	}
	return namespace.NewNamespaceController(ctx, p.client, objects,
		p.client.Discovery().ServerPreferredNamespacedResources, p.Core().V1().Namespaces(), namespaceSync,
		corev1.FinalizerKubernetes), nil
}

// collector is the garbage collector, with the loop that reads which kinds the server has.
type collector struct {
	*garbagecollector.GarbageCollector
	kinds discovery.DiscoveryInterface
}

// Run runs the collector until ctx ends.
func (c collector) Run(ctx context.Context, workers int) {
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { c.Sync(ctx, c.kinds, collectorSync) })
	c.GarbageCollector.Run(ctx, workers, collectorSync)
}

func garbageCollector(ctx context.Context, p process) (controller, error) {
	config := rest.CopyConfig(p.config)
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	started := make(chan struct{})
	close(started)
	c, err := garbagecollector.NewGarbageCollector(ctx, p.client, objects,
		restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(p.client.Discovery())),
		garbagecollector.DefaultIgnoredResources(),
		informerfactory.NewInformerFactory(p.SharedInformerFactory,
			metadatainformer.NewSharedInformerFactory(objects, 0)), started)
	if err != nil {
		return nil, err
	}
	return collector{c, kinds}, nil
}
