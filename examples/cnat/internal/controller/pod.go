package controller

import (
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	cnat "kelson.dev/examples/cnat/api/v1alpha1"
)

const (
	// image has a shell and the usual commands.
	image = "busybox:1.37"
	// container is the name of the pod's only container.
	container = "command"
	// labelAt names the At that a pod belongs to.
	labelAt = "cnat.programming-kubernetes.info/at"
	// gate keeps a pod from running until the status of its At names it.
	gate = "cnat.programming-kubernetes.info/recorded"
)

// podFor returns the pod that runs an At's command.
func podFor(at *cnat.At) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName(at), Namespace: at.Namespace},
		Spec: corev1.PodSpec{
			RestartPolicy:   corev1.RestartPolicyNever,
			SchedulingGates: []corev1.PodSchedulingGate{{Name: gate}},
			Containers: []corev1.Container{{
				Name:    container,
				Image:   image,
				Command: []string{"sh", "-c", at.Spec.Command},
			}},
		},
	}
	if len(validation.IsValidLabelValue(at.Name)) == 0 { // names may be longer than labels
		pod.Labels = map[string]string{labelAt: at.Name}
	}
	return pod
}

// podName returns the At's name with the beginning of its uid and a hash of its command. So an At
// that is deleted and created again does not use its former pod. If the command changes between the
// creation of the pod and the write of the status, another pod runs.
func podName(at *cnat.At) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(at.Spec.Command))
	uid, _, _ := strings.Cut(string(at.UID), "-")
	suffix := fmt.Sprintf("-%s-%08x", uid, hash.Sum32())
	name := at.Name
	if most := validation.DNS1123SubdomainMaxLength - len(suffix); len(name) > most {
		name = strings.TrimRight(name[:most], ".-")
	}
	return name + suffix
}

// whyFailed returns the reason of a failed pod.
func whyFailed(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		t := s.State.Terminated
		switch {
		case t == nil:
		case t.Signal != 0:
			return fmt.Sprintf("it was ended by signal %d", t.Signal)
		case t.ExitCode != 0:
			return fmt.Sprintf("exit status %d", t.ExitCode)
		}
	}
	if pod.Status.Message != "" {
		return pod.Status.Message
	}
	if pod.Status.Reason != "" {
		return pod.Status.Reason
	}
	return "the pod failed"
}

// whyWaiting returns why a pod has not started, if the pod reports it.
func whyWaiting(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil && w.Reason != "" {
			return strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
		}
	}
	return ""
}
