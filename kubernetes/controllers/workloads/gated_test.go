package workloads_test

import (
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericfeatures "k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

	"kelson.dev/kubernetes/builtin"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/testenv"
)

// A DeviceTaintRule with the effect NoExecute evicts only the pods whose claims have the device,
// and reports the eviction in its status.
func TestDeviceTaintRuleEvicts(t *testing.T) {
	inCluster(t, func(t *testing.T, env *testenv.Env) {
		env.Create(t, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}})
		env.Create(t, &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "gpus"},
			Spec: resourcev1.ResourceSliceSpec{
				Driver: "gpu.example.com", NodeName: new("kelson"),
				Pool:    resourcev1.ResourcePool{Name: "kelson", ResourceSliceCount: 1},
				Devices: []resourcev1.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
			}})
		device := map[string]string{}
		for _, name := range []string{"first", "second"} {
			claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: resourcev1.ResourceClaimSpec{
					Devices: resourcev1.DeviceClaim{
						Requests: []resourcev1.DeviceRequest{
							{Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}}}},
				}}
			env.Create(t, claim)
			env.Create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
				ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new(name)}},
				Containers: []corev1.Container{{Name: "c", Image: "i",
					Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}}},
			}})
			after(t, env, time.Minute)
			env.Get(t, claim)
			if claim.Status.Allocation == nil {
				t.Fatalf("claim %s: %+v", name, claim.Status)
			}
			device[name] = claim.Status.Allocation.Devices.Results[0].Device
		}
		rule := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "broken"},
			Spec: resourcev1.DeviceTaintRuleSpec{
				DeviceSelector: &resourcev1.DeviceTaintSelector{Driver: new("gpu.example.com"),
					Device: new(device["first"])},
				Taint: resourcev1.DeviceTaint{Key: "example.com/broken",
					Effect: resourcev1.DeviceTaintEffectNoExecute},
			}}
		env.Create(t, rule)
		after(t, env, 2*time.Minute)
		if left := names(t, env, &corev1.PodList{}); len(left) != 1 || left[0] != "second" {
			t.Errorf("pods %v, want only second", left)
		}
		env.Get(t, rule)
		if len(rule.Status.Conditions) == 0 {
			t.Error("the rule has no conditions")
		}
	})
}

// withGates runs a test in virtual time against a control plane that serves all versions of its
// APIs, with feature gates on.
func withGates(t *testing.T, test func(t *testing.T, c kubernetes.Interface), gates ...featuregate.Feature) {
	for _, gate := range gates {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, gate, true)
	}
	synctest.Test(t, func(t *testing.T) {
		apis, err := builtin.ParseAPIs(map[string]string{"api/all": "true"})
		if err != nil {
			t.Fatal(err)
		}
		plane, err := controlplane.Start(t.Context(), controlplane.Config{APIs: apis, Controllers: controlplane.AllControllers{}})
		if err != nil {
			t.Fatal(err)
		}
		defer plane.Stop()
		c, err := kubernetes.NewForConfig(plane.RESTConfig())
		if err != nil {
			t.Fatal(err)
		}
		test(t, c)
	})
}

// A PodGroup that is deleted exists until its pods have ended.
func TestPodGroupProtection(t *testing.T) {
	withGates(t, func(t *testing.T, c kubernetes.Interface) {
		groups, pods := c.SchedulingV1beta1().PodGroups("default"), c.CoreV1().Pods("default")
		group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "g"},
			Spec: schedulingv1beta1.PodGroupSpec{
				SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
					Basic: &schedulingv1beta1.BasicSchedulingPolicy{}},
			}}
		if _, err := groups.Create(t.Context(), group, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
			SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: new("g")},
			Containers:      []corev1.Container{{Name: "c", Image: "i"}},
		}}
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := groups.Delete(t.Context(), "g", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := groups.Get(t.Context(), "g", metav1.GetOptions{}); err != nil {
			t.Fatalf("while the pod exists: %v", err)
		}
		if err := pods.Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := groups.Get(t.Context(), "g", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("after the pod's end: %v", err)
		}
	}, features.GenericWorkload)
}

