package workloads

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	resourcemetrics "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/custom_metrics"
	"k8s.io/metrics/pkg/client/external_metrics"

	"kelson.dev/apiserver/resource"
)

// kube-controller-manager's defaults.
const (
	autoscalerSync      = 15 * time.Second
	downscaleWindow     = 5 * time.Minute
	autoscalerTolerance = 0.1
	cpuInitialization   = 5 * time.Minute
	initialReadiness    = 30 * time.Second
	mapperReset         = 30 * time.Second
)

// autoscaler is the controller of HorizontalPodAutoscalers. It caches which served kinds have a
// scale, and which version of custom.metrics.k8s.io to request.
type autoscaler struct {
	*podautoscaler.HorizontalController
	kinds    *restmapper.DeferredDiscoveryRESTMapper
	versions custom_metrics.AvailableAPIsGetter
}

// Run runs the controller until ctx ends.
func (a autoscaler) Run(ctx context.Context, workers int) {
	var parts wait.Group
	defer parts.Wait()
	parts.Start(func() { wait.UntilWithContext(ctx, func(context.Context) { a.kinds.Reset() }, mapperReset) })
	parts.Start(func() { custom_metrics.PeriodicallyInvalidate(a.versions, autoscalerSync, ctx.Done()) })
	a.HorizontalController.Run(ctx, workers)
}

// podAutoscaler returns the controller of HorizontalPodAutoscalers. It reads metrics of the groups
// metrics.k8s.io, custom.metrics.k8s.io and external.metrics.k8s.io from the servers that
// APIServices name.
func podAutoscaler(ctx context.Context, read *access) (controller, error) {
	discovery := read.client.Discovery()
	kinds := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery))
	versions := custom_metrics.NewAvailableAPIsGetter(discovery)
	scales, err := scale.NewForConfig(asJSON(read.config), kinds, dynamic.LegacyAPIPathResolverFunc,
		scale.NewDiscoveryScaleKindResolver(discovery))
	if err != nil {
		return nil, fmt.Errorf("create client of scales: %w", err)
	}
	resources, err := resourcemetrics.NewForConfig(read.config)
	if err != nil {
		return nil, fmt.Errorf("create client of resource metrics: %w", err)
	}
	external, err := external_metrics.NewForConfig(asJSON(read.config))
	if err != nil {
		return nil, fmt.Errorf("create client of external metrics: %w", err)
	}
	custom := custom_metrics.NewForConfig(asJSON(read.config), kinds, versions)
	horizontal := podautoscaler.NewHorizontalController(ctx, read.client.CoreV1(), scales, read.client.AutoscalingV2(),
		kinds,
		metrics.NewRESTMetricsClient(resources, custom, external), read.autoscalers(), read.pods(),
		autoscalerSync, downscaleWindow, autoscalerTolerance, cpuInitialization, initialReadiness)
	return autoscaler{horizontal, kinds, versions}, nil
}

// asJSON returns the configuration of a client that reads and writes JSON, for kinds that may have
// no other encoding.
func asJSON(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = resource.MediaJSON, resource.MediaJSON
	return config
}
