package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// startKelson runs the binary that KELSON names, as make test does, and returns its kubeconfig.
func startKelson(t *testing.T) (kubeconfig string) {
	t.Helper()
	binary := os.Getenv("KELSON")
	if binary == "" {
		t.Skip("SKIPPED: needs another API server: set KELSON to a kelson binary or KELSON_TEST_KUBECONFIG to a kubeconfig")
	}
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	cmd := exec.CommandContext(t.Context(), binary, "serve", "--in-memory", "--node=none", "--secure-port=0",
		"--kubeconfig="+kubeconfig)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	ready := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "ready in") {
				close(ready)
				break
			}
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Fatal("kelson serve is not ready after a minute")
	}
	return kubeconfig
}

// The server is an APIService of kelson serve, or of the cluster that KELSON_TEST_KUBECONFIG names:
// make run-pizza-apiserver-kube-apiserver runs this on kube-apiserver.
func TestPizzaOnAServer(t *testing.T) {
	kubeconfig := os.Getenv("KELSON_TEST_KUBECONFIG")
	if kubeconfig == "" {
		kubeconfig = startKelson(t)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(err)
	kube, err := kubernetes.NewForConfig(config)
	must(err)
	client, err := dynamic.NewForConfig(config)
	must(err)
	certs := filepath.Join(t.TempDir(), "certs")
	at, err := url.Parse(serve(t, "--kubeconfig="+kubeconfig, "--cert-dir="+certs, "--serving-name=pizza.default.svc"))
	must(err)
	port, err := strconv.Atoi(at.Port())
	must(err)
	ca, err := os.ReadFile(filepath.Join(certs, "ca.crt"))
	must(err)

	ctx := t.Context()
	// The server is outside of the cluster: the Service is an alias for this machine.
	_, err = kube.CoreV1().Services("default").Create(ctx,
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "pizza"}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeExternalName, ExternalName: "localhost",
			Ports: []corev1.ServicePort{{Port: int32(port)}},
		}}, metav1.CreateOptions{})
	must(err)
	services := client.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1",
		Resource: "apiservices"})
	for i, version := range []string{"v1beta1", "v1alpha1"} {
		name := version + ".restaurant.programming-kubernetes.info"
		_, err := services.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": name},
			"spec": map[string]any{
				"group": "restaurant.programming-kubernetes.info", "version": version,
				"groupPriorityMinimum": int64(1000), "versionPriority": int64(20 - i),
				"caBundle": base64.StdEncoding.EncodeToString(ca),
				"service":  map[string]any{"namespace": "default", "name": "pizza", "port": int64(port)},
			},
		}}, metav1.CreateOptions{})
		must(err)
		t.Cleanup(func() { _ = services.Delete(t.Context(), name, metav1.DeleteOptions{}) })
	}
	until := time.Now().Add(time.Minute)
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for {
			u, err := services.Get(ctx, version+".restaurant.programming-kubernetes.info", metav1.GetOptions{})
			must(err)
			conditions := fmt.Sprint(u.Object["status"])
			if strings.Contains(conditions, "status:True type:Available") {
				break
			}
			if time.Now().After(until) {
				t.Fatalf("%s is not available: %s", version, conditions)
			}
			// poll, because virtual time does not cover a server in another process
			time.Sleep(100 * time.Millisecond)
		}
	}
	for _, step := range []struct{ args, want string }{
		{"apply --server-side -f config/toppings.yaml",
			"topping.restaurant.programming-kubernetes.info/salami serverside-applied"},
		{"apply -f config/pizzas.yaml", "pizza.restaurant.programming-kubernetes.info/margherita created"},
		{"get pizzas", "NAME         TOPPINGS   COST   AGE\nmargherita   2          0"},
		{"get pizzas.v1alpha1.restaurant.programming-kubernetes.info margherita -o jsonpath={.spec.toppings}",
			`["tomato","mozzarella"]`},
		{"delete topping tomato", "pizza default/margherita has this topping"},
		{"create -f config/hawaii.yaml", `spec.toppings[0].name: Not found: "pineapple"`},
		{"create -n nowhere -f config/pizzas.yaml", `namespaces "nowhere" not found`},
		{"--as=alice get pizzas", `User "alice" cannot list resource "pizzas"`},
	} {
		if got := kubectl(t, kubeconfig, strings.Fields(step.args)...); !strings.Contains(got, step.want) {
			t.Errorf("kubectl %s:\n%s\nwant %s", step.args, got, step.want)
		}
	}
}
