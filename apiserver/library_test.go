package apiserver_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// guide returns the first block of Go code with a package clause in the guide.
func guide(t *testing.T, clause string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "docs", "guides", "apiserver.md"))
	require.NoError(t, err)
	for _, block := range strings.Split(string(data), "```go\n")[1:] {
		if code, _, _ := strings.Cut(block, "```"); strings.HasPrefix(code, clause+"\n") {
			return code
		}
	}
	t.Fatalf("the guide has no code with %q", clause)
	return ""
}

// The guide's program, in its own module that requires only the engine, serves a kind that kubectl
// can use.
func TestGuide(t *testing.T) {
	require.Long(t, "links a server: ten seconds")
	dir := outsideModule(t)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "v1alpha1"), 0o700))
	write(t, filepath.Join(dir, "v1alpha1", "types.go"), []byte(guide(t, "package v1alpha1")))
	main := guide(t, "package main")
	if n := strings.Count(main, "\n"); n > 20 {
		t.Errorf("main.go has %d lines", n)
	}
	write(t, filepath.Join(dir, "main.go"), []byte(strings.ReplaceAll(main, "example.com/pizza-apiserver",
		"example.com/outside")))
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", "server", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}

	server := exec.Command("./server", "--standalone", "--secure-port=0")
	server.Dir = dir
	log, err := server.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	defer func() {
		assert.NoError(t, server.Process.Signal(os.Interrupt))
		assert.NoErrorf(t, server.Wait(), "after an interrupt")
	}()
	lines := bufio.NewScanner(log)
	started := regexp.MustCompile(`msg=serving url=\S+ kubeconfig=(\S+)`)
	for lines.Scan() && !started.MatchString(lines.Text()) {
	}
	found := started.FindStringSubmatch(lines.Text())
	if found == nil {
		t.Fatalf("the server did not start: %s", lines.Text())
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, found[1]))
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	in := client.Resource(schema.GroupVersionResource{Group: "restaurant.example.com", Version: "v1alpha1",
		Resource: "pizzas"}).Namespace("default")
	pizza := object(t, `{"apiVersion":"restaurant.example.com/v1alpha1","kind":"Pizza","metadata":{"name":"margherita"},"spec":{"toppings":["tomato"]}}`)
	_, err = in.Apply(t.Context(), "margherita", pizza, metav1.ApplyOptions{FieldManager: "test"})
	require.NoError(t, err)
	list, err := in.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("list: %v, %v", list, err)
	}
}
