package main

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// writer writes ConfigMaps with client-go, over the network.
type writer struct {
	t      *testing.T
	client *kubernetes.Clientset
}

func newWriter(t *testing.T, s *server) *writer {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	require.NoError(t, err)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return &writer{t, client}
}

// create returns the resourceVersion of an acknowledged write; ok is false if the server does not
// respond.
func (w *writer) create(name string) (revision uint64, ok bool) {
	obj, err := w.client.CoreV1().ConfigMaps("default").Create(w.t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": name}},
		metav1.CreateOptions{})
	if err != nil {
		return 0, false
	}
	revision, err = strconv.ParseUint(obj.ResourceVersion, 10, 64)
	assert.NoErrorf(w.t, err, "resourceVersion %q", obj.ResourceVersion)
	return revision, true
}

func (w *writer) exists(name string) bool {
	obj, err := w.client.CoreV1().ConfigMaps("default").Get(w.t.Context(), name, metav1.GetOptions{})
	return err == nil && obj.Data["k"] == name
}
