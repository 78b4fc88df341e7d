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

// A pod gets its claim from a template, and the claim is deleted with the pod.
func TestResourceClaimOfTemplate(t *testing.T) {
	inCluster(t, func(t *testing.T, env *testenv.Env) {
		env.Create(t, &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
			Spec: resourcev1.ResourceClaimTemplateSpec{
				Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
					Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com"},
				}}}},
			}})
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
			SchedulerName:  "none",
			ResourceClaims: []corev1.PodResourceClaim{{Name: "mine", ResourceClaimTemplateName: new("gpu")}},
			Containers: []corev1.Container{{Name: "c", Image: "i",
				Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "mine"}}}}},
		}}
		env.Create(t, pod)
		after(t, env, time.Minute)
		claims := names(t, env, &resourcev1.ResourceClaimList{})
		if len(claims) != 1 || !strings.HasPrefix(claims[0], "p-mine-") {
			t.Fatalf("claims %v", claims)
		}
		env.Get(t, pod)
		if s := pod.Status.ResourceClaimStatuses; len(s) != 1 || s[0].ResourceClaimName == nil ||
			*s[0].ResourceClaimName != claims[0] {
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

// The scheduler allocates the devices of a node to claims. If no device is left for a pod's claim,
// the pod waits until one is free.
func TestDevicesAreAllocated(t *testing.T) {
	inCluster(t, func(t *testing.T, env *testenv.Env) {
		env.Create(t, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
			Spec: resourcev1.DeviceClassSpec{
				Selectors: []resourcev1.DeviceSelector{
					{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}},
			}})
		env.Create(t, &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "gpus"},
			Spec: resourcev1.ResourceSliceSpec{
				Driver: "gpu.example.com", NodeName: new("kelson"),
				Pool:    resourcev1.ResourcePool{Name: "kelson", ResourceSliceCount: 1},
				Devices: []resourcev1.Device{{Name: "gpu-0"}},
			}})
		claim := func(name string) *resourcev1.ResourceClaim {
			return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: resourcev1.ResourceClaimSpec{
					Devices: resourcev1.DeviceClaim{
						Requests: []resourcev1.DeviceRequest{
							{Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}}}},
				}}
		}
		pod := func(name string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
				ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new(name)}},
				Containers: []corev1.Container{{Name: "c", Image: "i",
					Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}}},
			}}
		}
		first, second := pod("first"), pod("second")
		firstClaim, secondClaim := claim("first"), claim("second")
		env.Create(t, firstClaim)
		env.Create(t, first)
		after(t, env, time.Minute)
		env.Create(t, secondClaim)
		env.Create(t, second)
		after(t, env, time.Minute)
		env.Get(t, first)
		env.Get(t, firstClaim)
		if a := firstClaim.Status.Allocation; first.Status.Phase != corev1.PodRunning || a == nil ||
			len(a.Devices.Results) != 1 || a.Devices.Results[0].Device != "gpu-0" ||
			len(firstClaim.Status.ReservedFor) != 1 {
			t.Fatalf("first: %s, claim %+v", first.Status.Phase, firstClaim.Status)
		}
		env.Get(t, second)
		if env.Get(t, secondClaim); second.Spec.NodeName != "" || secondClaim.Status.Allocation != nil {
			t.Fatalf("second: on node %q, claim %+v", second.Spec.NodeName, secondClaim.Status)
		}
		if err := env.Client().Delete(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		if err := env.Client().Delete(t.Context(), firstClaim); err != nil {
			t.Fatal(err)
		}
		after(t, env, 10*time.Minute)
		env.Get(t, second)
		if env.Get(t, secondClaim); second.Status.Phase != corev1.PodRunning || secondClaim.Status.Allocation == nil {
			t.Errorf("second: %s, claim %+v", second.Status.Phase, secondClaim.Status)
		}
	})
}
