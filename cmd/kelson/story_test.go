package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

const cnat = "../../examples/cnat"

// kubectlOf returns a function that runs kubectl against a server. Warnings and errors of kubectl
// fail the test.
func kubectlOf(t *testing.T, s *server) func(args ...string) string {
	t.Helper()
	path := built(t, kubectlBinary)
	return func(args ...string) string {
		t.Helper()
		got := command(t, []string{"KUBECONFIG=" + s.kubeconfig, "HOME=" + t.TempDir()}, path, args...)
		if got.code != 0 || got.stderr != "" {
			t.Errorf("kubectl %s: exit %d\n%s%s", strings.Join(args, " "), got.code, got.stdout, got.stderr)
		}
		return got.stdout
	}
}

// An operator built with our library, our control plane, an unmodified kubectl and a command that
// runs as a process work together.
func TestKubectlDrivesTheExample(t *testing.T) {
	require.Long(t, "takes seconds")
	s := startServer(t, "--in-memory", "--node=process", "--kubeconfig", filepath.Join(t.TempDir(), "kubeconfig"))
	kubectl := kubectlOf(t, s)

	wantContains(t, "apply", kubectl("apply", "-f", cnat+"/config/crd/bases"),
		"customresourcedefinition.apiextensions.k8s.io/ats.cnat.programming-kubernetes.info created")
	watch := exec.Command(built(t, kubectlBinary), "get", "ats", "-w", "--output-watch-events")
	watch.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig)
	var watched output
	watch.Stdout = &watched
	require.NoError(t, watch.Start())

	wantContains(t, "apply", kubectl("apply", "-k", cnat+"/config/samples"),
		"at.cnat.programming-kubernetes.info/example-at created")
	// Start the operator after the watch, so that the watch sees every phase.
	require.Eventually(t, "the watch shows the At", func() bool { return strings.Contains(watched.String(), "ADDED") })
	operator := exec.Command(built(t, example))
	operator.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig)
	require.NoError(t, operator.Start())
	t.Cleanup(func() {
		operator.Process.Signal(syscall.SIGTERM)
		operator.Wait()
	})
	wantContains(t, "apply again", kubectl("apply", "-k", cnat+"/config/samples"), "unchanged")
	kubectl("wait", "at/example-at", "--for=jsonpath={.status.phase}=DONE", "--timeout=30s")

	wantContains(t, "get", kubectl("get", "ats"), "NAME", "SCHEDULE", "PHASE", "AGE", "example-at", "DONE")
	wantContains(t, "get -o wide", kubectl("get", "at", "example-at", "-o", "wide"), "COMMAND")
	wantContains(t, "explain", kubectl("explain", "at.spec"), "KIND:       At", "command", "schedule", "-required-")
	described := ""
	// Events are written after the change that they describe
	require.Eventually(t, "the last Event is recorded", func() bool {
		described = kubectl("describe", "at", "example-at")
		return strings.Contains(described, "Completed")
	})
	wantContains(t, "describe", described, "Phase:", "DONE", "Events:", "Started", "Completed")
	pod := strings.TrimSpace(kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.name}"))
	wantContains(t, "pod", pod, "example-at")
	wantContains(t, "logs", kubectl("logs", pod), "YAY")
	wantContains(t, "events", kubectl("get", "events"), "Scheduled", "Successfully assigned default/"+pod,
		"at/example-at")

	wantContains(t, "delete", kubectl("delete", "at", "example-at"), `"example-at" deleted`)
	require.Eventually(t, "the pod is deleted with its At", func() bool {
		return kubectl("get", "pods", "-o", "name") == ""
	})
	require.Eventually(t, "the watch shows the deletion", func() bool {
		return strings.Contains(watched.String(), "DELETED")
	})
	watch.Process.Signal(syscall.SIGINT)
	watch.Wait()
	wantContains(t, "get -w", watched.String(), "ADDED", "PENDING", "RUNNING", "DONE", "DELETED")
	if code := s.stop(syscall.SIGTERM); code != 0 ||
		!strings.HasPrefix(s.stderr.String(), "WARNING: pods run as processes of this machine") ||
		strings.Count(s.stderr.String(), "\n") > 1 {
		t.Errorf("SIGTERM: exit %d\n%s", code, s.stderr)
	}
}