// Of the candidates for a Lease, the control plane makes the one with the oldest emulated version
// the holder.
func TestCoordinatedLeaderElection(t *testing.T) {
	withGates(t, func(t *testing.T, c kubernetes.Interface) {
		// The first election may see only the first candidate.
		for _, name := range []string{"old", "new"} {
			version := map[string]string{"new": "1.37.0", "old": "1.36.0"}[name]
			now := metav1.NowMicro()
			candidate := &coordinationv1beta1.LeaseCandidate{ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: coordinationv1beta1.LeaseCandidateSpec{
					LeaseName: "operator", BinaryVersion: "1.37.0", EmulationVersion: version,
					Strategy:  coordinationv1.OldestEmulationVersion,
					RenewTime: &now, PingTime: &now,
				}}
			if _, err := c.CoordinationV1beta1().LeaseCandidates("default").Create(t.Context(), candidate,
				metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second)
		lease, err := c.CoordinationV1().Leases("default").Get(t.Context(), "operator", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if holder := lease.Spec.HolderIdentity; holder == nil || *holder != "old" {
			t.Errorf("lease %+v, want the holder old", lease.Spec)
		}
	}, genericfeatures.CoordinatedLeaderElection)
}

// The controller writes the devices of the driver's pools to the status of a
// ResourcePoolStatusRequest.
func TestResourcePoolStatusRequest(t *testing.T) {
	withGates(t, func(t *testing.T, c kubernetes.Interface) {
		// Kubernetes' validation of the status refuses pools of generation 0.
		for pool, devices := range map[string][]resourcev1.Device{"a": {{Name: "d0"}, {Name: "d1"}},
			"b": {{Name: "d0"}}} {
			slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: pool},
				Spec: resourcev1.ResourceSliceSpec{
					Driver: "gpu.example.com", AllNodes: new(true),
					Pool: resourcev1.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1}, Devices: devices,
				}}
			if _, err := c.ResourceV1().ResourceSlices().Create(t.Context(), slice,
				metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		requests := c.ResourceV1alpha3().ResourcePoolStatusRequests()
		request := &resourcev1alpha3.ResourcePoolStatusRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"},
			Spec: resourcev1alpha3.ResourcePoolStatusRequestSpec{Driver: "gpu.example.com"}}
		if _, err := requests.Create(t.Context(), request, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		answer, err := requests.Get(t.Context(), "r", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Status == nil || len(answer.Status.Pools) != 2 {
			t.Fatalf("status %+v, want two pools", answer.Status)
		}
		for i, want := range []struct {
			pool  string
			total int32
		}{{"a", 2}, {"b", 1}} {
			p := answer.Status.Pools[i]
			if p.PoolName != want.pool || p.TotalDevices == nil || *p.TotalDevices != want.total ||
				p.AvailableDevices == nil || *p.AvailableDevices != want.total {
				t.Errorf("pool %+v, want %+v", p, want)
			}
		}
	}, features.DRAResourcePoolStatus)
}

// With WorkloadWithJob, a Job gets a Workload and a PodGroup, which its pods name.
func TestWorkloadWithJob(t *testing.T) {
	withGates(t, func(t *testing.T, c kubernetes.Interface) {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: batchv1.JobSpec{
			Parallelism: new(int32(2)), Completions: new(int32(2)), CompletionMode: new(batchv1.IndexedCompletion),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
		}}
		job, err := c.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		workloads, err := c.SchedulingV1beta1().Workloads("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		groups, err := c.SchedulingV1beta1().PodGroups("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(workloads.Items) != 1 || len(groups.Items) != 1 {
			t.Fatalf("%d workloads and %d groups, want one of each", len(workloads.Items), len(groups.Items))
		}
		if !metav1.IsControlledBy(&workloads.Items[0], job) {
			t.Errorf("owners of the workload: %v", workloads.Items[0].OwnerReferences)
		}
		pods, err := c.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(pods.Items) != 2 {
			t.Errorf("%d pods, want 2", len(pods.Items))
		}
		for _, pod := range pods.Items {
			if g := pod.Spec.SchedulingGroup; g == nil || g.PodGroupName == nil ||
				*g.PodGroupName != groups.Items[0].Name {
				t.Errorf("group of %s: %+v, want %s", pod.Name, g, groups.Items[0].Name)
			}
		}
	}, features.GenericWorkload, features.WorkloadWithJob)
}
