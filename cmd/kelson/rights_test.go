package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// The least roles computed from an operator's audit log let the operator do its work, without a
// refusal.
func TestLeastRights(t *testing.T) {
	require.Long(t, "takes seconds")
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	policy := write("policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n")
	log := filepath.Join(dir, "audit.log")
	s := startServer(t, "--in-memory", "--node=process", "--kubeconfig", filepath.Join(dir, "kubeconfig"),
		"--audit-policy-file", policy, "--audit-log-path", log)
	kubectl, kelson := kubectlOf(t, s), built(t, binary)
	admin, err := os.ReadFile(s.kubeconfig)
	require.NoError(t, err)
	kubectl("apply", "-f", cnat+"/config/crd/bases")

	// work runs the operator as a user until an At is done.
	work := func(user, at string) {
		t.Helper()
		config := write(user+".kubeconfig", strings.Replace(string(admin), "  user:\n", "  user:\n    as: "+user+"\n",
			1))
		operator := exec.Command(built(t, example))
		operator.Env = append(os.Environ(), "KUBECONFIG="+config)
		var out output
		operator.Stdout, operator.Stderr = &out, &out
		require.NoError(t, operator.Start())
		defer func() {
			operator.Process.Signal(syscall.SIGTERM)
			operator.Wait()
			if t.Failed() {
				t.Logf("the operator as %s: %s", user, out.String())
			}
		}()
		kubectl("apply", "-f", write(at+".yaml",
			"apiVersion: cnat.programming-kubernetes.info/v1alpha1\nkind: At\nmetadata: {name: "+at+
				"}\nspec: {schedule: \"2020-01-02T03:04:05Z\", command: echo YAY}\n"))
		kubectl("wait", "at/"+at, "--for=jsonpath={.status.phase}=DONE", "--timeout=30s")
		require.Eventually(t, "the last Event is recorded", func() bool {
			return strings.Contains(kubectl("describe", "at", at), "Completed")
		})
	}
	rights := func(args ...string) outcome {
		return command(t, nil, kelson, append([]string{"rights", "--audit-log", log}, args...)...)
	}

	kubectl("apply", "-f", cnat+"/config/rbac/role.yaml")
	kubectl("create", "clusterrolebinding", "declared", "--clusterrole=manager-role", "--user=declared")
	work("declared", "first")
	got := rights("--user=declared", cnat)
	assert.Equalf(t, got.code, 0, "the project's role: %+v", got)
	wantContains(t, "rights", got.stdout, "0 missing", "internal/controller/at_controller.go:", "unused: ")
	if strings.Contains(got.stdout, "finalizers") {
		t.Errorf("no request needs update of finalizers, but admission does:\n%s", got.stdout)
	}

	least := rights("--user=declared", "--yaml", "--name=least")
	require.Equalf(t, least.code, 0, "%+v", least)
	wantContains(t, "least roles", least.stdout, "kind: ClusterRole", "- ats/status")
	kubectl("apply", "-f", write("least.yaml", least.stdout))
	kubectl("create", "clusterrolebinding", "least", "--clusterrole=least", "--user=least")
	if strings.Contains(least.stdout, "kind: Role\n") {
		kubectl("create", "rolebinding", "least", "--role=least", "--user=least")
	}
	work("least", "second")
	content, err := os.ReadFile(log)
	require.NoError(t, err)
	for line := range strings.Lines(string(content)) {
		if strings.Contains(line, `"code":403`) && strings.Contains(line, `"impersonatedUser":{"username":"least"`) {
			t.Errorf("refused: %s", line)
		}
	}

	if got := rights("--user=absent", cnat); got.code != 1 ||
		!strings.Contains(got.stderr, `no requests of user "absent"; it has requests of`) {
		t.Errorf("a user without requests: %+v", got)
	}
	command(t, []string{"KUBECONFIG=" + s.kubeconfig, "HOME=" + dir}, built(t, kubectlBinary), "get", "secrets",
		"--as=stranger")
	got = rights("--user=stranger", cnat)
	if got.code != 1 || !strings.Contains(got.stdout, "missing: list secrets in namespace default\n") {
		t.Errorf("a refused request that no marker allows: %+v", got)
	}
}

