package kubernetes_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/simulatedvolumes"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// inCluster runs a test in virtual time, on a control plane with workloads and a simulated node.
func inCluster(t *testing.T, test func(t *testing.T, env *testenv.Env)) {
	synctest.Test(t, func(t *testing.T) {
		test(t, testenv.New(t, testenv.Workloads(), testenv.Nodes(controlplane.Simulated{})))
	})
}

func claim(name, size string, class *string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{"storage": resource.MustParse(size)}},
		}}
}

func podMounting(name, claim string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "i"}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
	}}
}

func after(t *testing.T, env *testenv.Env, d time.Duration) {
	t.Helper()
	env.Settle(t)
	time.Sleep(d)
	env.Settle(t)
}

func all[T any, P client.Pointer[T]](t *testing.T, env *testenv.Env) []P {
	t.Helper()
	list, err := client.List[T, P](t.Context(), env.Client())
	require.NoError(t, err)
	return list
}

func deleted(t *testing.T, env *testenv.Env, obj client.Object) {
	t.Helper()
	require.NoError(t, env.Client().Delete(t.Context(), obj))
	after(t, env, 2*time.Minute)
}

// reasons returns the reasons of the Events about an object.
func reasons(t *testing.T, env *testenv.Env, name string) []string {
	t.Helper()
	var found []string
	for _, e := range all[corev1.Event](t, env) {
		if e.InvolvedObject.Name == name {
			found = append(found, e.Reason)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// A StatefulSet with claims becomes ready: claims are bound to provisioned volumes, which are
// attached to the node. Without pods, they are detached; without claims, they are deleted.
func TestStatefulSet(t *testing.T) {
	inCluster(t, func(t *testing.T, env *testenv.Env) {
		labels := map[string]string{"app": "db"}
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(3)), ServiceName: "db", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{
					{Name: "c", Image: "i", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}}}},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{
				{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: claim("", "1Gi", nil).Spec}},
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
				WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType},
		}}
		env.Create(t, set)
		after(t, env, time.Minute)
		env.Get(t, set)
		require.Equalf(t, set.Status.ReadyReplicas, 3, "status %+v", set.Status)
		for _, c := range all[corev1.PersistentVolumeClaim](t, env) {
			if c.Status.Phase != corev1.ClaimBound || *c.Spec.StorageClassName != simulatedvolumes.DefaultClass {
				t.Errorf("claim %s: %+v", c.Name, c.Status)
			}
		}
		volumes, attachments := all[corev1.PersistentVolume](t, env), all[storagev1.VolumeAttachment](t, env)
		if len(volumes) != 3 || len(attachments) != 3 || !attachments[0].Status.Attached {
			t.Errorf("%d volumes, attachments %+v", len(volumes), attachments)
		}
		if nodes := all[storagev1.CSINode](t, env); len(nodes) != 1 ||
			nodes[0].Spec.Drivers[0].Name != simulatedvolumes.Driver {
			t.Errorf("CSINodes %+v", nodes)
		}
		got := reasons(t, env, "data-db-0")
		for _, want := range []string{"Provisioning", "ProvisioningSucceeded"} {
			if !slices.Contains(got, want) {
				t.Errorf("Events of the claim: %v, without %s", got, want)
			}
		}
		set.Spec.Replicas = new(int32(1))
		require.NoError(t, env.Client().Update(t.Context(), set))
		after(t, env, 2*time.Minute)
		assert.Equalf(t, len(all[storagev1.VolumeAttachment](t, env)), 1, "attachments of one pod")
		deleted(t, env, set)
		after(t, env, 2*time.Minute)
		if claims, volumes := all[corev1.PersistentVolumeClaim](t, env),
			all[corev1.PersistentVolume](t, env); len(claims) != 0 || len(volumes) != 0 {
			t.Errorf("after the set: claims %+v, volumes %+v", claims, volumes)
		}
	})
}

// A claim of the default class waits for its first consumer. While a pod uses it, it is not
// deleted.
func TestWaitForFirstConsumer(t *testing.T) {
	inCluster(t, func(t *testing.T, env *testenv.Env) {
		data := claim("data", "1Gi", nil)
		env.Create(t, data)
		after(t, env, time.Hour)
		if env.Get(t, data); data.Status.Phase != corev1.ClaimPending ||
			!slices.Contains(reasons(t, env, "data"), "WaitForFirstConsumer") {
			t.Errorf("without a consumer: %s", data.Status.Phase)
		}
		pod := podMounting("p", "data")
		env.Create(t, pod)
		after(t, env, time.Minute)
		env.Get(t, data)
		env.Get(t, pod)
		if data.Status.Phase != corev1.ClaimBound || pod.Status.Phase != corev1.PodRunning {
			t.Fatalf("with a consumer: claim %s, pod %s", data.Status.Phase, pod.Status.Phase)
		}
		deleted(t, env, data)
		if env.Get(t, data); data.DeletionTimestamp == nil || data.Status.Phase != corev1.ClaimBound {
			t.Errorf("in use: %+v", data)
		}
		deleted(t, env, pod)
		if err := env.Client().Get(t.Context(), client.KeyOf(data), data); !apierrors.IsNotFound(err) {
			t.Errorf("no longer in use: %v", err)
		}
		assert.Lenf(t, all[corev1.PersistentVolume](t, env), 0, "volumes")
	})
}

