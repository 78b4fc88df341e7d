package workloads

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	apps "k8s.io/client-go/informers/apps/v1"
	autoscaling "k8s.io/client-go/informers/autoscaling/v2"
	batch "k8s.io/client-go/informers/batch/v1"
	coordinationbeta "k8s.io/client-go/informers/coordination/v1beta1"
	core "k8s.io/client-go/informers/core/v1"
	discovery "k8s.io/client-go/informers/discovery/v1"
	devices "k8s.io/client-go/informers/resource/v1"
	devicesalpha "k8s.io/client-go/informers/resource/v1alpha3"
	scheduling "k8s.io/client-go/informers/scheduling/v1beta1"
	storage "k8s.io/client-go/informers/storage/v1"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	autoscalinglisters "k8s.io/client-go/listers/autoscaling/v2"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	coordinationlisters "k8s.io/client-go/listers/coordination/v1"
	coordinationbetalisters "k8s.io/client-go/listers/coordination/v1beta1"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	resourcealphalisters "k8s.io/client-go/listers/resource/v1alpha3"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1beta1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"kelson.dev/apiserver/resource"
	"kelson.dev/kubernetes/controllers/sharing"
	"kelson.dev/kubernetes/identity"
)

// informers are the shared informers of one control plane, each created on first use. A
// SharedInformerFactory of client-go would do the same, but would link the informers of all kinds.
type informers struct {
	as     func(user.Info) *rest.Config
	client kubernetes.Interface // of the informers

	pods                   lazy[corelisters.PodLister]
	nodes                  lazy[corelisters.NodeLister]
	claims                 lazy[corelisters.PersistentVolumeClaimLister]
	volumes                lazy[corelisters.PersistentVolumeLister]
	storageClasses         lazy[storagelisters.StorageClassLister]
	nodeLeases             lazy[coordinationlisters.LeaseLister]
	leases                 lazy[coordinationlisters.LeaseLister]
	leaseCandidates        lazy[coordinationbetalisters.LeaseCandidateLister]
	services               lazy[corelisters.ServiceLister]
	endpoints              lazy[corelisters.EndpointsLister]
	slices                 lazy[discoverylisters.EndpointSliceLister]
	replicationControllers lazy[corelisters.ReplicationControllerLister]
	replicaSets            lazy[appslisters.ReplicaSetLister]
	deployments            lazy[appslisters.DeploymentLister]
	statefulSets           lazy[appslisters.StatefulSetLister]
	daemonSets             lazy[appslisters.DaemonSetLister]
	revisions              lazy[appslisters.ControllerRevisionLister]
	jobs                   lazy[batchlisters.JobLister]
	cronJobs               lazy[batchlisters.CronJobLister]
	autoscalers            lazy[autoscalinglisters.HorizontalPodAutoscalerLister]
	resourceClaims         lazy[resourcelisters.ResourceClaimLister]
	claimTemplates         lazy[resourcelisters.ResourceClaimTemplateLister]
	resourceSlices         lazy[resourcelisters.ResourceSliceLister]
	deviceClasses          lazy[resourcelisters.DeviceClassLister]
	taintRules             lazy[resourcelisters.DeviceTaintRuleLister]
	poolRequests           lazy[resourcealphalisters.ResourcePoolStatusRequestLister]
	podGroups              lazy[schedulinglisters.PodGroupLister]
	workloads              lazy[schedulinglisters.WorkloadLister]

	constructing  sync.Mutex
	registrations registrations

	mu      sync.Mutex
	created []cache.SharedIndexInformer
	started int                 // the number of started informers, a prefix of created
	used    []cache.DoneChecker // of the informers that the group under construction uses
}

// lazy returns an informer that the first call creates, and records that the group that is under
// construction uses it.
type lazy[L any] func() informer[L]

// access is passed to the constructors of controllers: the shared informers, and a client that acts
// as the controller's service account.
type access struct {
	*informers
	config *rest.Config
	client kubernetes.Interface
}

