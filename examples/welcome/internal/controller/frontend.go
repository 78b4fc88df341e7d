package controller

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	webappv1 "kelson.dev/examples/welcome/api/v1"
)

// port is the port of the pods. It is above 1023, so that they need no privileges.
const port = 8080

// serve is the shell script that writes the page and serves it. The name is in an environment
// variable, so that the shell does not interpret it.
const serve = `mkdir -p /tmp/www && printf 'Welcome, %s!\n' "$NAME" >/tmp/www/index.html && exec httpd -f -p 8080 -h /tmp/www`

// labelsOf returns the labels of the pods of a Welcome.
func labelsOf(welcome *webappv1.Welcome) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "welcome", "app.kubernetes.io/instance": welcome.Name}
}

func deploymentOf(welcome *webappv1.Welcome) *appsv1.Deployment {
	labels := labelsOf(welcome)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: welcome.Name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &welcome.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{
						Name:    "page",
						Image:   welcome.Spec.Image,
						Command: []string{"sh", "-c", serve},
						Env:     []corev1.EnvVar{{Name: "NAME", Value: welcome.Spec.Name}},
						Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: port,
							Protocol: corev1.ProtocolTCP}},
					}},
				},
			},
		},
	}
}

func serviceOf(welcome *webappv1.Welcome) *corev1.Service {
	labels := labelsOf(welcome)
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: welcome.Name, Labels: labels},
		Spec: corev1.ServiceSpec{
			Selector: labels,
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http"),
				Protocol: corev1.ProtocolTCP}},
		},
	}
}
