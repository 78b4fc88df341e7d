package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/require"
)

// kelson replay runs an operator against the history of a server on which the same operator ran. A
// write that it does not repeat is a divergence.
func TestReplay(t *testing.T) {
	require.Long(t, "builds an operator")
	t.Parallel()
	kelson := built(t, binary)
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	s := startServer(t, "--data-dir", data, "--history", "24h")
	kubectl := kubectlOf(t, s)
	const project = "../../examples/simpledeployment"
	program := filepath.Join(dir, "operator")
	build := exec.Command("go", "build", "-o", program, "./cmd")
	build.Dir = project
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	// The definition is written shortly before the sample, and the replayed operator starts between
	// them.
	if got := command(t, nil, kelson, "install", project, "--kubeconfig", s.kubeconfig); got.code != 0 {
		t.Fatal(got.stderr)
	}
	operator := exec.Command(program, "--metrics-bind-address=0", "--health-probe-bind-address=0",
		"--leader-elect=false")
	operator.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig)
	var log output
	operator.Stdout, operator.Stderr = &log, &log
	require.NoError(t, operator.Start())
	t.Cleanup(func() {
		operator.Process.Kill()
		_ = operator.Wait()
	})
	kubectl("apply", "-f", project+"/config/samples/apps_v1_simpledeployment.yaml")
	sample := "simpledeployments/simpledeployment-sample"
	ready := func(n string) {
		t.Helper()
		kubectl("wait", sample, "--for=jsonpath={.status.readyReplicas}="+n, "--timeout=60s")
	}
	ready("3")
	kubectl("scale", sample, "--replicas=5")
	ready("5")
	kubectl("delete", "pod", "simpledeployment-sample-1")
	kubectl("wait", "pod/simpledeployment-sample-1", "--for=create", "--timeout=60s")
	ready("5")
	const manager = "simpledeployment"
	last := revisionOf(t, kubectl, sample)
	require.Eventually(t, "the history has the last write", func() bool {
		return command(t, nil, kelson, "diff", "--data-dir", data, "--from", last).code == 0
	})

	replayed := func(args ...string) outcome {
		return command(t, nil, kelson, append([]string{"replay", data, project, "--generate=false"}, args...)...)
	}
	got := replayed()
	if got.code != 0 || !strings.Contains(got.stdout, " 0 divergences\n") {
		t.Errorf("the same operator: %+v", got)
	}

	// A user writes with the operator's field manager. The operator does not repeat this write.
	kubectl("label", "pod", "simpledeployment-sample-2", "by=hand", "--field-manager="+manager)
	labelled := revisionOf(t, kubectl, "pod/simpledeployment-sample-2")
	require.Eventually(t, "the history has the label", func() bool {
		return command(t, nil, kelson, "diff", "--data-dir", data, "--from", labelled).code == 0
	})
	got = replayed("--manager", manager, "--speed", "100")
	if got.code != 2 {
		t.Errorf("exit code %d, want 2\n%s", got.code, got.stderr)
	}
	wantContains(t, "the replay", got.stdout, "pods/default/simpledeployment-sample-2",
		`    .metadata.labels.by: was "hand", now (absent)`, " 1 divergences\n")
	var result struct{ Divergences []struct{ Name string } }
	if err := json.Unmarshal([]byte(replayed("-o", "json").stdout), &result); err != nil ||
		len(result.Divergences) != 1 || result.Divergences[0].Name != "simpledeployment-sample-2" {
		t.Errorf("JSON: %v %+v", err, result)
	}

	for want, args := range map[string][]string{
		"--from \"yesterday\": want a time":        {"--from", "yesterday"},
		"the history begins later, at":             {"--from", "2001-01-01T00:00:00Z"},
		"there is nothing to replay":               {"--from", "2999-01-01T00:00:00Z"},
		"--speed 0: want a positive number":        {"--speed", "0"},
		"--quiet 0s: want a positive":              {"--quiet", "0s"},
		"accepts between 1 and 2 arg(s)":           {"third"},
		`unknown format "xml": want text, json or`: {"-o", "xml"},
	} {
		if got := replayed(args...); got.code != 1 && (got.code != 64 || args[0] != "third" && args[0] != "-o") ||
			!strings.Contains(got.stderr, want) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%v: %+v; want %q", args, got, want)
		}
	}
	if got := command(t, nil, kelson, "replay", "replay_test.go", project); got.code != 1 ||
		!strings.Contains(got.stderr, "not a history") || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("a file that is no history: %+v", got)
	}
}