// accessAs returns the access of a controller.
func (s *informers) accessAs(account string) (*access, error) {
	config := s.as(identity.Controller(account))
	config.UserAgent = identity.UserAgent(identity.ControllerManagerProgram, account)
	if account == serverAccount {
		config = s.as(identity.APIServer)
		config.UserAgent = identity.UserAgent("kube-apiserver", account)
	}
	config, client, err := newClient(config)
	if err != nil {
		return nil, err
	}
	return &access{s, config, clientset{client}}, nil
}

// newClient returns a client that prefers protobuf, and its configuration.
func newClient(config *rest.Config) (*rest.Config, kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = resource.MediaProtobuf,
		resource.MediaProtobuf+","+resource.MediaJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("create client: %w", err)
	}
	return config, client, nil
}

// newInformers returns informers that read from shared, or as kube-controller-manager.
func newInformers(as func(user.Info) *rest.Config, shared *sharing.Caches) (*informers, error) {
	config := as(identity.ControllerManager)
	config.UserAgent = identity.UserAgent(identity.ControllerManagerProgram, "shared-informers")
	_, client, err := newClient(config)
	if err != nil {
		return nil, err
	}
	s := &informers{as: as, client: client}
	s.pods = lazily(s, fromStore(shared.Pods, ""), corelisters.NewPodLister)
	s.nodes = lazily(s, fromStore(shared.Nodes, ""), corelisters.NewNodeLister)
	s.claims = lazily(s, namespaced(core.NewPersistentVolumeClaimInformer), corelisters.NewPersistentVolumeClaimLister)
	s.volumes = lazily(s, clusterWide(core.NewPersistentVolumeInformer), corelisters.NewPersistentVolumeLister)
	s.storageClasses = lazily(s, clusterWide(storage.NewStorageClassInformer), storagelisters.NewStorageClassLister)
	s.nodeLeases = lazily(s, fromStore(shared.Leases, corev1.NamespaceNodeLease), coordinationlisters.NewLeaseLister)
	s.leases = lazily(s, fromStore(shared.Leases, ""), coordinationlisters.NewLeaseLister)
	s.leaseCandidates = lazily(s, namespaced(coordinationbeta.NewLeaseCandidateInformer),
		coordinationbetalisters.NewLeaseCandidateLister)
	s.services = lazily(s, namespaced(core.NewServiceInformer), corelisters.NewServiceLister)
	s.endpoints = lazily(s, namespaced(core.NewEndpointsInformer), corelisters.NewEndpointsLister)
	s.slices = lazily(s, namespaced(discovery.NewEndpointSliceInformer), discoverylisters.NewEndpointSliceLister)
	s.replicationControllers = lazily(s, namespaced(core.NewReplicationControllerInformer),
		corelisters.NewReplicationControllerLister)
	s.replicaSets = lazily(s, namespaced(apps.NewReplicaSetInformer), appslisters.NewReplicaSetLister)
	s.deployments = lazily(s, namespaced(apps.NewDeploymentInformer), appslisters.NewDeploymentLister)
	s.statefulSets = lazily(s, namespaced(apps.NewStatefulSetInformer), appslisters.NewStatefulSetLister)
	s.daemonSets = lazily(s, namespaced(apps.NewDaemonSetInformer), appslisters.NewDaemonSetLister)
	s.revisions = lazily(s, namespaced(apps.NewControllerRevisionInformer), appslisters.NewControllerRevisionLister)
	s.jobs = lazily(s, namespaced(batch.NewJobInformer), batchlisters.NewJobLister)
	s.cronJobs = lazily(s, namespaced(batch.NewCronJobInformer), batchlisters.NewCronJobLister)
	s.autoscalers = lazily(s, namespaced(autoscaling.NewHorizontalPodAutoscalerInformer),
		autoscalinglisters.NewHorizontalPodAutoscalerLister)
	s.resourceClaims = lazily(s, namespaced(devices.NewResourceClaimInformer), resourcelisters.NewResourceClaimLister)
	s.claimTemplates = lazily(s, namespaced(devices.NewResourceClaimTemplateInformer),
		resourcelisters.NewResourceClaimTemplateLister)
	s.resourceSlices = lazily(s, clusterWide(devices.NewResourceSliceInformer), resourcelisters.NewResourceSliceLister)
	s.deviceClasses = lazily(s, clusterWide(devices.NewDeviceClassInformer), resourcelisters.NewDeviceClassLister)
	s.taintRules = lazily(s, clusterWide(devices.NewDeviceTaintRuleInformer), resourcelisters.NewDeviceTaintRuleLister)
	s.poolRequests = lazily(s, clusterWide(devicesalpha.NewResourcePoolStatusRequestInformer),
		resourcealphalisters.NewResourcePoolStatusRequestLister)
	s.podGroups = lazily(s, namespaced(scheduling.NewPodGroupInformer), schedulinglisters.NewPodGroupLister)
	s.workloads = lazily(s, namespaced(scheduling.NewWorkloadInformer), schedulinglisters.NewWorkloadLister)
	return s, nil
}

