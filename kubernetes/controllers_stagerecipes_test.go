package kubernetes_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/simulatednodes"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/node/stage"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// recipe returns the YAML of a section of the guide, as a user copies it.
func recipe(t *testing.T, heading string) string {
	t.Helper()
	guide, err := os.ReadFile("../docs/guides/nodes-that-fail.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(guide), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, block, found := strings.Cut(section, "```yaml\n")
	block, _, closed := strings.Cut(block, "```")
	if !ok || !found || !closed {
		t.Fatalf("no YAML in the section %q", heading)
	}
	return block
}

func recipeStages(t *testing.T, heading string) []stage.Stage { return parse(t, recipe(t, heading)) }

// recipePod returns a pod with the metadata of a recipe.
func recipePod(t *testing.T, heading, name string) *corev1.Pod {
	t.Helper()
	p := newPod(name)
	require.NoError(t, yaml.UnmarshalStrict([]byte(recipe(t, heading)), p))
	return p
}

// deployment returns a Deployment of pods with a label and an image.
func labeledDeployment(name, image string, replicas int32, labels map[string]string) *appsv1.Deployment {
	all := map[string]string{"app": name}
	for k, v := range labels {
		all[k] = v
	}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: all},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}}},
	}}
}

// deletes checks that a pod ends when it is deleted.
func deletes(t *testing.T, env *testenv.Env, p *corev1.Pod) {
	t.Helper()
	require.NoError(t, env.Client().Delete(t.Context(), p))
	letPass(t, env, time.Minute)
	if exists(t, env, p) {
		t.Errorf("the deleted pod %s is still there", p.Name)
	}
}

// The recipe for image pull failures: a rollout is stuck, and recovers with another image.
func TestImagePullFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Log(t), testenv.Workloads(), simulatedNodes(2),
			testenv.Stage(recipeStages(t, "Image pull failures")...))
		env.Settle(t)
		web := labeledDeployment("web", "example.com/missing:1", 2, nil)
		env.Create(t, web)
		letPass(t, env, time.Minute)
		pods, err := client.List[corev1.Pod](t.Context(), env.Client())
		if err != nil || len(pods) != 2 {
			t.Fatalf("%d pods, %v", len(pods), err)
		}
		for _, p := range pods {
			if w := p.Status.ContainerStatuses[0].State.Waiting; p.Status.Phase != corev1.PodPending || w == nil ||
				w.Reason != "ImagePullBackOff" {
				t.Errorf("%s %+v", p.Status.Phase, p.Status.ContainerStatuses)
			}
			if !slices.ContainsFunc(eventsOf(t, env, p.Name), func(e string) bool {
				return strings.HasPrefix(e, "Warning Failed Failed to pull image")
			}) {
				t.Errorf("events %q", eventsOf(t, env, p.Name))
			}
		}
		env.Get(t, web)
		web.Spec.Template.Spec.Containers[0].Image = "example.com/present:1"
		require.NoError(t, env.Client().Update(t.Context(), web))
		letPass(t, env, time.Minute)
		if env.Get(t, web); web.Status.ReadyReplicas != 2 || web.Status.Replicas != 2 {
			t.Errorf("after the rollout: %+v", web.Status)
		}
	})
}

// Simulated nodes do not execute probes, but the Stages of the guide delay readiness as the probes
// would.
func TestReadinessProbes(t *testing.T) {
	probe := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{InitialDelaySeconds: 20, PeriodSeconds: 5,
			SuccessThreshold: 3,
			ProbeHandler:     corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}}}
		return p
	}
	ready := func(p *corev1.Pod) bool {
		return p.Status.ContainerStatuses[0].Ready &&
			slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
	}
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Log(t), testenv.Workloads(), simulatedNodes(1))
		p := probe(newPod("p"))
		env.Create(t, p)
		letPass(t, env, 5*time.Second)
		if env.Get(t, p); !ready(p) {
			t.Errorf("without Stages: %+v", p.Status)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Log(t), testenv.Workloads(), simulatedNodes(1),
			testenv.Stage(recipeStages(t, "Readiness probes")...))
		env.Settle(t)
		p, other := probe(newPod("p")), newPod("other")
		env.Create(t, p)
		env.Create(t, other)
		letPass(t, env, 25*time.Second)
		if env.Get(t, other); !ready(other) {
			t.Errorf("a pod without a probe: %+v", other.Status)
		}
		if env.Get(t, p); ready(p) || p.Status.Phase != corev1.PodRunning || p.Status.PodIP == "" {
			t.Errorf("after 25 seconds: %+v", p.Status)
		}
		letPass(t, env, 10*time.Second)
		if env.Get(t, p); !ready(p) {
			t.Errorf("after 35 seconds: %+v", p.Status)
		}
		deletes(t, env, p)
	})
}

// The recipe for slow starts.
func TestSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Log(t), testenv.Workloads(), simulatedNodes(1),
			testenv.Stage(recipeStages(t, "Slow starts")...))
		env.Settle(t)
		slow := labeledDeployment("slow", "x", 1, map[string]string{"start": "slow"})
		env.Create(t, slow)
		env.Create(t, labeledDeployment("fast", "x", 1, nil))
		letPass(t, env, 25*time.Second)
		fast := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "fast"}}
		if env.Get(t, fast); fast.Status.ReadyReplicas != 1 {
			t.Errorf("the other Deployment: %+v", fast.Status)
		}
		if env.Get(t, slow); slow.Status.ReadyReplicas != 0 {
			t.Error("ready after less than 30 seconds")
		}
		letPass(t, env, 20*time.Second)
		if env.Get(t, slow); slow.Status.ReadyReplicas != 1 {
			t.Errorf("after 45 seconds: %+v", slow.Status)
		}
		pods, err := client.List[corev1.Pod](t.Context(), env.Client(), client.MatchingLabels{"app": "slow"})
		if err != nil || len(pods) != 1 || pods[0].Status.PodIP == "" || pods[0].Status.HostIP == "" {
			t.Fatalf("%v %v", pods, err)
		}
		p := newPod("single")
		p.Labels = map[string]string{"start": "slow"}
		env.Create(t, p)
		deletes(t, env, p)
	})
}

