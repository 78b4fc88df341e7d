package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/client"
)

// maxOwned bounds how many owned objects are examined: the others most likely have the same
// problem.
const maxOwned = 50

// owns reports whether an object has an owner with a uid.
func owns(uid types.UID, obj client.Object) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == uid })
}

// child adds the findings of an owned object.
func (d *diagnosing) child(gvk schema.GroupVersionKind, obj client.Object) error {
	if d.depth >= maxDepth {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	d.depth++
	defer func() { d.depth-- }()
	return d.object(u)
}

// podsIn returns the pods of a namespace. It reads them once; callers must not change the slice.
func (d *diagnosing) podsIn(namespace string) ([]*corev1.Pod, error) {
	if all, ok := d.pods[namespace]; ok {
		return all, nil
	}
	all, err := list[corev1.Pod](d, client.InNamespace(namespace))
	if err == nil {
		d.pods[namespace] = all
	}
	return all, err
}

// podsOf adds the findings of the pods that an object owns.
func (d *diagnosing) podsOf(owner *unstructured.Unstructured) error {
	all, err := d.podsIn(owner.GetNamespace())
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(p *corev1.Pod) bool { return !owns(owner.GetUID(), p) })
	worst(all)
	for _, pod := range all[:min(len(all), maxOwned)] {
		if err := d.child(corev1.SchemeGroupVersion.WithKind("Pod"), pod); err != nil {
			return err
		}
	}
	return nil
}

