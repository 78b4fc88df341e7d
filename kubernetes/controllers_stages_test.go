package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/simulatednodes"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/node/stage"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// kwok returns paths of KWOK's Stages, in the Go tool's cache; without them, the test is skipped.
func kwok(t *testing.T, names ...string) (paths []string) {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", "sigs.k8s.io/kwok@v0.8.0")
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	var module struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	if err != nil || module.Dir == "" {
		t.Skipf("KWOK's module is not available: %v", err)
	}
	for _, name := range names {
		paths = append(paths, filepath.Join(module.Dir, "kustomize", "stage", name))
	}
	return paths
}

func simulatedNodes(count int) testenv.Option {
	return testenv.Nodes(controlplane.Simulated{Groups: []simulatednodes.Group{{Count: count}}})
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		NodeName: "node-1", Containers: []corev1.Container{{Name: "app", Image: "x"}},
	}}
}

func simulatedNode(t *testing.T, env *testenv.Env) *corev1.Node {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	env.Get(t, n)
	return n
}

func condition[C any](conditions []C, kind string) (status, reason string) {
	for _, c := range conditions {
		switch c := any(c).(type) {
		case corev1.NodeCondition:
			if string(c.Type) == kind {
				return string(c.Status), c.Reason
			}
		case corev1.PodCondition:
			if string(c.Type) == kind {
				return string(c.Status), c.Reason
			}
		}
	}
	return "", ""
}

func exists(t *testing.T, env *testenv.Env, obj client.Object) bool {
	t.Helper()
	err := env.Client().Get(t.Context(), client.KeyOf(obj), obj)
	require.NoErrorf(t, client.IgnoreNotFound(err), "%v", err)
	return err == nil
}

// KWOK's fast Stages, unmodified, instead of the simulation: nodes are initialized and pods run,
// complete and are deleted immediately.
func TestKWOKFast(t *testing.T) {
	stages := kwok(t, "node/fast", "node/heartbeat", "pod/fast")
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Log(t), testenv.Workloads(), simulatedNodes(1), testenv.Stages(stages...))
		env.Settle(t)
		n := simulatedNode(t, env)
		if status, _ := condition(n.Status.Conditions, "Ready"); status != "True" ||
			n.Status.Phase != corev1.NodeRunning ||
			n.Status.NodeInfo.KubeletVersion != "kwok-"+stage.Version || len(n.Spec.Taints) != 0 ||
			n.Status.Addresses[0].Address == "" {
			t.Errorf("node %+v, taints %v", n.Status, n.Spec.Taints)
		}
		env.Create(t, newPod("web"))
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "once"},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
					Containers: []corev1.Container{{Name: "app", Image: "x"}}},
			}}}
		env.Create(t, job)
		time.Sleep(10 * time.Second)
		env.Settle(t)
		p := getPod(t, env, "web")
		if status, _ := condition(p.Status.Conditions, "Ready"); p.Status.Phase != corev1.PodRunning ||
			status != "True" || p.Status.PodIP == "" ||
			p.Status.HostIP != n.Status.Addresses[0].Address || p.Status.ContainerStatuses[0].ContainerID != "" {
			t.Errorf("pod %+v", p.Status)
		}
		if env.Get(t, job); job.Status.Succeeded != 1 {
			t.Errorf("job %+v", job.Status)
		}
		before := simulatedNode(t, env)
		time.Sleep(time.Minute)
		env.Settle(t)
		if after := simulatedNode(t, env); after.ResourceVersion == before.ResourceVersion {
			t.Error("the node sent no heartbeat")
		}
		require.NoError(t, env.Client().Delete(t.Context(), p))
		env.Settle(t)
		if exists(t, env, p) {
			t.Error("the deleted pod is still there")
		}
	})
}

