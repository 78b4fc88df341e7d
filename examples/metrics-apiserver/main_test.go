package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	metrics "k8s.io/metrics/pkg/client/clientset/versioned"

	"kelson.dev/apiserver/apiservertest"
)

// proc writes a /proc file system with two processes of a user.
func proc(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"stat":      "cpu  100 0 50 900 10 0 0 0 0 0\n",
		"meminfo":   "MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:   1024 kB\n",
		"7/stat":    "7 (a name) S 1 7 7 0 -1 0 0 0 0 0 12 3 0 0\n",
		"7/status":  "Name:\ta name\nUid:\t1000\t1000\t1000\t1000\nVmRSS:\t     300 kB\n",
		"70/stat":   "70 (b) S 1 7 7 0 -1 0 0 0 0 0 12 3 0 0\n",
		"70/status": "Name:\tb\nUid:\t1000\t1000\t1000\t1000\nVmRSS:\t     200 kB\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Kubernetes' own client of metrics reads nodes and pods, as JSON and as protobuf.
func TestMetrics(t *testing.T) {
	dir := proc(t)
	synctest.Test(t, func(t *testing.T) {
		env := apiservertest.New(t, API(&meter{proc: dir}))
		for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
			config := rest.CopyConfig(env.RESTConfig())
			config.ContentType, config.AcceptContentTypes = media, media
			client, err := metrics.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			nodes, err := client.MetricsV1beta1().NodeMetricses().List(context.Background(), metav1.ListOptions{})
			if err != nil || len(nodes.Items) != 1 || nodes.Items[0].Usage.Memory().String() != "1Mi" {
				t.Fatalf("%s: nodes %v, %v", media, nodes, err)
			}
			pods, err := client.MetricsV1beta1().PodMetricses("default").List(context.Background(),
				metav1.ListOptions{LabelSelector: "uid=1000"})
			if err != nil || len(pods.Items) != 1 || pods.Items[0].Containers[0].Usage.Memory().String() != "500Ki" {
				t.Errorf("%s: pods %v, %v", media, pods, err)
			}
			if pods, err = client.MetricsV1beta1().PodMetricses("other").List(context.Background(),
				metav1.ListOptions{}); err != nil || len(pods.Items) != 0 {
				t.Errorf("%s: pods elsewhere %v, %v", media, pods, err)
			}
		}
	})
}
