package tokens

import (
	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// Uses reports whether a pod uses a Secret: in a volume, in its environment, or to pull images.
func Uses(pod *corev1.Pod, secret string) bool {
	return !podutil.VisitPodSecretNames(pod, func(name string) bool { return name != secret })
}
