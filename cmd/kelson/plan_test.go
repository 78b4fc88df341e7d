package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// kelson plan shows what an operator would do in a cluster, and changes nothing there.
func TestPlanOfACluster(t *testing.T) {
	require.Long(t, "builds an operator")
	t.Parallel()
	kelson := built(t, binary)
	s := startServer(t, "--in-memory", "--node=none", "--kubeconfig", filepath.Join(t.TempDir(), "kubeconfig"))
	kubectl := kubectlOf(t, s)
	const project = "../../examples/cnat"
	planned := func(args ...string) outcome {
		return command(t, nil, kelson, append([]string{"plan", project, "--generate=false", "--quiet=1s",
			"--kubeconfig", s.kubeconfig}, args...)...)
	}
	if got := command(t, nil, kelson, "install", project, "--kubeconfig", s.kubeconfig); got.code != 0 {
		t.Fatal(got.stderr)
	}
	if got := planned(); got.code != 0 || !strings.Contains(got.stdout, "the operator would do nothing") {
		t.Fatalf("without an At: %+v", got)
	}

	kubectl("apply", "-f", project+"/config/samples/cnat_v1alpha1_at.yaml")
	before := kubectl("get", "ats,pods,namespaces,clusterroles,secrets", "-A", "-o", "yaml")
	got := planned()
	if got.code != 2 {
		t.Errorf("exit code %d, want 2\n%s", got.code, got.stderr)
	}
	wantContains(t, "the plan", got.stdout, "controller at reconciles ats.cnat.programming-kubernetes.info/default/example-at\n   because At default/example-at existed when the operator started\n",
		"+ create pods/default/example-at-", "because Pod default/example-at-", " was changed by Kubernetes",
		"simulated: after the simulated start of pod default/example-at-", "1 to create, 2 to update, 0 to delete")
	page, err := os.ReadFile("../../docs/guides/planning.md")
	require.NoError(t, err)
	_, block, _ := strings.Cut(string(page), "```console\n$ kelson plan\n")
	block, _, _ = strings.Cut(block, "\n```\n")
	got = planned("--quiet=5s") // the simulated pod ends after two seconds
	if err := shown(strings.Split(block, "\n"), got.stdout); err != nil {
		t.Errorf("planning.md shows another plan: %v\n%s", err, got.stdout)
	}
	pod := regexp.MustCompile(`\+ create pods/default/example-at-[0-9a-f]{8}-[0-9a-f]{8}\n`)
	if !pod.MatchString(block) || !pod.MatchString(got.stdout) {
		t.Errorf("want a Pod %s in the plan and in planning.md:\n%s", pod, got.stdout)
	}
	var read struct {
		Steps []struct{ Controller string }
	}
	if err := json.Unmarshal([]byte(planned("-o", "json").stdout), &read); err != nil || len(read.Steps) < 2 ||
		read.Steps[0].Controller != "at" {
		t.Errorf("JSON: %v %+v", err, read)
	}
	wantContains(t, "Markdown", planned("--output=markdown").stdout,
		"### Plan: 1 to create, 2 to update, 0 to delete\n", "```diff\n")
	after := kubectl("get", "ats,pods,namespaces,clusterroles,secrets", "-A", "-o", "yaml")
	assert.Equalf(t, after, before, "the cluster has changed")

	// The same version again, as a program.
	old := filepath.Join(t.TempDir(), "old")
	build := exec.Command("go", "build", "-o", old, "./cmd")
	build.Dir = project
	output, err := build.CombinedOutput()
	require.NoErrorf(t, err, "\n%s", output)
	if got := planned("--against", old); got.code != 0 ||
		!strings.Contains(got.stdout, "the operator would leave the cluster as "+old+" does") {
		t.Errorf("against the same version: %+v", got)
	}

	for _, bad := range []struct {
		args []string
		want string
	}{
		{[]string{"--against", "no-such-version"}, `no such file or folder, and the repository`},
		{[]string{"--against", "plan_test.go"}, "--against plan_test.go: neither a folder nor a program"},
		{[]string{"--quiet", "0s"}, "--quiet 0s: want a positive duration"},
		{[]string{"--timeout", "500ms"}, "--timeout 500ms: want more than --quiet, which is 1s"},
		{[]string{"-o", "xml"}, `unknown format "xml": want text, json, yaml or markdown`},
		{[]string{"--user", "nobody"}, "refused: "},
		{[]string{"--", "--no-such-flag"}, "the operator ended: exit status 2; its output ends with"},
	} {
		got := planned(bad.args...)
		if all := got.stdout + got.stderr; got.code == 0 || !strings.Contains(all, bad.want) {
			t.Errorf("%v: code %d; want %q\n%s", bad.args, got.code, bad.want, all)
		}
	}
	if got := command(t, nil, kelson, "plan", project, "--generate=false", "--backup", "plan_test.go"); got.code != 1 ||
		!strings.Contains(got.stderr, "read backup plan_test.go") {
		t.Errorf("a file that is no backup: %+v", got)
	}
}
