package workloads

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"k8s.io/kubernetes/pkg/features"

	"kelson.dev/apiserver/store"
)

// group is a set of controllers that start together.
type group struct {
	kinds        []string                     // resources whose first object starts the group
	needs        func(obj *store.Object) bool // if not nil, whether an object starts the group
	unselectable bool                         // part of kube-apiserver; not in --controllers
	members      []member
}

// member is a controller of a group.
type member struct {
	name      string // as in kube-controller-manager's --controllers
	account   string // its service account in kube-system, or serverAccount
	construct func(context.Context, *access) (controller, error)
}

// serverAccount stands for the user system:apiserver, of controllers that are part of
// kube-apiserver.
const serverAccount = "system:apiserver"

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

// groups returns the groups with the selected controllers.
func groups(cfg *Config) []group {
	all := []group{
		{kinds: []string{"deployments.apps", "replicasets.apps", "replicationcontrollers"}, members: []member{
			{"deployment-controller", "deployment-controller", deployments},
			{"replicaset-controller", "replicaset-controller", replicaSets},
			{"replicationcontroller-controller", "replication-controller", replicationControllers},
		}},
		{kinds: []string{"statefulsets.apps"},
			members: []member{{"statefulset-controller", "statefulset-controller", statefulSets}}},
		{kinds: []string{"daemonsets.apps"}, members: []member{{"daemonset-controller", "daemon-set-controller",
			daemonSets}}},
		{kinds: []string{"jobs.batch"}, members: []member{{"job-controller", "job-controller", jobs}}},
		{kinds: []string{"cronjobs.batch"}, members: []member{{"cronjob-controller", "cronjob-controller", cronJobs}}},
		{kinds: []string{"horizontalpodautoscalers.autoscaling"},
			members: []member{{"horizontal-pod-autoscaler-controller", "horizontal-pod-autoscaler", podAutoscaler}}},
		{kinds: []string{"resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"},
			members: []member{{"resourceclaim-controller", "resource-claim-controller", resourceClaims}}},
		// Every control plane has the Service "kubernetes", whose endpoints no controller
		// maintains.
		{kinds: []string{"services"}, needs: func(obj *store.Object) bool {
			return obj.Key != ownService
		}, members: []member{
			{"endpointslice-controller", "endpointslice-controller", endpointSlices},
			{"endpoints-controller", "endpoint-controller", endpoints},
			{"endpointslice-mirroring-controller", "endpointslicemirroring-controller", mirrors},
		}},
		{kinds: []string{"persistentvolumeclaims", "persistentvolumes"},
			members: []member{{"persistentvolume-binder-controller", "persistent-volume-binder", volumeBinder}}},
		{kinds: []string{"pods"}, needs: containing(`"volumeClaimTemplate"`),
			members: []member{{"ephemeral-volume-controller", "ephemeral-volume-controller", ephemeralVolumes}}},
		{kinds: []string{"leases.coordination.k8s.io"}, needs: inNamespace(corev1.NamespaceNodeLease),
			members: []member{{"node-lifecycle-controller", "node-controller", nodeLifecycle}}},
		{kinds: []string{"nodes"}, needs: containing(`"NoExecute"`),
			members: []member{{taintEvictionName, "node-controller", taintEviction}}},
		{kinds: []string{"pods"}, needs: containing(`"nodeName"`),
			members: []member{{"pod-garbage-collector-controller", "pod-garbage-collector", newPodCollector}}},
	}
	all = append(all, gated()...)
	if len(cfg.PodRanges) > 0 {
		all = append(all, group{kinds: []string{"nodes"},
			members: []member{{"node-ipam-controller", "node-controller", nodeRanges(cfg.PodRanges)}}})
	}
	var groups []group
	for _, g := range all {
		g.members = slices.DeleteFunc(g.members, func(m member) bool {
			return !g.unselectable && !cfg.Selected.Runs(m.name)
		})
		if len(g.members) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// names returns the names of the group's controllers.
func (g group) names() string {
	var all []string
	for _, m := range g.members {
		all = append(all, m.name)
	}
	return strings.Join(all, ", ")
}

// construct creates the controllers of the group.
func (g group) construct(ctx context.Context, read *informers) ([]controller, error) {
	var all []controller
	for _, m := range g.members {
		own, err := read.accessAs(m.account)
		if err != nil {
			return nil, err
		}
		c, err := m.construct(ctx, own)
		if err != nil {
			return nil, fmt.Errorf("create %s: %w", m.name, err)
		}
		all = append(all, c)
	}
	return all, nil
}

var ownService = store.Key{Resource: "services", Namespace: metav1.NamespaceDefault, Name: "kubernetes"}

// containing returns a condition that finds a text in an object's JSON, without decoding it. The
// condition may also hold for objects that need no controller; that starts it early.
func containing(text string) func(*store.Object) bool {
	return func(obj *store.Object) bool { return bytes.Contains(obj.Data, []byte(text)) }
}

func inNamespace(namespace string) func(*store.Object) bool {
	return func(obj *store.Object) bool { return obj.Key.Namespace == namespace }
}

// single is a controller without a choice of workers.
type single func(context.Context)

func (run single) Run(ctx context.Context, _ int) { run(ctx) }

func deployments(ctx context.Context, read *access) (controller, error) {
	return deployment.NewDeploymentController(ctx, read.deployments(), read.replicaSets(), read.pods(), read.client)
}

func replicaSets(ctx context.Context, read *access) (controller, error) {
	sets := read.replicaSets()
	return replicaset.NewReplicaSetController(ctx, sets, paced(ctx, read.pods(), sets.Informer().GetStore()),
		read.client, replicaset.BurstReplicas), nil
}

func replicationControllers(ctx context.Context, read *access) (controller, error) {
	owners := read.replicationControllers()
	return replication.NewReplicationManager(ctx, paced(ctx, read.pods(), owners.Informer().GetStore()), owners,
		read.client, replication.BurstReplicas), nil
}

func statefulSets(ctx context.Context, read *access) (controller, error) {
	return statefulset.NewStatefulSetController(ctx, read.pods(), read.statefulSets(), read.claims(), read.revisions(),
		read.client), nil
}

func daemonSets(ctx context.Context, read *access) (controller, error) {
	return daemon.NewDaemonSetsController(ctx, read.daemonSets(), read.revisions(), read.pods(), read.nodes(),
		read.client,
		flowcontrol.NewBackOff(daemonBackOff, daemonBackOffMax))
}

func jobs(ctx context.Context, read *access) (controller, error) {
	if enabled(features.WorkloadWithJob) {
		return job.NewController(ctx, read.client, read.pods(), read.jobs(), read.workloads(), read.podGroups())
	}
	return job.NewController(ctx, read.client, read.pods(), read.jobs(), nil, nil)
}

func cronJobs(ctx context.Context, read *access) (controller, error) {
	return cronjob.NewControllerV2(ctx, read.jobs(), read.cronJobs(), read.client)
}

// resourceClaims returns the controller that creates the claims of pods from their templates, and
// removes reservations and claims of pods that have ended.
func resourceClaims(ctx context.Context, read *access) (controller, error) {
	if enabled(features.DRAWorkloadResourceClaims) {
		return resourceclaim.NewController(klog.FromContext(ctx), read.client, read.pods(), read.podGroups(),
			read.resourceClaims(), read.claimTemplates())
	}
	return resourceclaim.NewController(klog.FromContext(ctx), read.client, read.pods(), nil, read.resourceClaims(),
		read.claimTemplates())
}

// endpointSlices returns the controller that writes the ready pods of Services to EndpointSlices.
func endpointSlices(ctx context.Context, read *access) (controller, error) {
	return endpointslice.NewController(ctx, read.pods(), read.services(), read.nodes(), read.slices(),
		endpointsPerSlice, read.client, 0), nil
}

// endpoints returns the controller that writes the ready pods of Services to the older Endpoints.
func endpoints(ctx context.Context, read *access) (controller, error) {
	return endpoint.NewEndpointController(ctx, read.pods(), read.services(), read.endpoints(), read.client, 0), nil
}

// mirrors returns the controller that mirrors hand-written Endpoints to EndpointSlices.
func mirrors(ctx context.Context, read *access) (controller, error) {
	return endpointslicemirroring.NewController(ctx, read.endpoints(), read.slices(), read.services(),
		endpointsPerSubset, read.client, 0), nil
}