// The recipe for crash loops.
func TestCrashLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, simulatedNodes(1))
		p := recipePod(t, "Crash loops", "crash")
		env.Create(t, p)
		letPass(t, env, 2*time.Minute)
		c := getPod(t, env, "crash").Status.ContainerStatuses[0]
		if c.State.Waiting == nil || c.State.Waiting.Reason != "CrashLoopBackOff" ||
			c.LastTerminationState.Terminated.ExitCode != 1 || c.RestartCount < 3 {
			t.Errorf("%+v", c)
		}
		if !slices.ContainsFunc(eventsOf(t, env, "crash"), func(e string) bool {
			return strings.HasPrefix(e, "Warning BackOff")
		}) {
			t.Errorf("events %q", eventsOf(t, env, "crash"))
		}
		deletes(t, env, p)
	})
}

// The recipe for flapping readiness: 20 seconds ready, 10 seconds not, and again; without its
// second Stage, the pod stays unready.
func TestFlappingReadiness(t *testing.T) {
	for name, count := range map[string]int{"flapping": 2, "failing": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				env := testenv.New(t, testenv.Log(t), testenv.Workloads(), simulatedNodes(1),
					testenv.Stage(recipeStages(t, "Failing and flapping readiness")[:count]...))
				env.Settle(t)
				p := newPod("flaps")
				p.Labels = map[string]string{"readiness": "flapping"}
				env.Create(t, p)
				steady := newPod("steady")
				env.Create(t, steady)
				letPass(t, env, time.Second)
				got := ""
				for range 10 {
					status, _ := condition(getPod(t, env, "flaps").Status.Conditions, "Ready")
					got += status + " "
					letPass(t, env, 10*time.Second)
				}
				want := "True True False True True False True True False True "
				if count == 1 {
					want = "True True False False False False False False False False "
				}
				assert.Equalf(t, got, want, "Ready")
				status, _ := condition(getPod(t, env, "steady").Status.Conditions, "Ready")
				assert.Equalf(t, status, "True", "the other pod: Ready")
				if !slices.ContainsFunc(eventsOf(t, env, "flaps"), func(e string) bool {
					return strings.HasPrefix(e, "Warning Unhealthy Readiness probe failed")
				}) {
					t.Errorf("events %q", eventsOf(t, env, "flaps"))
				}
				deletes(t, env, p)
			})
		})
	}
}

// The recipe for OOM kills.
func TestOOMKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, simulatedNodes(1))
		p := recipePod(t, "OOM kills", "hungry")
		env.Create(t, p)
		letPass(t, env, 90*time.Second)
		c := getPod(t, env, "hungry").Status.ContainerStatuses[0]
		if c.State.Running == nil || c.RestartCount != 1 || c.LastTerminationState.Terminated.Reason != "OOMKilled" ||
			c.LastTerminationState.Terminated.ExitCode != 137 {
			t.Errorf("%+v", c)
		}
	})
}

// The recipe for a node that goes silent and comes back, by a Stage: its pods are evicted and
// replaced on other nodes, and no longer exist when it is back.
func TestNodeGoesSilentAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Workloads(),
			testenv.Stage(recipeStages(t, "A node that goes silent and comes back")...),
			testenv.Nodes(controlplane.Simulated{Lease: controlplane.NodeLease, Groups: []simulatednodes.Group{
				{Count: 1, Labels: map[string]string{"fails": "true"}},
				{Count: 1, Name: "spare",
					Taints: []corev1.Taint{{Key: "spare", Effect: corev1.TaintEffectPreferNoSchedule}}},
			}}))
		letPass(t, env, time.Second)
		web := labeledDeployment("web", "x", 1, nil)
		env.Create(t, web)
		places := func() (all []string) {
			pods, err := client.List[corev1.Pod](t.Context(), env.Client())
			require.NoError(t, err)
			for _, p := range pods {
				place := p.Spec.NodeName
				if p.DeletionTimestamp != nil {
					place += " terminating"
				}
				all = append(all, place)
			}
			slices.Sort(all)
			return all
		}
		letPass(t, env, time.Minute)
		if got := places(); !slices.Equal(got, []string{"node-1"}) {
			t.Fatalf("pods on %q", got)
		}
		letPass(t, env, 10*time.Minute)
		status, _ := condition(simulatedNode(t, env).Status.Conditions, "Ready")
		assert.Equalf(t, status, "Unknown", "the silent node: Ready")
		assert.Slicef(t, places(), []string{"node-1 terminating", "spare-1"}, "pods on")
		n := simulatedNode(t, env)
		delete(n.Annotations, simulatednodes.AnnotationSilent)
		require.NoError(t, env.Client().Update(t.Context(), n))
		letPass(t, env, time.Minute)
		if status, _ := condition(simulatedNode(t, env).Status.Conditions, "Ready"); status != "True" ||
			len(simulatedNode(t, env).Spec.Taints) != 0 {
			t.Errorf("the node is back: Ready %s, taints %v", status, simulatedNode(t, env).Spec.Taints)
		}
		assert.Slicef(t, places(), []string{"spare-1"}, "pods on")
	})
}

// letPass lets virtual time pass.
func letPass(t *testing.T, env *testenv.Env, d time.Duration) {
	t.Helper()
	time.Sleep(d)
	env.Settle(t)
}
