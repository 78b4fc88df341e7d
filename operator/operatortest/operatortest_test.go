package operatortest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/operatortest"
)

// needKelson skips the test without a binary, which the library's tests do not build.
func needKelson(t testing.TB) {
	t.Helper()
	if os.Getenv("KELSON") == "" {
		t.Skip("SKIPPED: needs a control plane: set KELSON to a kelson binary")
	}
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"v": value}}
}

func ship(name string, masts int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sea.example.com/v1", "kind": "Ship",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"masts": masts},
	}}
}

func wantMissing(t *testing.T, env *operatortest.Env, obj client.Object) {
	t.Helper()
	if err := env.Client().Get(t.Context(), client.Key{Namespace: "default", Name: obj.GetName()},
		obj); !apierrors.IsNotFound(err) {
		t.Errorf("get %s: %v, want not found", obj.GetName(), err)
	}
}

// copier is an operator that copies every ConfigMap "a" to "b".
func copier(ctx context.Context, config *rest.Config) error {
	c, err := client.New(client.Config{REST: config})
	if err != nil {
		return err
	}
	watch, err := c.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace("default"))
	if err != nil {
		return err
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		if from, ok := event.Object.(*corev1.ConfigMap); ok && from.Name == "a" {
			to := configMap("b", from.Data["v"])
			to.Namespace = from.Namespace
			if err := c.Create(ctx, to); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
	}
	return ctx.Err()
}

// An environment has the given definitions and runs the operator. Each test starts without the
// objects of others.
func TestEnv(t *testing.T) {
	needKelson(t)
	env := operatortest.New(t, operatortest.CRDs("testdata"), operatortest.Run(copier))
	env.Create(t, configMap("a", "1"))
	b := configMap("b", "")
	b.Namespace = "default"
	env.Eventually(t, time.Minute, func() bool { return env.Client().Get(t.Context(), client.KeyOf(b), b) == nil })
	env.Get(t, b)
	assert.Equalf(t, b.Data["v"], "1", "b is %v", b.Data)
	argo := ship("argo", 2)
	env.Create(t, argo)
	if argo.GetNamespace() != "default" || argo.GetUID() == "" {
		t.Errorf("created %v", argo)
	}
	env.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "harbour"}})

	// Another test does not see these changes; it starts with the state that was saved after the
	// manifests were installed.
	for range 2 {
		other := operatortest.New(t, operatortest.CRDs("testdata"))
		wantMissing(t, other, configMap("a", ""))
		wantMissing(t, other, ship("argo", 0))
		other.Create(t, ship("argo", 1))
	}
	wantMissing(t, operatortest.New(t), configMap("a", ""))
}

func TestFork(t *testing.T) {
	needKelson(t)
	base := operatortest.New(t, operatortest.CRDs("testdata"))
	base.Create(t, ship("argo", 2))
	t.Run("forks", func(t *testing.T) {
		for i := range 4 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				env := base.Fork(t)
				argo := ship("argo", 0)
				argo.SetNamespace("default")
				env.Get(t, argo)
				env.Create(t, ship("only-here", 1))
				again := env.Fork(t)
				assert.NoError(t, again.Client().Delete(t.Context(), argo))
				env.Get(t, argo)
			})
		}
	})
	wantMissing(t, base, ship("only-here", 0))
}

func TestSimulatedNodes(t *testing.T) {
	needKelson(t)
	env := operatortest.New(t, operatortest.Nodes(operatortest.NodeSimulated))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	env.Create(t, pod)
	env.Eventually(t, time.Minute, func() bool { env.Get(t, pod); return pod.Status.Phase == corev1.PodRunning })
}

// Groups of nodes and Stages on a throwaway plane; bad ones fail the test.
func TestNodeGroupsAndStages(t *testing.T) {
	needKelson(t)
	env := operatortest.New(t, operatortest.Stages("testdata/stages"),
		operatortest.Nodes(operatortest.NodeSimulated, operatortest.NodeGroup{Count: 2, Zones: []string{"a", "b"}}))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"fails": "yes"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "b"}
	env.Create(t, pod)
	env.Eventually(t, time.Minute, func() bool { env.Get(t, pod); return pod.Status.Reason == "ByStage" })
	if pod.Spec.NodeName != "node-2" || pod.Status.Phase != corev1.PodFailed {
		t.Errorf("%s on %s", pod.Status.Phase, pod.Spec.NodeName)
	}
	for want, option := range map[string]operatortest.Option{
		"must be between 1 and 10000": operatortest.Nodes(operatortest.NodeSimulated,
			operatortest.NodeGroup{}),
		`nodes and stages need the node "simulated"`: operatortest.Nodes(operatortest.NodeNone,
			operatortest.NodeGroup{Count: 1}),
		"no such file": operatortest.Stages("testdata/missing.yaml"),
	} {
		message := messageOf(t, func(t testing.TB) {
			operatortest.New(t, option)
		})
		assert.Contains(t, message, want)
	}
}