// kubectl logs shows what a simulated Pod prints.
func TestLogsOfSimulatedPods(t *testing.T) {
	require.Long(t, "takes seconds")
	s := startServer(t, "--in-memory", "--kubeconfig", filepath.Join(t.TempDir(), "kubeconfig"))
	kubectl := kubectlOf(t, s)
	kubectl("run", "hello", "--image=busybox", "--restart=Never", "--command", "--", "echo", "hello from nowhere")
	kubectl("wait", "pod/hello", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=30s")
	wantContains(t, "logs", kubectl("logs", "hello"), "hello from nowhere")
}

// The server rejects a wrong manifest with an error of one line and stores nothing.
func TestWrongManifestsAreRefused(t *testing.T) {
	require.Long(t, "takes seconds")
	s := startServer(t, "--in-memory", "--kubeconfig", filepath.Join(t.TempDir(), "kubeconfig"))
	kubectl := kubectlOf(t, s)
	kubectl("apply", "-f", cnat+"/config/crd/bases")
	const at = "apiVersion: cnat.programming-kubernetes.info/v1alpha1\nkind: At\nmetadata:\n  name: wrong\nspec:\n"
	for name, test := range map[string]struct {
		manifest string
		flags    []string
		want     string
	}{
		"no command": {at + "  schedule: \"2030-01-02T03:04:05Z\"\n", []string{"--validate=ignore"},
			"spec.command: Required value"},
		"unknown field": {at + "  schedule: \"2030-01-02T03:04:05Z\"\n  command: x\n  colour: red\n",
			[]string{"--validate=strict"}, `unknown field "spec.colour"`},
		"bad schedule":   {at + "  schedule: tomorrow\n  command: x\n", nil, "spec.schedule"},
		"malformed YAML": {at + " schedule: [\n", nil, "error"},
		"unknown kind": {strings.Replace(at, "kind: At", "kind: Never", 1) + "  command: x\n", nil,
			`no matches for kind "Never"`},
		"bad pod": {"apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec: {}\n",
			[]string{"--validate=ignore"}, "spec.containers: Required value"},
		"bad name": {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: Not_A_Name\n", nil,
			"metadata.name: Invalid value"},
		"no namespace": {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  namespace: nowhere\n", nil,
			`namespaces "nowhere" not found`},
		"wrong type": {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n  n: 1\n",
			[]string{"--validate=ignore"}, "cannot"},
		"duplicate field": {at + "  command: x\n  command: y\n  schedule: \"2030-01-02T03:04:05Z\"\n",
			[]string{"--validate=strict"}, "command"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "manifest.yaml")
			require.NoError(t, os.WriteFile(file, []byte(test.manifest), 0o600))
			got := command(t, []string{"KUBECONFIG=" + s.kubeconfig}, "kubectl",
				append([]string{"apply", "-f", file}, test.flags...)...)
			if got.code == 0 {
				t.Errorf("it was accepted: %s", got.stdout)
			}
			wantContains(t, "the refusal", got.stderr, test.want)
		})
	}
	left := kubectl("get", "ats,pods,configmaps", "-o", "name", "--field-selector",
		"metadata.name!=kube-root-ca.crt")
	assert.Equalf(t, left, "", "something was stored")
}

// Commands that fail print one clear line.
func TestWrongCommandLines(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	used := startServer(t, "--data-dir", data)
	port := used.url[strings.LastIndex(used.url, ":")+1:]
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.Mkdir(empty, 0o700))
	broken := filepath.Join(dir, "broken")
	require.NoError(t, os.MkdirAll(filepath.Join(broken, "pki"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(broken, "pki", "ca.crt"), []byte("nonsense"), 0o600))
	nowhere := filepath.Join(dir, "nowhere")
	err := os.WriteFile(nowhere, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],`+
		`"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}]}`), 0o600)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"busy port": {[]string{"serve", "--in-memory", "--secure-port", port},
			[]string{"address already in use", "--secure-port"}},
		"busy console port": {[]string{"serve", "--in-memory", "--secure-port=0", "--console", "--console-listen",
			"127.0.0.1:" + port}, []string{"console", "address already in use", "--console-listen"}},
		"data directory used": {[]string{"serve", "--data-dir", data, "--secure-port=0"},
			[]string{data, "in use by another process"}},
		"broken authority": {[]string{"serve", "--data-dir", broken, "--secure-port=0"},
			[]string{"certificate authority"}},
		"kubeconfig nowhere": {[]string{"serve", "--in-memory", "--secure-port=0", "--kubeconfig",
			filepath.Join(dir, "no/such/dir/kc")}, []string{"write kubeconfig", "no such file"}},
		"unknown node": {[]string{"serve", "--in-memory", "--secure-port=0", "--node=docker"},
			[]string{"docker", "must be none, simulated, process or containers"}},
		"port out of range": {[]string{"serve", "--in-memory", "--secure-port=70000"},
			[]string{"--secure-port", "70000"}},
		"two stores": {[]string{"serve", "--in-memory", "--data-dir", data},
			[]string{"data-dir", "in-memory"}},
		"unknown flag": {[]string{"serve", "--nonsense"}, []string{"--nonsense"}},
		"why without server": {[]string{"why", "pod/x", "--kubeconfig", nowhere},
			[]string{"127.0.0.1:1", "connection refused"}},
		"blame without server": {[]string{"blame", "pod/x", "--kubeconfig", nowhere},
			[]string{"127.0.0.1:1", "connection refused"}},
		"console without server": {[]string{"token", "list", "--kubeconfig", nowhere},
			[]string{"127.0.0.1:1", "connection refused"}},
		"audit without output": {[]string{"serve", "--in-memory", "--secure-port=0", "--audit-policy-file", broken},
			[]string{"--audit-policy-file", "--audit-log-path", "--audit-webhook-config-file"}},
		"unknown command":      {[]string{"sail"}, []string{"sail"}},
		"dev without folder":   {[]string{"dev", filepath.Join(dir, "absent")}, []string{"absent", "no such folder"}},
		"dev without operator": {[]string{"dev", empty}, []string{"no project in this folder", "kelson init"}},
		"bad condition":        {[]string{"dev", cnat, "--until", "at/x"}, []string{"OBJECT:JSONPATH=VALUE"}},
		"generate nowhere":     {[]string{"generate", filepath.Join(dir, "absent")}, []string{"absent"}},
		"kubectl without kubeconfig": {[]string{"kubectl", "--kubeconfig", filepath.Join(dir, "absent"), "get", "pods"},
			[]string{"absent", "no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := command(t, nil, built(t, binary), test.args...)
			if got.code == 0 {
				t.Error("exit code 0")
			}
			if strings.Contains(got.stdout, "ready in") {
				t.Errorf("says that it is ready: %s", got.stdout)
			}
			if lines := strings.Count(strings.TrimSpace(got.stderr), "\n"); lines > 0 {
				t.Errorf("%d lines instead of one:\n%s", lines+1, got.stderr)
			}
			wantContains(t, "stderr", got.stderr, test.want...)
		})
	}
	// A failed start because of a busy port leaves no files.
	fresh := filepath.Join(dir, "fresh")
	command(t, nil, built(t, binary), "serve", "--data-dir", fresh, "--secure-port", port)
	if _, err := os.Stat(fresh); !os.IsNotExist(err) {
		t.Errorf("a refused start left %s: %v", fresh, err)
	}
}

