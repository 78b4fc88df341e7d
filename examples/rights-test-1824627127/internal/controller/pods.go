package controller

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1 "kelson.dev/examples/rights-test-1824627127/api/v1"
)

// labelsOf returns the labels of all pods of a SimpleDeployment.
func labelsOf(sd *appsv1.SimpleDeployment) map[string]string {
	return map[string]string{appsv1.GroupVersion.Group + "/simple-deployment": sd.Name}
}

func podName(sd *appsv1.SimpleDeployment, i int32) string { return fmt.Sprintf("%s-%d", sd.Name, i) }

func podOf(sd *appsv1.SimpleDeployment, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelsOf(sd)},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: sd.Spec.Image, Command: sd.Spec.Command}},
		},
	}
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// isOver reports whether a pod has ended.
func isOver(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
