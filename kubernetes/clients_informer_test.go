package kubernetes_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
)

const patience = time.Minute

// overPort returns clients of a control plane that serves on a port.
func overPort(t *testing.T, opts ...testenv.Option) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", testenv.New(t, opts...).Kubeconfig(t))
	require.NoError(t, err)
	config.QPS = -1
	return config
}

func clients(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

func configMapNamed(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "x"}}}
}

// seen records the events of an informer's handler as "+name", "~name=value" and "-name".
type seen struct {
	events chan string
}

func (s *seen) want(t *testing.T, events ...string) {
	t.Helper()
	for _, want := range events {
		select {
		case got := <-s.events:
			require.Equalf(t, got, want, "handler event")
		case <-time.After(patience):
			t.Fatalf("missing handler event %s", want)
		}
	}
}

func (s *seen) OnAdd(obj any, _ bool) { s.events <- "+" + obj.(metav1.Object).GetName() }
func (s *seen) OnUpdate(_, obj any) {
	m := obj.(*corev1.ConfigMap)
	s.events <- "~" + m.Name + "=" + m.Data["v"]
}
func (s *seen) OnDelete(obj any) { s.events <- "-" + obj.(metav1.Object).GetName() }

// An informer receives all objects, then every change, once and in order. It loses nothing when its
// connection is cut.
func TestInformer(t *testing.T) {
	config := overPort(t)
	writer := clients(t, config).CoreV1().ConfigMaps("default")
	const many = 600 // more than a page of 500
	for i := range many {
		_, err := writer.Create(t.Context(), configMapNamed(fmt.Sprintf("m%03d", i)),
			metav1.CreateOptions{})
		require.NoError(t, err)
	}
	cuttable := rest.CopyConfig(config)
	var line lines
	cuttable.Dial = line.dial
	ctx, cancel := context.WithCancel(t.Context())
	factory := informers.NewSharedInformerFactoryWithOptions(clients(t, cuttable), 0,
		informers.WithNamespace("default"),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "app=x" }))
	handler := &seen{events: make(chan string, many)}
	maps := factory.Core().V1().ConfigMaps()
	_, err := maps.Informer().AddEventHandler(handler)
	require.NoError(t, err)
	require.NoError(t, maps.Informer().AddIndexers(cache.Indexers{"v": func(obj any) ([]string, error) {
		return []string{obj.(*corev1.ConfigMap).Data["v"]}, nil
	}}))
	factory.StartWithContext(ctx)
	defer func() { cancel(); factory.Shutdown() }()
	factory.WaitForCacheSync(ctx.Done())
	if all, err := maps.Lister().ConfigMaps("default").List(labels.Everything()); err != nil || len(all) != many {
		t.Fatalf("%d objects after the sync, %v; want %d", len(all), err, many)
	}
	for range many {
		<-handler.events // in any order
	}

	change := func(value string) {
		t.Helper()
		m := configMapNamed("changing")
		m.Data = map[string]string{"v": value}
		_, err := writer.Update(t.Context(), m, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	_, err = writer.Create(t.Context(), configMapNamed("changing"), metav1.CreateOptions{})
	require.NoError(t, err)
	change("1")
	handler.want(t, "+changing", "~changing=1")
	if found, err := maps.Informer().GetIndexer().ByIndex("v", "1"); err != nil || len(found) != 1 {
		t.Errorf("by index: %v, %v", found, err)
	}
	if n := line.cut(); n == 0 {
		t.Error("no connection was open")
	}
	change("2")
	handler.want(t, "~changing=2")
	require.NoError(t, writer.Delete(t.Context(), "changing", metav1.DeleteOptions{}))
	handler.want(t, "-changing")
	// For the informer, an object that no longer matches the selector is deleted.
	_, err = writer.Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m000"}},
		metav1.UpdateOptions{})
	require.NoError(t, err)
	handler.want(t, "-m000")
}

// An informer of objects without a Go type.
func TestDynamicInformer(t *testing.T) {
	config := overPort(t, testenv.CRDs("testdata/things.yaml"))
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	things := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
	ctx, cancel := context.WithCancel(t.Context())
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, "default", nil)
	handler := &seen{events: make(chan string, 1)}
	_, err = factory.ForResource(things).Informer().AddEventHandler(handler)
	require.NoError(t, err)
	factory.Start(ctx.Done())
	defer func() { cancel(); factory.Shutdown() }()
	for name, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Errorf("%v is not in sync", name)
		}
	}
	thing := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{"size": int64(1)},
	}}
	_, err = client.Resource(things).Namespace("default").Create(ctx, thing, metav1.CreateOptions{})
	require.NoError(t, err)
	handler.want(t, "+a")
	require.NoError(t, client.Resource(things).Namespace("default").Delete(ctx, "a", metav1.DeleteOptions{}))
	handler.want(t, "-a")
}

// lines holds connections that can be cut.
type lines struct {
	mu   sync.Mutex
	open []net.Conn
}

func (l *lines) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open = append(l.open, conn)
	}
	return conn, err
}

// cut closes all connections and returns how many there were.
func (l *lines) cut() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.open)
	for _, conn := range l.open {
		conn.Close()
	}
	l.open = nil
	return n
}