// KWOK's general Stages, unmodified: every state of a pod with an init container, each after its
// delay, which an annotation can change.
func TestKWOKGeneral(t *testing.T) {
	stages := kwok(t, "pod/general")
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Log(t), testenv.Workloads(), simulatedNodes(1), testenv.Stages(stages...))
		p := newPod("web")
		p.Finalizers = nil
		p.Annotations = map[string]string{}
		for _, name := range []string{"pod-create", "pod-init-container-running", "pod-init-container-completed",
			"pod-ready", "pod-delete"} {
			p.Annotations[name+".stage.kwok.x-k8s.io/delay"] = "10s"
			p.Annotations[name+".stage.kwok.x-k8s.io/jitter-delay"] = "10s"
		}
		p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "x"}}
		env.Create(t, p)
		state := func() string {
			env.Settle(t)
			s := getPod(t, env, "web").Status
			text := string(s.Phase)
			for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
				for _, c := range list {
					switch {
					case c.State.Running != nil:
						text += " running"
					case c.State.Terminated != nil:
						text += " terminated"
					case c.State.Waiting != nil:
						text += " " + c.State.Waiting.Reason
					}
				}
			}
			return text
		}
		time.Sleep(5 * time.Second)
		for _, want := range []string{
			"Pending", "Pending PodInitializing PodInitializing", "Pending running PodInitializing",
			"Pending terminated ContainerCreating", "Running terminated running",
		} {
			assert.Equal(t, state(), want)
			time.Sleep(10 * time.Second)
		}
		if events := eventsOf(t, env, "web"); !slices.Contains(events, "Normal Created Created container") {
			t.Errorf("events %q", events)
		}
		require.NoError(t, env.Client().Delete(t.Context(), p))
		time.Sleep(5 * time.Second)
		if env.Settle(t); !exists(t, env, p) {
			t.Error("deleted before the delay")
		}
		time.Sleep(30 * time.Second)
		if env.Settle(t); exists(t, env, p) {
			t.Error("not deleted after the delay")
		}
	})
}

func eventsOf(t *testing.T, env *testenv.Env, name string) (all []string) {
	t.Helper()
	env.Settle(t)
	events, err := client.List[corev1.Event](t.Context(), env.Client())
	require.NoError(t, err)
	for _, e := range events {
		if e.InvolvedObject.Name == name {
			all = append(all, fmt.Sprintf("%s %s %s", e.Type, e.Reason, e.Message))
		}
	}
	return all
}

// KWOK's chaos Stages, unmodified, over its fast Stages, and over the simulation.
func TestKWOKChaos(t *testing.T) {
	chaos := kwok(t, "pod/chaos", "node/chaos")
	for name, base := range map[string][]string{"over fast": kwok(t, "pod/fast", "node/fast"),
		"over the simulation": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				env := testenv.New(t, testenv.Log(t), testenv.Workloads(), simulatedNodes(1),
					testenv.Stages(append(base, chaos...)...))
				failing := newPod("failing")
				failing.Labels = map[string]string{"pod-container-running-failed.stage.kwok.x-k8s.io": "true"}
				failing.Annotations = map[string]string{"pod-container-running-failed.stage.kwok.x-k8s.io/reason": "OOMKilled",
					"pod-container-running-failed.stage.kwok.x-k8s.io/exit-code": "137"}
				env.Create(t, failing)
				env.Create(t, newPod("healthy"))
				time.Sleep(10 * time.Second)
				env.Settle(t)
				p := getPod(t, env, "failing")
				require.Equalf(t, p.Status.Phase, corev1.PodFailed, "phase")
				if ended := p.Status.ContainerStatuses[0].State.Terminated; ended == nil ||
					ended.Reason != "OOMKilled" || ended.ExitCode != 137 {
					t.Errorf("container %+v", p.Status.ContainerStatuses[0])
				}
				if p := getPod(t, env, "healthy"); p.Status.Phase != corev1.PodRunning {
					t.Errorf("the other pod is %s", p.Status.Phase)
				}
				n := simulatedNode(t, env)
				n.Labels["node-not-ready.stage.kwok.x-k8s.io"] = "true"
				require.NoError(t, env.Client().Update(t.Context(), n))
				time.Sleep(1500 * time.Millisecond)
				env.Settle(t)
				if status, reason := condition(simulatedNode(t, env).Status.Conditions, "Ready"); status != "False" ||
					reason != "nodeFailed" {
					t.Errorf("Ready %s %s", status, reason)
				}
			})
		})
	}
}

// parse returns Stages written as YAML.
func parse(t *testing.T, text string) (all []stage.Stage) {
	t.Helper()
	stages, err := stage.Parse([]byte(text))
	require.NoError(t, err)
	for _, s := range stages {
		all = append(all, *s)
	}
	return all
}

