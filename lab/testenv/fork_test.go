package testenv_test

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	kubectl "k8s.io/kubectl/pkg/cmd"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Data: map[string]string{"v": value}}
}

func ship(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sea.example.com/v1", "kind": "Ship",
		"metadata": map[string]any{"name": name, "namespace": "default"},
		"spec":     map[string]any{"masts": int64(3)},
	}}
}

func revision(t *testing.T, obj metav1.Object) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	require.NoError(t, err)
	return n
}

func wantValue(t *testing.T, env *testenv.Env, name, want string) {
	t.Helper()
	obj := configMap(name, "")
	err := env.Client().Get(t.Context(), client.KeyOf(obj), obj)
	if want == "" {
		if !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v, want not found", name, err)
		}
		return
	}
	if err != nil || obj.Data["v"] != want {
		t.Errorf("%s: %q, %v, want %q", name, obj.Data["v"], err, want)
	}
}

// forksAreIndependent runs in real and in virtual time.
func forksAreIndependent(t *testing.T, base *testenv.Env) {
	shared := configMap("shared", "base")
	base.Create(t, shared)

	one := base.Fork(t)
	two := base.Fork(t)
	wantValue(t, one, "shared", "base")

	// Writes are visible only in the environment in which they were made.
	change := shared.DeepCopy()
	change.Data["v"] = "one"
	require.NoError(t, one.Client().Update(t.Context(), change))
	if revision(t, change) <= revision(t, shared) {
		t.Errorf("the fork continues from resourceVersion %s with %s", shared.ResourceVersion, change.ResourceVersion)
	}
	one.Create(t, configMap("only-one", "1"))
	require.NoError(t, two.Client().Delete(t.Context(), shared.DeepCopy()))
	base.Create(t, configMap("late", "base"))
	wantValue(t, base, "shared", "base")
	wantValue(t, one, "shared", "one")
	wantValue(t, two, "shared", "")
	wantValue(t, base, "only-one", "")
	wantValue(t, two, "only-one", "")
	wantValue(t, one, "late", "")

	// A fork of a fork starts with the fork's state.
	third := one.Fork(t)
	wantValue(t, third, "only-one", "1")
	wantValue(t, third, "shared", "one")

	// Custom kinds are served immediately; objects are visible only where they were created.
	third.Create(t, ship("argo"))
	got := ship("argo")
	third.Get(t, got)
	masts, _, _ := unstructured.NestedInt64(got.Object, "spec", "masts")
	assert.Equalf(t, masts, 3, "spec.masts")
	if err := one.Client().Get(t.Context(), client.KeyOf(got), ship("argo")); !apierrors.IsNotFound(err) {
		t.Errorf("argo exists in another fork: %v", err)
	}
	if sunk := ship("argo"); third.Client().Create(t.Context(), invalid(sunk)) == nil {
		t.Error("a fork does not validate with the schema of its base")
	}
}

func invalid(obj *unstructured.Unstructured) *unstructured.Unstructured {
	obj.SetName("invalid")
	_ = unstructured.SetNestedField(obj.Object, "many", "spec", "masts")
	return obj
}

// Forks of an environment do not affect each other.
func TestForksAreIndependent(t *testing.T) {
	forksAreIndependent(t, testenv.New(t, testenv.CRDs("testdata/ships.yaml")))
}

// Forks are also independent in virtual time.
func TestForksInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forksAreIndependent(t, testenv.New(t, testenv.CRDs("testdata/ships.yaml")))
	})
}

// A base outside of any bubble can be forked inside several bubbles, even after it has ended.
func TestForksOfABaseOutsideOfTheBubble(t *testing.T) {
	var base *testenv.Env
	t.Run("prepare", func(t *testing.T) {
		base = testenv.New(t, testenv.CRDs("testdata/ships.yaml"))
		base.Create(t, configMap("shared", "base"))
		base.Create(t, ship("endeavour"))
	})
	for _, name := range []string{"first", "second"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				env := base.Fork(t)
				env.Get(t, ship("endeavour"))
				own := ship(name)
				env.Create(t, own)
				time.Sleep(24 * time.Hour)
				env.Settle(t)
				if age := time.Since(own.GetCreationTimestamp().Time); age < 24*time.Hour || age > 25*time.Hour {
					t.Errorf("age is %v, want between 24 and 25 hours", age)
				}
			})
		})
	}
}

// The garbage collector of a fork finds dependents that existed before the fork, unless
// testenv.Controllers excludes it.
func TestControllersOfAFork(t *testing.T) {
	for name, stays := range map[string]string{"garbage-collector-controller": "x", "resourcequota-controller": ""} {
		t.Run("without "+name, func(t *testing.T) {
			testCollector(t, stays, testenv.Controllers("*", "-"+name))
		})
	}
}

// testCollector deletes the owner of an object in a fork. The value of the object becomes stays, or
// "" if it is deleted.
func testCollector(t *testing.T, stays string, opts ...testenv.Option) {
	synctest.Test(t, func(t *testing.T) {
		base := testenv.New(t, opts...)
		owner := configMap("owner", "x")
		base.Create(t, owner)
		owned := configMap("owned", "x")
		owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name,
			UID: owner.UID}}
		base.Create(t, owned)
		fork := base.Fork(t)
		require.NoError(t, fork.Client().Delete(t.Context(), owner.DeepCopy()))
		fork.Settle(t)
		wantValue(t, fork, "owned", stays)
		wantValue(t, base, "owned", "x")
	})
}

func TestKubeconfig(t *testing.T) {
	env := testenv.New(t, testenv.CRDs("testdata/ships.yaml"))
	file := env.Kubeconfig(t)
	config, err := clientcmd.BuildConfigFromFlags("", file)
	require.NoError(t, err)
	clients, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	// The test leaves the watch open; the port must close anyway.
	watch, err := clients.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	env.Create(t, configMap("seen", "x"))
	event := <-watch.ResultChan()
	assert.Equalf(t, event.Object.(*corev1.ConfigMap).Name, "seen", "watch: %v", event)

	// A client without a certificate is anonymous and not an administrator.
	config.CertData, config.KeyData = nil, nil
	anonymous, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	if _, err := anonymous.CoreV1().ConfigMaps("default").List(t.Context(),
		metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("anonymous list: %v, want forbidden", err)
	}

	var out strings.Builder
	get := kubectl.NewDefaultKubectlCommandWithArgs(kubectl.KubectlOptions{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out},
	})
	get.SetArgs([]string{"--kubeconfig", file, "--cache-dir", t.TempDir(), "get", "crd", "-o", "name"})
	if err := get.Execute(); err != nil || strings.TrimSpace(
		out.String()) != "customresourcedefinition.apiextensions.k8s.io/ships.sea.example.com" {
		t.Errorf("kubectl get crd: %v\n%s", err, out.String())
	}
}
