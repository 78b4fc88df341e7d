package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The least roles computed from an operator's audit log let the operator do its work, without a
// refusal. LAB-05
func TestLeastRights(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	policy := write("policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n")
	log := filepath.Join(dir, "audit.log")
	s := startServer(t, "--in-memory", "--node=process", "--kubeconfig", filepath.Join(dir, "kubeconfig"), "--audit-policy-file", policy, "--audit-log-path", log)
	kubectl, kelson := kubectlOf(t, s), built(t, binary)
	admin, err := os.ReadFile(s.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	kubectl("apply", "-f", cnat+"/config/crd/bases")

	// work runs the operator as a user until an At is done.
	work := func(user, at string) {
		t.Helper()
		config := write(user+".kubeconfig", strings.Replace(string(admin), "  user:\n", "  user:\n    as: "+user+"\n", 1))
		operator := exec.Command(built(t, example))
		operator.Env = append(os.Environ(), "KUBECONFIG="+config)
		var out output
		operator.Stdout, operator.Stderr = &out, &out
		if err := operator.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			operator.Process.Signal(syscall.SIGTERM)
			operator.Wait()
			if t.Failed() {
				t.Logf("the operator as %s: %s", user, out.String())
			}
		}()
		kubectl("apply", "-f", write(at+".yaml", "apiVersion: cnat.programming-kubernetes.info/v1alpha1\nkind: At\nmetadata: {name: "+at+"}\nspec: {schedule: \"2020-01-02T03:04:05Z\", command: echo YAY}\n"))
		kubectl("wait", "at/"+at, "--for=jsonpath={.status.phase}=DONE", "--timeout=30s")
		eventually(t, "the last Event is recorded", func() bool { return strings.Contains(kubectl("describe", "at", at), "Completed") })
	}
	rights := func(args ...string) outcome {
		return command(t, nil, kelson, append([]string{"rights", "--audit-log", log}, args...)...)
	}

	kubectl("apply", "-f", cnat+"/config/rbac/role.yaml")
	kubectl("create", "clusterrolebinding", "declared", "--clusterrole=manager-role", "--user=declared")
	work("declared", "first")
	got := rights("--user=declared", cnat)
	if got.code != 0 {
		t.Errorf("the project's role: %+v", got)
	}
	wantContains(t, "rights", got.stdout, "0 missing", "internal/controller/at_controller.go:", "unused: ")
	if strings.Contains(got.stdout, "finalizers") {
		t.Errorf("no request needs update of finalizers, but admission does:\n%s", got.stdout)
	}

	least := rights("--user=declared", "--yaml", "--name=least")
	if least.code != 0 {
		t.Fatalf("%+v", least)
	}
	wantContains(t, "least roles", least.stdout, "kind: ClusterRole", "- ats/status")
	kubectl("apply", "-f", write("least.yaml", least.stdout))
	kubectl("create", "clusterrolebinding", "least", "--clusterrole=least", "--user=least")
	if strings.Contains(least.stdout, "kind: Role\n") {
		kubectl("create", "rolebinding", "least", "--role=least", "--user=least")
	}
	work("least", "second")
	content, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if strings.Contains(line, `"code":403`) && strings.Contains(line, `"impersonatedUser":{"username":"least"`) {
			t.Errorf("refused: %s", line)
		}
	}

	if got := rights("--user=absent", cnat); got.code != 1 || !strings.Contains(got.stderr, `no requests of user "absent"; it has requests of`) {
		t.Errorf("a user without requests: %+v", got)
	}
	command(t, []string{"KUBECONFIG=" + s.kubeconfig, "HOME=" + dir}, built(t, kubectlBinary), "get", "secrets", "--as=stranger")
	got = rights("--user=stranger", cnat)
	if got.code != 1 || !strings.Contains(got.stdout, "missing: list secrets in namespace default\n") {
		t.Errorf("a refused request that no marker allows: %+v", got)
	}
}