// The pods of a Deployment become ready on a throwaway plane, and on a fork of it.
func TestWorkloads(t *testing.T) {
	needKelson(t)
	env := operatortest.New(t, operatortest.Nodes(operatortest.NodeSimulated), operatortest.Workloads())
	deploy := func(t *testing.T, env *operatortest.Env, name string) {
		t.Helper()
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
		d.Spec.Replicas = new(int32(2))
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
		d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		start := time.Now()
		env.Create(t, d)
		env.Eventually(t, time.Minute, func() bool { env.Get(t, d); return d.Status.ReadyReplicas == 2 })
		took := time.Since(start)
		t.Logf("ready after %v", took)
		if took > time.Second {
			t.Errorf("ready after %v, want less than a second", took)
		}
	}
	deploy(t, env, "web")
	deploy(t, env.Fork(t), "again")
}

func TestKubeconfig(t *testing.T) {
	needKelson(t)
	env := operatortest.New(t)
	env.Create(t, configMap("a", "1"))
	config, err := clientcmd.BuildConfigFromFlags("", env.Kubeconfig(t))
	require.NoError(t, err)
	c, err := client.New(client.Config{REST: config})
	require.NoError(t, err)
	assert.NoError(t, c.Get(t.Context(), client.Key{Namespace: "default", Name: "a"}, configMap("a", "")))
}

// failing records the failures of a test.
type failing struct {
	testing.TB
	mu      sync.Mutex
	message string
}

func (f *failing) Helper()                  {}
func (f *failing) Cleanup(func())           {}
func (f *failing) Context() context.Context { return f.TB.Context() }
func (f *failing) Fatalf(format string, args ...any) {
	f.mu.Lock()
	f.message = fmt.Sprintf(format, args...)
	f.mu.Unlock()
	panic(f)
}

func messageOf(t *testing.T, do func(testing.TB)) (message string) {
	f := &failing{TB: t}
	defer func() {
		if p := recover(); p != nil && p != f {
			panic(p)
		}
		message = f.message
	}()
	do(f)
	return ""
}

// Each of these cases without a server needs its own process, because a process has only one
// server.
func TestReportsMissing(t *testing.T) {
	notKelson := filepath.Join(t.TempDir(), "kelson")
	require.NoError(t, os.WriteFile(notKelson, []byte("#!/bin/sh\necho 'unknown flag: --planes' >&2\nexit 1\n"),
		0o755))
	for _, test := range []struct{ env, want string }{
		{"KELSON=", "no kelson binary: set KELSON to the path of the binary, or put it in PATH"},
		{"KELSON=/nowhere/kelson", "/nowhere/kelson"},
		{"KELSON=" + notKelson, "unknown flag: --planes"},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
		cmd.Env = append(os.Environ(), "PATH=/nowhere", test.env, "OPERATORTEST_CHILD=message")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), test.want) {
			t.Errorf("%s: %v\n%s\nwant %q", test.env, err, out, test.want)
		}
	}
	got := messageOf(t, func(tb testing.TB) {
		operatortest.New(tb, operatortest.CRDs("nowhere"))
	})
	assert.Containsf(t, got, "nowhere", "missing CRDs")
}

// The server ends when its test process is killed.
func TestEndsWithItsProcess(t *testing.T) {
	needKelson(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.v")
	cmd.Env = append(os.Environ(), "OPERATORTEST_CHILD=wait")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	address := ""
	for lines := bufio.NewScanner(out); address == "" && lines.Scan(); {
		address, _ = strings.CutPrefix(lines.Text(), "serving ")
		if address == lines.Text() {
			address = ""
		}
	}
	if address == "" {
		t.Fatal("the child does not serve")
	}
	require.NoError(t, dial(address))
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for deadline := time.Now().Add(time.Minute); dial(address) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("kelson continues after its test process was killed")
		}
	}
}

func dial(address string) error {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		err = conn.Close()
	}
	return err
}

// TestChild runs in the processes that the tests above start.
func TestChild(t *testing.T) {
	switch os.Getenv("OPERATORTEST_CHILD") {
	case "message":
		fmt.Println(messageOf(t, func(tb testing.TB) { operatortest.New(tb) }))
	case "wait":
		u, err := url.Parse(operatortest.New(t).RESTConfig().Host)
		require.NoError(t, err)
		fmt.Println("serving " + u.Host)
		time.Sleep(time.Minute)
		t.Error(errors.New("it was not killed"))
	default:
		t.Skip("for other tests")
	}
}
