package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// reviewSteps are the steps of action.yml that review a pull request, by ID.
func reviewSteps(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("../../action.yml")
	require.NoError(t, err)
	var action struct {
		Runs struct {
			Steps []struct{ ID, Run string }
		}
	}
	require.NoError(t, yaml.Unmarshal(data, &action))
	steps := map[string]string{}
	for _, s := range action.Runs.Steps {
		steps[s.ID] = s.Run
	}
	return steps
}

// reviewed runs a step of the action as a runner does, and returns its exit code and output, the
// summary of the job, and the folder of the reports.
func reviewed(t *testing.T, step, project string, env ...string) (got outcome, summary, reports string) {
	t.Helper()
	temp := t.TempDir()
	require.NoError(t, os.Symlink(built(t, binary), filepath.Join(temp, "kelson")))
	reports = filepath.Join(temp, "reports")
	file := filepath.Join(temp, "summary.md")
	got = command(t, append([]string{"RUNNER_TEMP=" + temp, "DIR=" + temp, "PROJECT=" + project, "REPORTS=" + reports,
		"GITHUB_STEP_SUMMARY=" + file, "LIMIT=5s", "AGAINST=", "BACKUP="}, env...), "bash", "-e", "-c",
		reviewSteps(t)[step])
	text, err := os.ReadFile(file)
	require.NoErrorf(t, err, "\n%s%s", got.stdout, got.stderr)
	return got, string(text), reports
}

// The action compares the operator of a pull request with another version, on the samples. A
// difference is in the summary and does not fail the job; an error does.
func TestReviewPlans(t *testing.T) {
	require.Long(t, "builds an operator")
	t.Parallel()
	const project = "../../examples/cnat"
	source, err := filepath.Abs(project + "/internal/controller/pod.go")
	require.NoError(t, err)
	text, err := os.ReadFile(source)
	require.NoError(t, err)
	dir := t.TempDir()
	replaced, base := filepath.Join(dir, "pod.go"), filepath.Join(dir, "base")
	err = os.WriteFile(replaced, []byte(strings.ReplaceAll(string(text), `"busybox`, `"busybox-of-base`)),
		0o600)
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: replaced}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", base, "./cmd")
	build.Dir = project
	output, err := build.CombinedOutput()
	require.NoErrorf(t, err, "\n%s", output)
	got, summary, reports := reviewed(t, "plan", project, "AGAINST="+base)
	assert.Equalf(t, got.code, 0, "%+v", got)
	wantContains(t, "the summary", summary, "### ", "busybox-of-base")
	if plan, err := os.ReadFile(filepath.Join(reports, "plan.md")); err != nil || string(plan) != summary {
		t.Errorf("%v\n%s", err, plan)
	}
	got, summary, _ = reviewed(t, "plan", project, "AGAINST=no-such-version", "BACKUP=plan_test.go")
	if got.code != 1 || summary != "### Plan: failed\n\nThe log of the job has the reason.\n" {
		t.Errorf("%+v\n%s", got, summary)
	}
}

// writePairs writes a project whose operator creates two Secrets for each ConfigMap, the second
// with the suffix. It looks only for the first, which is a bug.
func writePairs(t *testing.T, dir, suffix string) {
	t.Helper()
	program, err := os.ReadFile("../../lab/explore/testdata/program/main.go")
	require.NoError(t, err)
	require.Files(t, dir, map[string]string{
		"go.mod":                  "module example.com/pairs\n\ngo 1.26\n",
		"PROJECT":                 "domain: example.com\nlayout: [go.kubebuilder.io/v4]\nrepo: example.com/pairs\nversion: \"3\"\n",
		"cmd/main.go":             strings.ReplaceAll(string(program), `"-cert"`, `"`+suffix+`"`),
		"explore.yaml":            "roles: []\n",
		"config/samples/web.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: web, labels: {web: \"yes\"}}}\n",
	})
}

// The action explores the operator of a pull request. An alarm is in the summary and in the
// reports, and fails the job.
func TestReviewExplores(t *testing.T) {
	require.Long(t, "compiles an operator")
	t.Parallel()
	dir := t.TempDir()
	writePairs(t, dir, "-cert")
	got, summary, reports := reviewed(t, "explore", dir)
	assert.Equalf(t, got.code, 1, "%+v", got)
	wantContains(t, "the summary", summary, "### Exploration: ", "#### another end state (O1)",
		"secrets default/web-cert: is missing", "replay: kelson explore ")
	for name, want := range map[string]string{"explore.md": summary,
		"explore.sarif": "secrets default/web-cert: is missing",
		"explore.xml":   "secrets default/web-cert: is missing"} {
		if report, err := os.ReadFile(filepath.Join(reports, name)); err != nil ||
			!strings.Contains(string(report), want) {
			t.Errorf("%s: %v\n%s", name, err, report)
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config/samples/web.yaml"),
		[]byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: W_}}\n"), 0o600))
	got, summary, _ = reviewed(t, "explore", dir)
	assert.Equalf(t, got.code, 1, "%+v", got)
	wantContains(t, "the summary", summary, "### Exploration: it ended with an error\n",
		`ConfigMap "W_" is invalid: metadata.name: `)
}

// kelson explore --former tries upgrades from the version in another folder. The Secret that only
// that version creates remains, which raises an alarm. The command that replays it, and the
// exported test, name the folder.
func TestExploreFormer(t *testing.T) {
	require.Long(t, "compiles an operator")
	t.Parallel()
	dir, former := t.TempDir(), t.TempDir()
	writePairs(t, dir, "-cert")
	writePairs(t, former, "-token")
	const plan = "upgrade after operator former #1"
	got := command(t, nil, built(t, binary), "explore", dir, "--generate=false", "--former", former, "--plan", plan,
		"--export")
	assert.Equalf(t, got.code, 1, "%+v", got)
	wantContains(t, "the alarm", got.stdout, "secrets default/web-token: exists",
		"replay: kelson explore "+dir+" --former "+former+" --plan '"+plan+"'")
	test, err := os.ReadFile(filepath.Join(dir, "test/explore/upgrade_after_operator_former_1_test.go"))
	if err != nil || !strings.Contains(string(test), `"--former", "`+former+`"`) {
		t.Errorf("%v\n%s", err, test)
	}
	for _, bad := range []struct {
		args []string
		want string
	}{
		{[]string{"--plan", plan}, "the plan needs the former version of the operator"},
		{[]string{"--former", former, "--process"}, "it excludes --binary and --process"},
		{[]string{"--former", filepath.Join(dir, "config")}, "the former version: "},
	} {
		got := command(t, nil, built(t, binary), append([]string{"explore", dir, "--generate=false"}, bad.args...)...)
		if got.code != 1 || !strings.Contains(got.stderr, bad.want) {
			t.Errorf("%v: %+v, want %q", bad.args, got, bad.want)
		}
	}
}
