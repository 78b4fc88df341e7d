package builtin

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	"k8s.io/kubernetes/pkg/apis/batch"
	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"

	"kelson.dev/apiserver/resource"
)

// workloads returns the kinds of apps, batch and autoscaling.
func workloads() []entry {
	return []entry{
		{hub: &apps.ControllerRevision{}, plural: "controllerrevisions", versions: v1,
			strategy: controllerrevision.Strategy},
		{hub: &apps.DaemonSet{}, plural: "daemonsets", versions: v1, short: []string{"ds"}, categories: all,
			strategy: daemonset.Strategy, status: daemonset.StatusStrategy},
		{hub: &apps.Deployment{}, plural: "deployments", versions: v1, short: []string{"deploy"}, categories: all,
			strategy: deployment.Strategy, status: deployment.StatusStrategy,
			subs: []resource.Subresource{scale(deployment.Strategy, deploymentScale)}},
		{hub: &apps.ReplicaSet{}, plural: "replicasets", versions: v1, short: []string{"rs"}, categories: all,
			strategy: replicaset.Strategy, status: replicaset.StatusStrategy,
			fields: selectable(replicaset.ToSelectableFields),
			subs:   []resource.Subresource{scale(replicaset.Strategy, replicaSetScale)}},
		{hub: &apps.StatefulSet{}, plural: "statefulsets", versions: v1, short: []string{"sts"}, categories: all,
			strategy: statefulset.Strategy, status: statefulset.StatusStrategy,
			subs: []resource.Subresource{scale(statefulset.Strategy, statefulSetScale)}},

		{hub: &batch.CronJob{}, plural: "cronjobs", versions: v1, short: []string{"cj"}, categories: all,
			strategy: cronjob.Strategy, status: cronjob.StatusStrategy},
		{hub: &batch.Job{}, plural: "jobs", versions: v1, categories: all,
			strategy: job.Strategy, status: job.StatusStrategy, fields: selectable(job.JobToSelectableFields),
			hooks: &resource.Hooks{Deleting: warnOfOrphans}},

		{hub: &autoscaling.HorizontalPodAutoscaler{}, plural: "horizontalpodautoscalers",
			versions: []string{"v2", "v1"},
			short:    []string{"hpa"}, categories: all,
			strategy: horizontalpodautoscaler.Strategy, status: horizontalpodautoscaler.StatusStrategy},
	}
}

// warnOfOrphans adds kube-apiserver's warning to a DELETE of a job without a propagation policy.
func warnOfOrphans(ctx context.Context, _ string, opts *metav1.DeleteOptions) error {
	//nolint:staticcheck // SA1019: old clients send it
	if opts.PropagationPolicy == nil && opts.OrphanDependents == nil &&
		job.Strategy.DefaultGarbageCollectionPolicy(ctx) == upstream.OrphanDependents {
		warning.AddWarning(ctx, "", "child pods are preserved by default when jobs are deleted; "+
			"set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning")
	}
	return nil
}