// kelson dev builds and runs a project, logs what happens, and ends when the condition of --until
// is true. If it does not become true in time, the exit code is 1.
func TestDevRunsAProject(t *testing.T) {
	require.Long(t, "takes seconds")
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	got := command(t, nil, built(t, binary), "dev", cnat, "--node=process", "--write-kubeconfig", kubeconfig,
		"--until", "at/example-at:{.status.phase}=DONE", "--timeout", "40s")
	if got.code != 0 {
		t.Fatalf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	wantContains(t, "the log", got.stdout, "export KUBECONFIG="+kubeconfig, "generated files", "built in",
		"at/example-at", "created", "PENDING → RUNNING", "RUNNING → DONE", "│ YAY", "⟳ at reconciled", "✉ Started")
	if !strings.HasPrefix(got.stderr, "WARNING: pods run as processes of this machine") ||
		strings.Count(got.stderr, "\n") > 1 {
		t.Errorf("stderr: %s", got.stderr)
	}

	got = command(t, nil, built(t, binary), "dev", cnat, "--node=none",
		"--until", "at/example-at:{.status.phase}=DONE", "--timeout", "3s")
	assert.Equalf(t, got.code, 1, "a condition that never becomes true: exit")
	wantContains(t, "stderr", got.stderr, "timed out after 3s")
}

// A server that is killed during writes has all acknowledged objects after a restart, and revisions
// only grow.
func TestKilledServerLosesNothing(t *testing.T) {
	require.Long(t, "takes seconds")
	data := filepath.Join(t.TempDir(), "data")
	var acknowledged []string
	revision := uint64(0)
	for round := range 3 {
		s := startServer(t, "--data-dir", data, "--node=none")
		if info, err := os.Stat(s.kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("kubeconfig: %v %v", info, err)
		}
		w := newWriter(t, s)
		for _, name := range acknowledged {
			if !w.exists(name) {
				t.Errorf("round %d: the acknowledged object %s is missing", round, name)
			}
		}
		stop := time.AfterFunc(time.Duration(200+100*round)*time.Millisecond, func() { s.cmd.Process.Kill() })
		for n := 0; ; n++ {
			name := fmt.Sprintf("r%d-n%d", round, n)
			got, ok := w.create(name)
			if !ok {
				break
			}
			acknowledged = append(acknowledged, name)
			if got <= revision {
				t.Errorf("resourceVersion %d after %d", got, revision)
			}
			revision = got
		}
		stop.Stop()
		<-s.done
	}
	if len(acknowledged) < 30 {
		t.Errorf("only %d writes were acknowledged: too few for this test", len(acknowledged))
	}
	s := startServer(t, "--data-dir", data, "--node=none")
	w := newWriter(t, s)
	for _, name := range acknowledged {
		if !w.exists(name) {
			t.Errorf("the acknowledged object %s is missing", name)
		}
	}
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: exit %d\n%s", code, s.stderr)
	}
}
