package controlplane_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"kelson.dev/apiserver/serving/klogs"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/workloads"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/redact"
)

// lines is a log with concurrent writers.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// At the highest verbosity, the log contains the names of objects but never their contents.
func TestLogsHaveNoContents(t *testing.T) {
	const value = "hunter2-in-the-environment"
	handlers := utilruntime.ErrorHandlers // see TestDeployment
	utilruntime.ErrorHandlers = nil
	defer func() { utilruntime.ErrorHandlers = handlers }()
	var log lines
	everything := slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.Level(-100)})
	// as kelson serve does
	klogs.Route(workloads.Debugging(redact.New(everything)))
	defer klog.SetLogger(logr.Discard())
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		plane, err := controlplane.Start(context.Background(), controlplane.Config{
			Node: controlplane.Simulated{}, Controllers: controlplane.AllControllers{}, Log: slog.New(everything),
		})
		require.NoError(t, err)
		defer plane.Stop()
		client := kubernetes.NewForConfigOrDie(plane.RESTConfig())
		check := func(err error) {
			t.Helper()
			require.NoError(t, err)
		}
		labels := map[string]string{"app": "web"}
		selector := &metav1.LabelSelector{MatchLabels: labels}
		template := corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"note": value}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: value}}, Args: []string{value},
			}}},
		}
		once := template.DeepCopy()
		once.Spec.RestartPolicy = corev1.RestartPolicyNever
		_, err = client.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"password": value},
		}, metav1.CreateOptions{})
		check(err)
		replicas := int32(2)
		deployment, err := client.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: template},
		}, metav1.CreateOptions{})
		check(err)
		_, err = client.AppsV1().StatefulSets("default").Create(ctx, &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: "set"},
			Spec:       appsv1.StatefulSetSpec{Selector: selector, Template: template, ServiceName: "set"},
		}, metav1.CreateOptions{})
		check(err)
		_, err = client.AppsV1().DaemonSets("default").Create(ctx, &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: "agent"},
			Spec:       appsv1.DaemonSetSpec{Selector: selector, Template: template},
		}, metav1.CreateOptions{})
		check(err)
		_, err = client.BatchV1().CronJobs("default").Create(ctx, &batchv1.CronJob{
			ObjectMeta: metav1.ObjectMeta{Name: "cron"},
			Spec: batchv1.CronJobSpec{Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{
				Spec: batchv1.JobSpec{Template: *once},
			}},
		}, metav1.CreateOptions{})
		check(err)
		_, err = client.CoreV1().Services("default").Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "svc", Annotations: map[string]string{"note": value}},
			Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		check(err)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		deployment.ResourceVersion = ""
		deployment.Spec.Template.Spec.Containers[0].Env[0].Value += "-two" // triggers a rollout
		_, err = client.AppsV1().Deployments("default").Update(ctx, deployment, metav1.UpdateOptions{})
		check(err)
		time.Sleep(time.Minute)
		check(client.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
	})
	text := log.String()
	if !strings.Contains(text, "web-") || strings.Count(text, "\n") < 20 {
		t.Errorf("the log lacks expected records:\n%.2000s", text)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, value) {
			t.Errorf("logged: %.1000s", line)
			break
		}
	}
	t.Logf("%d lines", strings.Count(text, "\n"))
}
