package apitest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/apitest"
)

func config(p *apitest.Plane, contentType string) *rest.Config {
	return &rest.Config{
		Host:      "http://kelson",
		Transport: p.Client.Transport,
		QPS:       -1,
		ContentConfig: rest.ContentConfig{ContentType: contentType,
			AcceptContentTypes: contentType + ",application/json"},
	}
}

// Kubernetes' own client works in every encoding, with its informers, and in virtual time.
func TestClientGo(t *testing.T) {
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf", "application/cbor"} {
		t.Run(media, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testClientGo(t, apitest.New(t), media) })
		})
	}
}

func testClientGo(t *testing.T, p *apitest.Plane, media string) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := kubernetes.NewForConfigOrDie(config(p, media))
	maps := client.CoreV1().ConfigMaps("default")

	var events []string
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().ConfigMaps().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { events = append(events, "add "+o.(*corev1.ConfigMap).Name) },
		UpdateFunc: func(_, o any) { events = append(events, "update "+o.(*corev1.ConfigMap).Name) },
		DeleteFunc: func(o any) { events = append(events, "delete "+o.(*corev1.ConfigMap).Name) },
	})
	require.NoError(t, err)
	for i := range 3 {
		_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m", i)}},
			metav1.CreateOptions{})
		require.NoError(t, err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())

	list, err := maps.List(ctx, metav1.ListOptions{Limit: 2})
	if err != nil || len(list.Items) != 2 || list.Continue == "" || *list.RemainingItemCount != 1 {
		t.Fatalf("%v %+v", err, list)
	}
	m := list.Items[0].DeepCopy()
	m.Data = map[string]string{"k": "v"}
	if m, err = maps.Update(ctx, m, metav1.UpdateOptions{}); err != nil || m.Data["k"] != "v" {
		t.Fatalf("%v %+v", err, m)
	}
	m.ResourceVersion = "1"
	if _, err = maps.Update(ctx, m, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("conflict: %v", err)
	}
	_, err = maps.Create(ctx, m, metav1.CreateOptions{})
	if err == nil {
		t.Error("created with a resourceVersion")
	}
	background := metav1.DeletePropagationBackground
	require.NoError(t, maps.Delete(ctx, "m1", metav1.DeleteOptions{PropagationPolicy: &background}))
	if _, err := maps.Get(ctx, "m1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("not found: %v", err)
	}
	time.Sleep(time.Second)
	synctest.Wait()
	slices.Sort(events[:min(3, len(events))]) // the first list is unordered
	assert.Equalf(t, fmt.Sprint(events), "[add m0 add m1 add m2 update m0 delete m1]", "events %v", events)

	gvr := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	if media != "application/vnd.kubernetes.protobuf" {
		got, err := dynamic.NewForConfigOrDie(config(p, media)).Resource(gvr).Namespace("default").Get(ctx, "m0",
			metav1.GetOptions{})
		if err != nil || got.GetKind() != "ConfigMap" {
			t.Errorf("dynamic: %v %v", err, got)
		}
	}
	partial, err := metadata.NewForConfigOrDie(config(p, media)).Resource(gvr).Namespace("default").List(ctx,
		metav1.ListOptions{})
	if err != nil || len(partial.Items) != 2 || partial.Items[0].Name != "m0" {
		t.Errorf("metadata: %v %v", err, partial)
	}
	assert.NoError(t, maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	assert.Equalf(t, p.Store.Snapshot().Count("configmaps", "default"), 0, "some objects still exist")
	cancel()
	factory.Shutdown()
}
