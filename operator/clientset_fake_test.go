package operator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clienttesting "k8s.io/client-go/testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/clientset"
	"kelson.dev/operator/clientset/fake"
)

func newFakeClientset(t *testing.T, objects ...runtime.Object) *fake.Clientset {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	c := &fake.Clientset{}
	c.Track(fake.Config{Scheme: scheme, Decoder: serializer.NewCodecFactory(scheme).UniversalDecoder(),
		Kinds: []fake.Kind{
			{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Resource: "configmaps",
				Namespaced: true},
			{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Node"), Resource: "nodes"},
		}}, objects...)
	return c
}

func configMapOfFake(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// The client and the informers of a fake clientset record actions, which reactors can answer and
// tests can inspect.
func TestActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes := newFakeClientset(t, configMapOfFake("early"),
			&corev1.NodeList{Items: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}})
		fakes.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("no")
		})
		c := fakes.Client()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cm := configMapOfFake("late")
		require.NoError(t, c.Create(ctx, cm))
		if err := c.Create(ctx, configMapOfFake("late")); !apierrors.IsAlreadyExists(err) {
			t.Errorf("created twice: %v", err)
		}
		if err := c.Update(ctx, cm); err == nil {
			t.Error("the reactor was not called")
		}
		_, err := client.Get[corev1.Node](ctx, c, client.Key{Name: "n"})
		assert.NoError(t, err)
		if _, err := client.Get[corev1.ConfigMap](ctx, c, client.Key{Namespace: "default", Name: "nothing"}); !apierrors.IsNotFound(err) {
			t.Errorf("got %v", err)
		}
		all, err := client.List[corev1.ConfigMap](ctx, c, client.InNamespace("default"))
		if err != nil || len(all) != 2 {
			t.Errorf("got %d, %v", len(all), err)
		}
		require.NoError(t, c.Delete(ctx, cm))
		var verbs []string
		for _, a := range fakes.Actions() {
			verbs = append(verbs, a.GetVerb()+" "+a.GetResource().Resource)
		}
		want := []string{"create configmaps", "create configmaps", "update configmaps", "get nodes", "get configmaps",
			"list configmaps", "delete configmaps"}
		assert.Slicef(t, verbs, want, "the actions")

		f := clientset.NewFactory(c, 0)
		lister := clientset.NewLister[*corev1.ConfigMap](f.InformerFor(&corev1.ConfigMap{}),
			corev1.Resource("configmaps"))
		f.StartWithContext(ctx)
		require.NoError(t, f.WaitForCacheSyncWithContext(ctx))
		require.NoError(t, c.Create(ctx, configMapOfFake("watched")))
		synctest.Wait()
		for _, name := range []string{"early", "watched"} {
			_, err := lister.Namespaced("default").Get(name)
			assert.NoError(t, err)
		}
		f.Shutdown()
	})
}

// Discovery of a fake clientset has its kinds.
func TestDiscovery(t *testing.T) {
	list, err := newFakeClientset(t).Discovery().ServerResourcesForGroupVersion("v1")
	require.NoError(t, err)
	if len(list.APIResources) != 2 || !list.APIResources[0].Namespaced || list.APIResources[1].Name != "nodes" ||
		list.APIResources[1].Namespaced {
		t.Errorf("got %+v", list.APIResources)
	}
}

// A typed client decodes responses and errors.
func TestResult(t *testing.T) {
	empty := &corev1.ConfigMap{}
	if got, err := fake.Result(empty, nil, nil); got != empty || err != nil {
		t.Errorf("without an object: %v, %v", got, err)
	}
	if got, err := fake.Result(empty, configMapOfFake("a"), nil); got.Name != "a" || err != nil {
		t.Errorf("with an object: %v, %v", got, err)
	}
	if _, err := fake.Result(empty, &corev1.Node{}, nil); err == nil {
		t.Error("no error for an object of another type")
	}
}