// Stages are objects: clients create, change and delete them at run time, for any kind.
func TestStagesAtRunTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Log(t), simulatedNodes(1), testenv.Stage(parse(t, `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: step}
spec:
  resourceRef: {kind: ConfigMap}
  selector: {matchLabels: {run: "yes"}, matchExpressions: [{key: .data.count, operator: NotIn, values: ["3"]}]}
  delay: {durationMilliseconds: 1000}
  next:
    finalizers: {add: [{value: example.com/f}]}
    patches: [{root: data, template: 'count: {{ add1 (default "0" .data.count) | toString | Quote }}'}]
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: last}
spec:
  resourceRef: {kind: ConfigMap}
  selector: {matchExpressions: [{cel: {expression: "has(self.data) && has(self.data.count) && self.data.count == '3'"}}]}
  delay: {durationMilliseconds: 1000}
  steps:
  - event: {type: Warning, reason: Last, message: the end}
    finalizers: {empty: true}
  - apply: {template: '{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": {{ .metadata.name | Quote }}}}'}
  - delete: true
`)...))
		env.Settle(t)
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{"run": "yes"}}}
		env.Create(t, object)
		other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
		env.Create(t, other)
		time.Sleep(2500 * time.Millisecond)
		env.Settle(t)
		if env.Get(t, object); object.Data["count"] != "2" || len(object.Finalizers) != 1 {
			t.Errorf("after two steps: %v %v", object.Data, object.Finalizers)
		}
		time.Sleep(2 * time.Second)
		env.Settle(t)
		if exists(t, env, object) || !exists(t, env,
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}) {
			t.Error("the last Stage did not delete the object, or created no Secret")
		}
		if events := eventsOf(t, env, "c"); !slices.Contains(events, "Warning Last the end") {
			t.Errorf("events %q", events)
		}
		if env.Get(t, other); other.Data != nil {
			t.Errorf("an object that is not selected: %v", other.Data)
		}

		// without the Stage, nothing happens
		again := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "again",
			Labels: map[string]string{"run": "yes"}}}
		env.Create(t, again)
		env.Settle(t)
		step := stageObject("step")
		require.NoError(t, env.Client().Delete(t.Context(), step))
		time.Sleep(time.Minute)
		env.Settle(t)
		if env.Get(t, again); again.Data != nil {
			t.Errorf("after the Stage was deleted: %v", again.Data)
		}
	})
}

func stageObject(name string) client.Object {
	s := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: stage.APIVersion, Kind: stage.Kind}}
	s.Name = name
	return s
}

// A template that fails is reported and repeated only when the object changes; a silent node's pods
// do not change.
func TestFailuresAndSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, simulatedNodes(1), testenv.Stage(parse(t, `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: fail}
spec:
  resourceRef: {kind: Pod}
  selector: {matchLabels: {fail: "yes"}}
  next: {statusTemplate: '{{ fail "never" }}'}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: late}
spec:
  resourceRef: {kind: Pod}
  selector: {matchLabels: {late: "yes"}, matchExpressions: [{key: .status.reason, operator: DoesNotExist}]}
  delay: {durationMilliseconds: 60000}
  next: {statusTemplate: 'reason: Late'}
`)...))
		for _, label := range []string{"fail", "late"} {
			p := newPod(label)
			p.Labels = map[string]string{label: "yes"}
			env.Create(t, p)
		}
		time.Sleep(10 * time.Second)
		env.Settle(t)
		p := getPod(t, env, "fail")
		assert.Equalf(t, p.Status.Phase, corev1.PodPending, "a pod whose Stage fails")
		setSilent := func(value string) {
			n := simulatedNode(t, env)
			n.Annotations[simulatednodes.AnnotationSilent] = value
			require.NoError(t, env.Client().Update(t.Context(), n))
		}
		setSilent("true")
		time.Sleep(5 * time.Minute)
		env.Settle(t)
		p = getPod(t, env, "late")
		assert.Equalf(t, p.Status.Reason, "", "a pod changed on a silent node")
		setSilent("")
		time.Sleep(2 * time.Minute)
		env.Settle(t)
		p = getPod(t, env, "late")
		assert.Equalf(t, p.Status.Reason, "Late", "after the silence")
	})
}
