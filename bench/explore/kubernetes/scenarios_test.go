package kubernetes

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"

	"kelson.dev/lab/explore"
	"kelson.dev/operator/client"
)

// row is one exploration.
type row struct {
	name       string              // as in --controllers
	without    featuregate.Feature // the feature gate that is off, or ""
	construct  constructor
	inputs     []explore.Input
	invariants []explore.Invariant
	bug        bool // an alarm must be raised: kubernetes/kubernetes#129795
}

var rows = []row{
	{"replicaset-controller", features.StaleControllerConsistencyReplicaSet, replicaSets, scaled(), atMost(3), true},
	{"replicaset-controller", "", replicaSets, scaled(), atMost(3), false},
	{"deployment-controller", "", deployments, updatedDeployment(), nil, false},
	{"statefulset-controller", "", statefulSets, updatedStatefulSet(), atMost(2), false},
	{"daemonset-controller", "", daemonSets, updatedDaemonSet(), atMost(1), false},
	{"job-controller", "", jobs, twoCompletions(), atMost(1), false},
	{"cronjob-controller", "", cronJobs, hourly(), nil, false},
	{"endpointslice-controller", "", endpointSlices, exposed(), nil, false},
	{"horizontal-pod-autoscaler-controller", "", podAutoscaler, autoscaled(), replicasAtMost(3), false},
	{"persistentvolume-binder-controller", "", volumeBinder, claimed(), nil, false},
	{"namespace-controller", "", namespaces, deletedNamespace(), nil, false},
	{"garbage-collector-controller", "", garbageCollector, owned(), nil, false},
}

// active is a CEL expression: the Pods that count for a controller.
const active = `all.Pod.filter(p, !has(p.metadata.deletionTimestamp) && ` +
	`!(has(p.status) && has(p.status.phase) && p.status.phase in ["Failed", "Succeeded"]))`

func atMost(n int) []explore.Invariant {
	return []explore.Invariant{{Name: "number of Pods", Rule: fmt.Sprintf("%s.size() <= %d", active, n)}}
}

func replicasAtMost(n int) []explore.Invariant {
	return []explore.Invariant{{Name: "replicas of the Deployment", Kind: "Deployment",
		Rule: fmt.Sprintf("object == null || object.spec.replicas <= %d", n)}}
}

var (
	meta     = metav1.ObjectMeta{Namespace: "default", Name: "web"}
	labels   = map[string]string{"app": "web"}
	selector = &metav1.LabelSelector{MatchLabels: labels}
)

func template(policy corev1.RestartPolicy) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		RestartPolicy: policy, Containers: []corev1.Container{{Name: "main", Image: "nginx:1"}}}}
}

func newImage(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Image = "nginx:2" }

// scaled creates a ReplicaSet of two Pods, and scales it to three.
func scaled() []explore.Input {
	set := &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(2)), Selector: selector,
		Template: template("Always")}}
	return []explore.Input{explore.Create(set), explore.Edit(set, func(s *appsv1.ReplicaSet) {
		s.Spec.Replicas = new(int32(3))
	})}
}

func updatedDeployment() []explore.Input {
	d := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: new(int32(2)), Selector: selector,
		Template: template("Always")}}
	return []explore.Input{explore.Create(d), explore.Edit(d, func(d *appsv1.Deployment) { newImage(&d.Spec.Template) })}
}

func updatedStatefulSet() []explore.Input {
	s := &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(2)), Selector: selector,
		Template: template("Always"), ServiceName: "web"}}
	return []explore.Input{explore.Create(s), explore.Edit(s, func(s *appsv1.StatefulSet) { newImage(&s.Spec.Template) })}
}

func updatedDaemonSet() []explore.Input {
	d := &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template("Always")}}
	return []explore.Input{explore.Create(d), explore.Edit(d, func(d *appsv1.DaemonSet) { newImage(&d.Spec.Template) })}
}

func twoCompletions() []explore.Input {
	return []explore.Input{explore.Create(&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{
		Completions: new(int32(2)), Parallelism: new(int32(1)), Template: template("Never")}})}
}

func hourly() []explore.Input {
	return []explore.Input{explore.Create(&batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{
		Schedule:    "0 * * * *",
		JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template("Never")}},
	}}), explore.Wait(90 * time.Minute)}
}

// exposed creates a Service of the Pods of a ReplicaSet, and scales that.
func exposed() []explore.Input {
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: labels,
		Ports: []corev1.ServicePort{{Port: 80}}}}
	return append([]explore.Input{explore.Create(service)}, scaled()...)
}

// autoscaled creates a Deployment whose Pods use 150m of processor time together, and an
// autoscaler that wants 50m for each Pod. Then the maximum becomes two Pods.
func autoscaled() []explore.Input {
	t := template("Always")
	t.Annotations = map[string]string{"usage.kelson.dev/cpu": "150m/replicas"}
	t.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	target := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: t}}
	scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
		MinReplicas:    new(int32(1)), MaxReplicas: 3,
		Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{
				Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(50))}}}},
	}}
	return []explore.Input{explore.Create(target), explore.Create(scaler), explore.Wait(2 * time.Minute),
		explore.Edit(scaler, func(s *autoscalingv2.HorizontalPodAutoscaler) { s.Spec.MaxReplicas = 2 }),
		explore.Wait(time.Minute)}
}

// claimed creates a claim for which the simulated driver creates a volume.
func claimed() []explore.Input {
	return []explore.Input{explore.Create(&corev1.PersistentVolumeClaim{ObjectMeta: meta,
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}})}
}

// deletedNamespace creates a namespace with a ConfigMap and a Secret, and deletes it.
func deletedNamespace() []explore.Input {
	team := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	inside := metav1.ObjectMeta{Namespace: "team", Name: "web"}
	return []explore.Input{explore.Create(team),
		explore.Do("create ConfigMap team/web", func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, &corev1.ConfigMap{ObjectMeta: inside})
		}),
		explore.Do("create Secret team/web", func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, &corev1.Secret{ObjectMeta: inside})
		}),
		explore.Delete(team)}
}

// owned creates owners with dependents, and deletes one in the background, one in the foreground
// and one without its dependents.
func owned() []explore.Input {
	var all []explore.Input
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground,
		metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
		name := "owner-" + string(policy[0]|0x20)
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		all = append(all, explore.Do("create "+name+" and its dependent", func(ctx context.Context, c client.Client) error {
			owner := owner.DeepCopy()
			if err := c.Create(ctx, owner); err != nil {
				return err
			}
			return c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: owner.UID,
					BlockOwnerDeletion: new(true)}}}})
		}), explore.Do("delete "+name, func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, owner.DeepCopy(), client.PropagationPolicy(policy))
		}))
	}
	return append(all, explore.Delete(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "owner-o"}}))
}