// newInformer constructs an informer with an index.
type newInformer func(s *informers, indexers cache.Indexers) cache.SharedIndexInformer

// fromStore returns the constructor of an informer of shared objects.
func fromStore[T any, P sharing.Object[T]](objects *sharing.Objects[T, P], namespace string) newInformer {
	return func(_ *informers, indexers cache.Indexers) cache.SharedIndexInformer {
		return objects.Informer(namespace, nil, indexers)
	}
}

// namespaced adapts client-go's constructors of informers.
func namespaced(construct func(kubernetes.Interface, string, time.Duration,
	cache.Indexers) cache.SharedIndexInformer) newInformer {
	return func(s *informers, indexers cache.Indexers) cache.SharedIndexInformer {
		informer := construct(s.client, "", 0, indexers)
		_ = informer.SetTransform(new(sharing.Parts).Trim) // refused only by informers that run
		return informer
	}
}

// clusterWide adapts the constructors of cluster-scoped kinds, which take no namespace.
func clusterWide(construct func(kubernetes.Interface, time.Duration,
	cache.Indexers) cache.SharedIndexInformer) newInformer {
	return namespaced(func(client kubernetes.Interface, _ string, resync time.Duration,
		_ cache.Indexers) cache.SharedIndexInformer {
		return construct(client, resync, cache.Indexers{})
	})
}

func lazily[L any](s *informers, construct newInformer, lister func(cache.Indexer) L) lazy[L] {
	once := sync.OnceValue(func() informer[L] {
		shared := &postponing{construct(s,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}), &s.registrations}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.created = append(s.created, shared)
		return informer[L]{shared, lister(shared.GetIndexer())}
	})
	return func() informer[L] {
		i := once()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.used = append(s.used, i.shared.HasSyncedChecker())
		return i
	}
}

// construct creates the controllers of a group, and returns them with the informers that they use.
// It serializes the groups, because controllers check whether an informer has an index before they
// add it.
func (s *informers) construct(ctx context.Context, g group) ([]controller, []cache.DoneChecker, error) {
	s.constructing.Lock()
	defer s.constructing.Unlock()
	s.mu.Lock()
	s.used = nil
	s.mu.Unlock()
	s.registrations.begin()
	controllers, err := g.construct(ctx, s)
	if registered := s.registrations.end(); err == nil {
		err = registered
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return controllers, s.used, err
}

// unstarted returns the informers that have not been started yet; the caller must start them.
func (s *informers) unstarted() []cache.SharedIndexInformer {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.created[s.started:]
	s.started = len(s.created)
	return news
}

// informer implements the informer interfaces that the controllers take.
type informer[L any] struct {
	shared cache.SharedIndexInformer
	lister L
}

func (i informer[L]) Informer() cache.SharedIndexInformer { return i.shared }
func (i informer[L]) Lister() L                           { return i.lister }
