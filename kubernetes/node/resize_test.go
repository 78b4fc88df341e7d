package node_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/kubernetes/controlplane"
)

// resize sets requests of CPU through the subresource resize.
func (w *fixture) resize(containers ...string) {
	w.t.Helper()
	patch := `{"spec":{"containers":[` + strings.Join(containers, ",") + `]}}`
	if _, err := w.logs.CoreV1().Pods("default").Patch(w.t.Context(), "p", types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{}, "resize"); err != nil {
		w.t.Fatal(err)
	}
}

func cpu(container, value string) string {
	return fmt.Sprintf(`{"name":%q,"resources":{"requests":{"cpu":%[2]q},"limits":{"cpu":%[2]q}}}`, container, value)
}

// The resources of a running pod change in place, or with a restart if the container's resizePolicy
// requires it.
func TestResize(t *testing.T) {
	bubble(t, func(t *testing.T, w *fixture) {
		p := pod("Always", nil, "sleep", "100000")
		limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: limits, Limits: limits}
		again := *p.Spec.Containers[0].DeepCopy()
		again.Name, again.ResizePolicy = "again",
			[]corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
		p.Spec.Containers = append(p.Spec.Containers, again)
		w.create(p)
		synctest.Wait()
		state := func() string {
			var all []string
			p := w.wantPhase(corev1.PodRunning)
			for _, s := range p.Status.ContainerStatuses {
				all = append(all, fmt.Sprintf("%s: %s, allocated %s, %d restarts, ready %t", s.Name,
					s.Resources.Limits.Cpu(), s.AllocatedResources.Cpu(), s.RestartCount, s.Ready))
			}
			return strings.Join(all, "\n")
		}
		want := "app: 100m, allocated 100m, 0 restarts, ready true\nagain: 100m, allocated 100m, 0 restarts, ready true"
		if got := state(); got != want {
			t.Errorf("state\n%s\nwant\n%s", got, want)
		}
		w.resize(cpu("app", "200m"), cpu("again", "300m"))
		synctest.Wait()
		want = "app: 200m, allocated 200m, 0 restarts, ready true\nagain: 300m, allocated 300m, 1 restarts, ready true"
		if got := state(); got != want {
			t.Errorf("state\n%s\nwant\n%s", got, want)
		}
		if events := w.events(); !slices.ContainsFunc(events, func(e string) bool {
			return strings.Contains(e, "Container app resized")
		}) {
			t.Errorf("events %q", events)
		}
		w.resize(cpu("app", "200m")) // what it has
		synctest.Wait()
		if got := state(); got != want {
			t.Errorf("state\n%s\nwant\n%s", got, want)
		}
		w.resize(cpu("app", "50m"))
		synctest.Wait()
		if got := state(); got != strings.Replace(want, "200m, allocated 200m", "50m, allocated 50m", 1) {
			t.Errorf("state\n%s", got)
		}
	})
}

// A pod whose emptyDir exceeds its sizeLimit is evicted.
func TestSizeLimit(t *testing.T) {
	w := newFixture(t, controlplane.Config{Node: controlplane.Processes{Dir: t.TempDir(), Lease: controlplane.NodeLease}})
	p := pod("Always", nil, "sh", "-c", "head -c 3000000 /dev/zero > /data/large; sleep 300")
	limit := resource.MustParse("1Mi")
	p.Spec.Volumes = []corev1.Volume{{Name: "data",
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	w.create(p)
	ended := func(p *corev1.Pod) bool {
		if slices.ContainsFunc(w.events(), func(e string) bool {
			return strings.Contains(e, "can mount volumes only if")
		}) {
			t.Skip("SKIPPED: this system can't mount volumes of pods")
		}
		return p != nil && p.Status.Phase == corev1.PodFailed
	}
	p = w.awaitFor(time.Minute, ended)
	if p.Status.Reason != "Evicted" || p.Status.Message != `Usage of EmptyDir volume "data" exceeds the limit "1Mi". ` {
		t.Errorf("%s: %s", p.Status.Reason, p.Status.Message)
	}
	if !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	}) {
		t.Errorf("conditions %+v", p.Status.Conditions)
	}
	w.waitEvent("Evicted", p.Status.Message)
}
