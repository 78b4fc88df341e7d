package apiserver_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// The engine can be required without k8s.io/kubernetes.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./...").Output()
	require.NoError(t, err)
	packages := strings.Fields(string(out))
	if len(packages) < 100 {
		t.Fatalf("only %d packages: go list has not listed the dependencies", len(packages))
	}
	for _, name := range packages {
		if strings.HasPrefix(name, "k8s.io/kubernetes/") {
			t.Errorf("the engine depends on %s", name)
		}
	}
}

// A module outside this repository requires only the engine and serves a custom resource in forty
// lines.
func TestOutsideModule(t *testing.T) {
	require.Long(t, "links a server: ten seconds")
	dir := outsideModule(t)
	goCommand := func(args ...string) *exec.Cmd {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		return cmd
	}
	if out, err := goCommand("build", "-o", "outside", ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	if out, err := goCommand("list", "-m", "all").CombinedOutput(); err != nil {
		t.Errorf("go list -m all: %v\n%s", err, out)
	}
	if source, err := os.ReadFile(filepath.Join(dir, "main.go")); err != nil ||
		strings.Count(string(source), "\n") > 40 {
		t.Errorf("main.go: %d lines, %v", strings.Count(string(source), "\n"), err)
	}

	url := serve(t, filepath.Join(dir, "outside"))
	post(t, url+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"ships.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"ships","kind":"Ship"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"masts":{"type":"integer","default":3}}}}}}}]}}`)
	created := post(t, url+"/apis/example.com/v1/namespaces/default/ships",
		`{"apiVersion":"example.com/v1","kind":"Ship","metadata":{"name":"a"},"spec":{}}`)
	assert.Containsf(t, created, `"masts":3`, "the default is missing")
}

// outsideModule writes the module to a temporary directory.
func outsideModule(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	engine, err := filepath.Abs(".")
	require.NoError(t, err)
	// The replacements stand for published versions of the engine and of the module that it
	// requires.
	write(t, filepath.Join(dir, "go.mod"), fmt.Appendf(nil, `module example.com/outside

go 1.26.0

require kelson.dev/apiserver v0.0.0

replace (
	kelson.dev/apiserver => %s
	kelson.dev/internal => %s
)
`, engine, filepath.Join(filepath.Dir(engine), "internal")))
	for from, to := range map[string]string{"go.sum": "go.sum",
		filepath.Join("testdata", "outside", "main.go"): "main.go"} {
		data, err := os.ReadFile(from)
		require.NoError(t, err)
		write(t, filepath.Join(dir, to), data)
	}
	return dir
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, data, 0o600))
}

// serve runs the program until the test ends and returns the URL that it prints.
func serve(t *testing.T, program string) string {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // reports the kill
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	require.NoErrorf(t, err, "read URL")
	return strings.TrimSpace(url)
}

func post(t *testing.T, url, body string) string {
	t.Helper()
	client := http.Client{Timeout: 30 * time.Second}
	resp, err := client.Post(url, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("POST %s: %s, %v\n%s", url, resp.Status, err, answer)
	}
	return string(answer)
}