// owned adds the findings of the objects that a custom resource owns.
func (d *diagnosing) owned(obj *unstructured.Unstructured) error {
	in, uid := client.InNamespace(obj.GetNamespace()), obj.GetUID()
	if uid == "" {
		return nil
	}
	steps := []func() error{
		func() error {
			return children[appsv1.Deployment](d, in, uid, appsv1.SchemeGroupVersion.WithKind("Deployment"))
		},
		func() error {
			return children[appsv1.StatefulSet](d, in, uid, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
		},
		func() error {
			return children[appsv1.DaemonSet](d, in, uid, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))
		},
		func() error { return children[batchv1.Job](d, in, uid, batchv1.SchemeGroupVersion.WithKind("Job")) },
		func() error {
			return children[corev1.PersistentVolumeClaim](d, in, uid,
				corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
		},
		func() error { return d.podsOf(obj) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func children[T any, P client.Pointer[T]](d *diagnosing, in client.ListOption, uid types.UID,
	gvk schema.GroupVersionKind) error {
	all, err := list[T, P](d, in)
	if err != nil {
		return err
	}
	n := 0
	for _, obj := range all {
		if owns(uid, obj) && n < maxOwned {
			n++
			if err := d.child(gvk, obj); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *diagnosing) deployment(obj *unstructured.Unstructured) error {
	deployment, err := convert[appsv1.Deployment](obj)
	if err != nil {
		return err
	}
	want := replicas(deployment.Spec.Replicas)
	status := &deployment.Status
	if want == 0 && status.Replicas == 0 {
		d.add(Finding{Severity: Note, Object: refOf(obj), Source: "spec.replicas",
			Text: "has no pods: it is scaled to 0"})
		return nil
	}
	if deployment.Spec.Paused {
		d.add(Finding{Severity: Waiting, Object: refOf(obj), Source: "spec.paused", Text: "its rollout is paused",
			Next: "kubectl rollout resume continues it"})
	}
	if status.ObservedGeneration < deployment.Generation {
		d.behind(obj, status.ObservedGeneration)
	}
	if status.UpdatedReplicas >= want && status.AvailableReplicas >= want && status.Replicas == status.UpdatedReplicas {
		return nil
	}
	sets, err := list[appsv1.ReplicaSet](d, client.InNamespace(deployment.Namespace))
	if err != nil {
		return err
	}
	sets = slices.DeleteFunc(sets, func(s *appsv1.ReplicaSet) bool {
		return !owns(deployment.UID, s) || replicas(s.Spec.Replicas) == 0
	})
	slices.SortFunc(sets, func(a, b *appsv1.ReplicaSet) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	before := len(d.findings)
	for _, s := range sets[:min(len(sets), maxOwned)] {
		if err := d.child(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), s); err != nil {
			return err
		}
	}
	d.progress(obj, deployment, len(d.findings) > before)
	return nil
}

// progress reports the rollout as a whole, after the reasons for its state.
func (d *diagnosing) progress(obj *unstructured.Unstructured, deployment *appsv1.Deployment, explained bool) {
	want, status := replicas(deployment.Spec.Replicas), &deployment.Status
	f := Finding{Severity: Waiting, Object: refOf(obj), Source: "status",
		Text: fmt.Sprintf("%d of %d pods are available, %d have the newest template", status.AvailableReplicas, want,
			status.UpdatedReplicas)}
	for _, c := range status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse {
			f.Severity, f.Since = Broken, c.LastTransitionTime.Time
			f.Text += ": " + sentence(c.Reason, c.Message)
			f.Source = "status.conditions"
		}
	}
	if explained && f.Severity == Broken {
		f.Severity = Waiting // the reasons come first
	}
	d.add(f)
}

func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

func (d *diagnosing) replicaSet(obj *unstructured.Unstructured) error {
	set, err := convert[appsv1.ReplicaSet](obj)
	if err != nil {
		return err
	}
	want := replicas(set.Spec.Replicas)
	if set.Status.ReadyReplicas >= want && set.Status.Replicas == want {
		return nil
	}
	for _, c := range set.Status.Conditions {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
			d.cannotCreate(obj, c.Message, "status.conditions", Finding{Since: c.LastTransitionTime.Time})
		}
	}
	if err := d.podsOf(obj); err != nil {
		return err
	}
	return d.createFailures(obj, set.Status.Replicas < want)
}

// cannotCreate reports why pods cannot be created.
func (d *diagnosing) cannotCreate(obj *unstructured.Unstructured, message, source string, f Finding) {
	f.Severity, f.Object, f.Source = Broken, refOf(obj), source
	f.Text = "cannot create pods: " + message
	switch {
	case strings.Contains(message, "exceeded quota"):
		f.Next = "raise the quota, or free what it counts"
	case strings.Contains(message, "admission webhook"):
		f.Next = "the webhook must allow the pod, or its owner must repair it"
	case strings.Contains(message, "violates PodSecurity"):
		f.Next = "change the pod's security context, or the policy of the namespace"
	case strings.Contains(message, "serviceaccount"):
		f.Next = "create the ServiceAccount"
	}
	d.add(f)
}

// createFailures reports the newest Event about a pod that could not be created, as controllers
// without a condition for it do.
func (d *diagnosing) createFailures(obj *unstructured.Unstructured, lacks bool) error {
	if !lacks {
		return nil
	}
	all, err := d.warningsOf(obj)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(e *corev1.Event) bool { return e.Reason == "FailedCreate" })
	if i < 0 {
		return nil
	}
	newest, message := all[i], all[i].Message
	// The controllers' own words precede the error of the API server.
	for _, words := range []string{"Error creating: ", " failed error: "} {
		if _, reason, ok := strings.Cut(message, words); ok {
			message = reason
		}
	}
	for _, f := range d.findings {
		if f.Object == refOf(obj) && strings.HasPrefix(f.Text, "cannot create pods") {
			return nil
		}
	}
	d.cannotCreate(obj, message, eventSource, Finding{Since: eventTime(newest)})
	return nil
}

func (d *diagnosing) statefulSet(obj *unstructured.Unstructured) error {
	set, err := convert[appsv1.StatefulSet](obj)
	if err != nil {
		return err
	}
	want := replicas(set.Spec.Replicas)
	if set.Status.ObservedGeneration < set.Generation {
		d.behind(obj, set.Status.ObservedGeneration)
	}
	updated := set.Status.UpdateRevision == set.Status.CurrentRevision || set.Status.UpdatedReplicas >= want
	if set.Status.ReadyReplicas >= want && updated {
		return nil
	}
	if err := d.podsOf(obj); err != nil {
		return err
	}
	if err := d.createFailures(obj, set.Status.Replicas < want); err != nil {
		return err
	}
	f := Finding{Severity: Waiting, Object: refOf(obj), Source: "status",
		Text: fmt.Sprintf("%d of %d pods are ready", set.Status.ReadyReplicas, want)}
	if set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement && set.Status.Replicas < want {
		f.Next = "pods are created one after the other: the last one must become ready first"
	}
	d.add(f)
	return nil
}

func (d *diagnosing) daemonSet(obj *unstructured.Unstructured) error {
	set, err := convert[appsv1.DaemonSet](obj)
	if err != nil {
		return err
	}
	status := &set.Status
	if status.ObservedGeneration < set.Generation {
		d.behind(obj, status.ObservedGeneration)
	}
	if status.DesiredNumberScheduled == 0 {
		d.add(Finding{Severity: Note, Object: refOf(obj), Source: "status.desiredNumberScheduled",
			Text: "has no pods: no node matches its node selector, affinity and tolerations"})
		return nil
	}
	if status.NumberReady >= status.DesiredNumberScheduled &&
		status.UpdatedNumberScheduled >= status.DesiredNumberScheduled {
		return nil
	}
	if err := d.podsOf(obj); err != nil {
		return err
	}
	if err := d.createFailures(obj, status.CurrentNumberScheduled < status.DesiredNumberScheduled); err != nil {
		return err
	}
	d.add(Finding{Severity: Waiting, Object: refOf(obj), Source: "status",
		Text: fmt.Sprintf("%d of %d pods are ready, %d have the newest template", status.NumberReady,
			status.DesiredNumberScheduled, status.UpdatedNumberScheduled)})
	return nil
}

func (d *diagnosing) job(obj *unstructured.Unstructured) error {
	job, err := convert[batchv1.Job](obj)
	if err != nil {
		return err
	}
	for _, c := range job.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			return nil
		case c.Type == batchv1.JobFailed:
			d.add(Finding{Severity: Broken, Object: refOf(obj), Source: "status.conditions",
				Since: c.LastTransitionTime.Time,
				Text:  "failed: " + sentence(c.Reason, c.Message),
				Next:  "a failed Job is not tried again: repair it and create it again"})
			return d.podsOf(obj)
		}
	}
	if job.Spec.Suspend != nil && *job.Spec.Suspend {
		d.add(Finding{Severity: Waiting, Object: refOf(obj), Source: "spec.suspend", Text: "is suspended",
			Next: "set spec.suspend to false"})
		return nil
	}
	if err := d.podsOf(obj); err != nil {
		return err
	}
	return d.createFailures(obj, job.Status.Active == 0)
}

func (d *diagnosing) cronJob(obj *unstructured.Unstructured) error {
	cron, err := convert[batchv1.CronJob](obj)
	if err != nil {
		return err
	}
	if cron.Spec.Suspend != nil && *cron.Spec.Suspend {
		d.add(Finding{Severity: Note, Object: refOf(obj), Source: "spec.suspend",
			Text: "is suspended: it starts no Jobs", Next: "set spec.suspend to false"})
	}
	jobs, err := list[batchv1.Job](d, client.InNamespace(cron.Namespace))
	if err != nil {
		return err
	}
	jobs = slices.DeleteFunc(jobs, func(j *batchv1.Job) bool { return !owns(cron.UID, j) })
	slices.SortFunc(jobs, func(a, b *batchv1.Job) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	for _, j := range jobs[:min(len(jobs), 1)] { // the newest one
		if err := d.child(batchv1.SchemeGroupVersion.WithKind("Job"), j); err != nil {
			return err
		}
	}
	return nil
}

func (d *diagnosing) autoscaler(obj *unstructured.Unstructured) error {
	hpa, err := convert[autoscalingv2.HorizontalPodAutoscaler](obj)
	if err != nil {
		return err
	}
	for _, c := range hpa.Status.Conditions {
		if (c.Type == autoscalingv2.AbleToScale || c.Type == autoscalingv2.ScalingActive) &&
			c.Status == corev1.ConditionFalse {
			f := Finding{Severity: Broken, Object: refOf(obj), Source: "status.conditions",
				Since: c.LastTransitionTime.Time, Text: "cannot scale: " + sentence(c.Reason, c.Message)}
			switch {
			case c.Reason == "ScalingDisabled":
				f.Severity, f.Next = Note, "the target has 0 replicas: set it to at least 1"
			case strings.HasPrefix(c.Reason, "FailedGet") && strings.Contains(c.Reason, "Metric"):
				f.Next = "an API server of metrics, such as metrics-server, must answer for the pods, and their containers must have requests"
			case c.Reason == "FailedGetScale":
				f.Next = "the target " + hpa.Spec.ScaleTargetRef.Kind + "/" + hpa.Spec.ScaleTargetRef.Name +
					" must exist"
			}
			d.add(f)
		}
		if c.Type == autoscalingv2.ScalingLimited && c.Status == corev1.ConditionTrue && c.Reason == "TooManyReplicas" {
			d.add(Finding{Severity: Note, Object: refOf(obj), Source: "status.conditions",
				Text: "wants more pods than maxReplicas: " + c.Message})
		}
	}
	if len(hpa.Status.Conditions) == 0 && d.Now().Sub(hpa.CreationTimestamp.Time) > patience {
		d.add(Finding{Severity: Waiting, Object: refOf(obj), Source: "status.conditions",
			Text: "has no status: the autoscaling controller has not reported on it", Next: "the controller must run"})
	}
	return nil
}

func (d *diagnosing) budget(obj *unstructured.Unstructured) error {
	budget, err := convert[policyv1.PodDisruptionBudget](obj)
	if err != nil {
		return err
	}
	for _, c := range budget.Status.Conditions {
		if c.Type == policyv1.DisruptionAllowedCondition && c.Status == metav1.ConditionFalse {
			d.add(Finding{Severity: Waiting, Object: refOf(obj), Source: "status.conditions",
				Since: c.LastTransitionTime.Time,
				Text: fmt.Sprintf("allows no eviction: %d pods are healthy, and %d must be (%s)",
					budget.Status.CurrentHealthy, budget.Status.DesiredHealthy, c.Reason),
				Next: "more of its pods must be ready, or the budget must allow more"})
		}
	}
	return nil
}
