package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const namespace = "takeover"

// cluster is a client of the control plane.
type cluster struct{ kubernetes.Interface }

// nothingHappens checks that no controllers and no scheduler run in the server.
func (c *cluster) nothingHappens(ctx context.Context) error {
	if _, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		metav1.CreateOptions{}); err != nil {
		return err
	}
	labels := map[string]string{"app": "web"}
	pod := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels,
			Annotations: map[string]string{"usage.kelson.dev/cpu": "400m/replicas"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "web", Image: "web", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
		}}},
	}
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: pod}}
	if _, err := c.AppsV1().Deployments(namespace).Create(ctx, web, metav1.CreateOptions{}); err != nil {
		return err
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}}}
	if _, err := c.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return err
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "once"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}},
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{Name: "once", Image: "once", Command: []string{"true"}}}},
		}}}
	if _, err := c.BatchV1().Jobs(namespace).Create(ctx, job, metav1.CreateOptions{}); err != nil {
		return err
	}
	time.Sleep(time.Second) // the built-in controllers would need some milliseconds
	pods, err := c.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	accounts, err := c.CoreV1().ServiceAccounts(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(pods.Items)+len(accounts.Items) > 0 {
		return fmt.Errorf("controllers run in the server: %d pods, %d service accounts", len(pods.Items),
			len(accounts.Items))
	}
	return nil
}

// everythingHappens checks the work of kube-controller-manager and kube-scheduler, step by step.
func (c *cluster) everythingHappens(ctx context.Context) error {
	return c.steps(ctx, []step{
		{"default service account and root CA", c.accounts},
		{"Deployment available", c.available(1)},
		{"pods bound by kube-scheduler", c.scheduled},
		{"endpoints of the Service", c.endpoints},
		{"Job complete", c.jobDone},
		{"HorizontalPodAutoscaler scales up", c.autoscaled},
		{"Deployment deleted with its pods", c.collected},
		{"namespace deleted", c.namespaceGone},
	})
}

// step is a state that the cluster reaches.
type step struct {
	what string
	done func(context.Context) error // nil: the state is reached
}

// steps waits for one state after the other.
func (c *cluster) steps(ctx context.Context, all []step) error {
	for _, step := range all {
		begin := time.Now()
		for {
			err := step.done(ctx)
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s: %w", step.what, errors.Join(err, ctx.Err()))
			case <-time.After(200 * time.Millisecond):
			}
		}
		log.Printf("%s after %s", step.what, time.Since(begin).Round(100*time.Millisecond))
	}
	return nil
}

func (c *cluster) accounts(ctx context.Context) error {
	_, err := c.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
	if err == nil {
		_, err = c.CoreV1().ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	}
	return err
}

// available returns a step that waits for at least a number of replicas.
func (c *cluster) available(replicas int32) func(context.Context) error {
	return func(ctx context.Context) error {
		web, err := c.AppsV1().Deployments(namespace).Get(ctx, "web", metav1.GetOptions{})
		if err == nil && web.Status.AvailableReplicas < replicas {
			err = fmt.Errorf("%d replicas are available, want %d", web.Status.AvailableReplicas, replicas)
		}
		return err
	}
}

func (c *cluster) scheduled(ctx context.Context) error {
	events, err := c.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=Scheduled"})
	if err != nil {
		return err
	}
	for _, e := range events.Items {
		if strings.HasPrefix(e.InvolvedObject.Name, "web-") &&
			(e.Source.Component == "default-scheduler" || e.ReportingController == "default-scheduler") {
			return nil
		}
	}
	return fmt.Errorf("no Event of the scheduler among %d", len(events.Items))
}

func (c *cluster) endpoints(ctx context.Context) error {
	slices, err := c.DiscoveryV1().EndpointSlices(namespace).List(ctx,
		metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web"})
	if err != nil {
		return err
	}
	for _, s := range slices.Items {
		for _, e := range s.Endpoints {
			if ready := e.Conditions.Ready; ready != nil && *ready {
				return nil
			}
		}
	}
	return errors.New("no endpoint is ready")
}

func (c *cluster) jobDone(ctx context.Context) error {
	job, err := c.BatchV1().Jobs(namespace).Get(ctx, "once", metav1.GetOptions{})
	if err == nil && job.Status.Succeeded != 1 {
		err = fmt.Errorf("status %+v", job.Status)
	}
	return err
}

// autoscaled lets an autoscaler scale the Deployment by the built-in metrics.
func (c *cluster) autoscaled(ctx context.Context) error {
	target := int32(100)
	scaler := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment",
				Name: "web"},
			MaxReplicas: 3, TargetCPUUtilizationPercentage: &target,
		}}
	if _, err := c.AutoscalingV1().HorizontalPodAutoscalers(namespace).Create(ctx, scaler,
		metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return c.available(3)(ctx)
}

func (c *cluster) collected(ctx context.Context) error {
	if err := c.AppsV1().Deployments(namespace).Delete(ctx, "web", metav1.DeleteOptions{}); err != nil &&
		!apierrors.IsNotFound(err) {
		return err
	}
	pods, err := c.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err == nil && len(pods.Items) > 0 {
		err = fmt.Errorf("%d pods are left", len(pods.Items))
	}
	return err
}

func (c *cluster) namespaceGone(ctx context.Context) error {
	err := c.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	switch _, err := c.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return errors.New("still there")
}
