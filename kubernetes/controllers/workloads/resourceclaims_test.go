package workloads_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/lab/testenv"
)

// API-11: a pod gets its claim from a template, and the claim is deleted with the pod.
func TestResourceClaimOfTemplate(t *testing.T) {
	inCluster(t, func(t *testing.T, env *testenv.Env) {
		env.Create(t, &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.ResourceClaimTemplateSpec{
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
				Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com"},
			}}}},
		}})
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
			SchedulerName:  "none",
			ResourceClaims: []corev1.PodResourceClaim{{Name: "mine", ResourceClaimTemplateName: new("gpu")}},
			Containers:     []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "mine"}}}}},
		}}
		env.Create(t, pod)
		after(t, env, time.Minute)
		claims := names(t, env, &resourcev1.ResourceClaimList{})
		if len(claims) != 1 || !strings.HasPrefix(claims[0], "p-mine-") {
			t.Fatalf("claims %v", claims)
		}
		env.Get(t, pod)
		if s := pod.Status.ResourceClaimStatuses; len(s) != 1 || s[0].ResourceClaimName == nil || *s[0].ResourceClaimName != claims[0] {
			t.Errorf("status %+v", s)
		}
		if err := env.Client().Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		after(t, env, 2*time.Minute)
		if left := names(t, env, &resourcev1.ResourceClaimList{}); !slices.Equal(left, []string{}) && left != nil {
			t.Errorf("claims %v", left)
		}
	})
}