// rightsOf is the JSON of kelson rights.
type rightsOf struct {
	Rules   int
	Missing []struct {
		Verb, Resource, File string
		Line                 int
	}
	Unused []struct {
		File  string
		Line  int
		Verbs []string
	}
	Proof *struct {
		Refused, Shown, NotShown []struct{ Verb, Resource string }
		Runs                     int
	}
}

// The requests of a project's tests give its least role. Under this role, no request is refused,
// and one run shows that all its rules are needed. A rule without a marker is missing, with the
// place of the nearest marker, and a marker that nothing needs is unused.
func TestRightsOfTests(t *testing.T) {
	require.Long(t, "runs the tests of a project many times")
	t.Parallel()
	const project = "../../examples/simpledeployment"
	run := func(want int, dir string, args ...string) rightsOf {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), built(t, binary),
			append(append([]string{"rights", "-o", "json"}, args...), dir)...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != want {
			t.Fatalf("kelson rights %v: %v\n%s%s", args, err, stdout.String(), stderr.String())
		}
		var got rightsOf
		require.NoErrorf(t, json.Unmarshal(stdout.Bytes(), &got), "\n%s%s", stdout.String(), stderr.String())
		return got
	}
	got := run(0, project, "--test", "--prove")
	if len(got.Missing) > 0 || got.Proof == nil || len(got.Proof.Refused) > 0 || len(got.Proof.NotShown) > 0 ||
		len(got.Proof.Shown) != got.Rules || got.Rules < 5 || got.Proof.Runs != 1 {
		t.Errorf("%+v", got)
	}

	explored := run(0, project, "--explore", "--for", "5s")
	if explored.Rules < 5 {
		t.Errorf("explored: %+v", explored)
	}

	// A copy in the same module, with one verb of a marker removed and one added. It is so deep
	// that no folder changes whose entries other tests read, so the go command keeps their results.
	copies := "../../examples/bin/copies"
	require.NoError(t, os.MkdirAll(copies, 0o755))
	copied, err := os.MkdirTemp(copies, "rights-test-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(copied) })
	require.NoError(t, os.CopyFS(copied, os.DirFS(project)))
	err = filepath.WalkDir(copied, func(name string, entry os.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".go" {
			return err
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		// Its packages are internal, so it must import its own.
		return os.WriteFile(name, bytes.ReplaceAll(source, []byte("examples/simpledeployment/"),
			[]byte("examples/bin/copies/"+filepath.Base(copied)+"/")), 0o600)
	})
	require.NoError(t, err)
	file := filepath.Join(copied, "internal/controller/simpledeployment_controller.go")
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	changed := strings.Replace(string(source), "resources=pods,verbs=get;list;watch;create;patch;delete",
		"resources=pods,verbs=get;list;watch;patch;delete;deletecollection", 1)
	if changed == string(source) {
		t.Fatal("the marker of pods is not the expected one")
	}
	require.NoError(t, os.WriteFile(file, []byte(changed), 0o600))
	got = run(1, copied, "--test")
	if len(got.Missing) != 1 || got.Missing[0].Verb != "create" || got.Missing[0].Resource != "pods" ||
		got.Missing[0].File != "internal/controller/simpledeployment_controller.go" || got.Missing[0].Line != 21 {
		t.Errorf("missing: %+v", got.Missing)
	}
	unused := false
	for _, u := range got.Unused {
		unused = unused || u.Line == 21 && slices.Contains(u.Verbs, "deletecollection")
	}
	if !unused {
		t.Errorf("unused: %+v", got.Unused)
	}
}

// Wrong combinations of flags, and a project whose tests run no operator, get clear errors.
func TestRightsMistakes(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "pass --test, --explore or --audit-log"},
		{[]string{"--audit-log=x"}, "--audit-log needs --user"},
		{[]string{"--test", "--user=x"}, "have no effect without --audit-log"},
		{[]string{"--audit-log=x", "--user=x", "--prove"}, "--prove runs the operator again"},
		{[]string{"--test", "--for=1m"}, "--for has no effect without --explore"},
		{[]string{"--test", "--resource-names"}, "needs --yaml or --prove"},
		{[]string{"--test", "--yaml", "-o=json"}, "cannot be used together"},
		{[]string{"--audit-log=" + os.DevNull, "--user=x"}, os.DevNull + " is empty"},
	} {
		if got := command(t, nil, built(t, binary), append([]string{"rights"}, test.args...)...); got.code != 1 ||
			!strings.Contains(got.stderr, test.want) {
			t.Errorf("%v: %+v, want %q", test.args, got, test.want)
		}
	}
}