// A claim is bound to a volume that was created by hand, which is kept when it is released.
func TestStaticVolume(t *testing.T) {
	inCluster(t, func(t *testing.T, env *testenv.Env) {
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"},
			Spec: corev1.PersistentVolumeSpec{
				Capacity:                      corev1.ResourceList{"storage": resource.MustParse("5Gi")},
				AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
			}}
		env.Create(t, volume)
		data := claim("data", "1Gi", new(""))
		env.Create(t, data)
		after(t, env, time.Minute)
		env.Get(t, data)
		if data.Spec.VolumeName != "disk" || data.Status.Phase != corev1.ClaimBound {
			t.Fatalf("claim %+v", data)
		}
		deleted(t, env, data)
		if env.Get(t, volume); volume.Status.Phase != corev1.VolumeReleased {
			t.Errorf("volume %+v", volume.Status)
		}
	})
}

// A claim that requests more gets a larger volume.
func TestResize(t *testing.T) {
	inCluster(t, func(t *testing.T, env *testenv.Env) {
		data := claim("data", "1Gi", nil)
		env.Create(t, data)
		env.Create(t, podMounting("p", "data"))
		after(t, env, time.Minute)
		env.Get(t, data)
		data.Spec.Resources.Requests["storage"] = resource.MustParse("3Gi")
		require.NoError(t, env.Client().Update(t.Context(), data))
		after(t, env, time.Minute)
		env.Get(t, data)
		volumes := all[corev1.PersistentVolume](t, env)
		if got, volume := data.Status.Capacity.Storage().String(),
			volumes[0].Spec.Capacity.Storage().String(); got != "3Gi" || volume != "3Gi" {
			t.Errorf("claim %s, volume %s", got, volume)
		}
		if got := reasons(t, env, "data"); !slices.Contains(got, "VolumeResizeSuccessful") {
			t.Errorf("Events %v", got)
		}
	})
}

// The parameters of a class delay or fail provisioning.
func TestParametersOfSimulatedVolumes(t *testing.T) {
	inCluster(t, func(t *testing.T, env *testenv.Env) {
		for name, parameters := range map[string]map[string]string{
			"slow": {"delay": "30s"}, "full": {"error": "quota exceeded"}, "wrong": {"type": "ssd"},
		} {
			env.Create(t, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name},
				Provisioner: simulatedvolumes.Driver, Parameters: parameters})
			env.Create(t, claim(name, "1Gi", &name))
		}
		phase := func(name string) corev1.PersistentVolumeClaimPhase {
			c := claim(name, "1Gi", nil)
			env.Get(t, c)
			return c.Status.Phase
		}
		after(t, env, 20*time.Second)
		assert.Equalf(t, phase("slow"), corev1.ClaimPending, "slow, after 20 s")
		after(t, env, 20*time.Second)
		assert.Equalf(t, phase("slow"), corev1.ClaimBound, "slow, after 40 s")
		for name, want := range map[string]string{"full": "quota exceeded", "wrong": `unknown parameter "type"`} {
			found := false
			for _, e := range all[corev1.Event](t, env) {
				found = found || e.InvolvedObject.Name == name && e.Reason == "ProvisioningFailed" &&
					strings.Contains(e.Message, want)
			}
			if !found || phase(name) != corev1.ClaimPending {
				t.Errorf("%s: %s, Events %v", name, phase(name), reasons(t, env, name))
			}
		}
	})
}

// An ephemeral volume has a claim that lives as long as its pod.
func TestEphemeralVolume(t *testing.T) {
	inCluster(t, func(t *testing.T, env *testenv.Env) {
		pod := podMounting("p", "")
		pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claim("", "1Gi", nil).Spec}}}
		env.Create(t, pod)
		after(t, env, time.Minute)
		env.Get(t, pod)
		if claims := all[corev1.PersistentVolumeClaim](t, env); pod.Status.Phase != corev1.PodRunning ||
			len(claims) != 1 || claims[0].Name != "p-data" {
			t.Fatalf("pod %s, claims %+v", pod.Status.Phase, claims)
		}
		deleted(t, env, pod)
		assert.Lenf(t, all[corev1.PersistentVolumeClaim](t, env), 0, "claims")
	})
}

// Control planes with StorageClasses of their own get no other default.
func TestInstallKeepsClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t)
		env.Create(t, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "mine"},
			Provisioner: "example.com/disks"})
		err := simulatedvolumes.New(simulatedvolumes.Config{Store: env.Plane().Store(), Client: env.Client()}).
			Install(t.Context())
		require.NoError(t, err)
		assert.Lenf(t, all[storagev1.StorageClass](t, env), 1, "classes")
	})
}