// Tests that run no operator, such as those with envtest, record nothing. The message names
// --explore, and with that flag the exploration follows.
func TestRightsOfTestsWithoutOperator(t *testing.T) {
	dir := t.TempDir()
	require.Files(t, dir, map[string]string{
		"go.mod":      "module example.com/p\n",
		"lib.go":      "package p\n",
		"lib_test.go": "package p\n\nimport \"testing\"\n\nfunc TestNothing(*testing.T) {}\n",
	})
	t.Setenv("GOWORK", "off")
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"--test"}, []string{"no test runs an operator", "--explore records the project's program instead"}},
		{[]string{"--test", "--explore"}, []string{"no test runs an operator", "the exploration has failed"}},
	} {
		got := command(t, nil, built(t, binary), append([]string{"rights", dir}, test.args...)...)
		for _, part := range test.want {
			if got.code != 1 || !strings.Contains(got.stderr, part) {
				t.Errorf("%v: %+v, want %q", test.args, got, part)
			}
		}
	}
}

// Markers that controller-gen ignores are warnings in the projects of other tools, as in kelson
// generate.
func TestRightsOfIgnoredMarkers(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	require.Files(t, dir, map[string]string{
		"go.mod":  "module example.com/p\n",
		"PROJECT": "version: \"3\"\nlayout: [go.kubebuilder.io/v4]\ndomain: example.com\nrepo: example.com/p\n",
		"p.go": "package p\n\n//+kubebuilder:rbac:groups=\"\",resources=pods,verbs=list\n\n" +
			"//+kubebuilder:rbac:groups=\"\",resources=secrets,verbs=list\nfunc Reconcile() {}\n",
		"audit.log": `{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","verb":"list",` +
			`"user":{"username":"u"},"objectRef":{"resource":"pods","apiVersion":"v1"},"responseStatus":{"code":200}}` + "\n",
	})
	t.Setenv("GOWORK", "off")
	got := command(t, nil, built(t, binary), "rights", dir, "--audit-log", log, "--user", "u")
	wantContains(t, "the summary", got.stdout, "1 requests, which need 1 rules: 0 missing")
	wantContains(t, "the warnings", got.stderr, "warning: "+filepath.Join(dir, "p.go")+":5:3: misplaced marker +kubebuilder:rbac")
	assert.Equalf(t, got.code, 0, "%+v", got)
	err := os.WriteFile(filepath.Join(dir, "PROJECT"), []byte("version: \"3\"\nlayout: [kelson.dev/v1]\n"), 0o600)
	require.NoError(t, err)
	got = command(t, nil, built(t, binary), "rights", dir, "--audit-log", log, "--user", "u")
	if got.code != 1 || !strings.Contains(got.stderr, "misplaced marker") || strings.Contains(got.stderr, "warning: /") {
		t.Errorf("in a project of kelson init: %+v", got)
	}
}
