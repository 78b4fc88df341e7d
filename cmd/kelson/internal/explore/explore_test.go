package explore

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/explored"
)

// kelson explore runs a project in kubebuilder's layout, on controller-runtime, unchanged.
func TestControllerRuntime(t *testing.T) {
	require.Long(t, "compiles a project")
	var out bytes.Buffer
	c := Command()
	c.SetArgs([]string{"../../../../bench/explore/fleet", "--generate=false", "--for", "3s"})
	c.SetOut(&out)
	c.SilenceUsage = true
	require.NoErrorf(t, c.ExecuteContext(t.Context()), "\n%s", out.String())
	if got := out.String(); !strings.HasPrefix(got, "explored ") || !strings.Contains(got, " 0 alarms\n") ||
		strings.Contains(got, "not deterministic") {
		t.Errorf("%q, want only a summary without alarms and differences", got)
	}
}

// The operator is compiled with the build tags of the project's program.
func TestTags(t *testing.T) {
	require.Long(t, "compiles a project")
	dir := t.TempDir()
	p := &project.Project{Dir: dir, Main: filepath.Join(dir, "cmd"), Tags: "shop"}
	require.NoError(t, os.Mkdir(p.Main, 0o700))
	for name, text := range map[string]string{
		"go.mod":      "module example.com/shop\n\ngo 1.21\n",
		"cmd/main.go": "//go:build shop\n\npackage main\n\nfunc main() { missing() }\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	ownCache(t)
	_, release, err := BuildProgram(t.Context(), p, t.TempDir(), nil)
	release()
	assert.ErrorContainsf(t, err, "undefined: missing", "want the error of the file with the tag")
}

// ownCache gives the test a folder for built programs, and leaves it the cache of the go command.
func ownCache(t *testing.T) {
	t.Helper()
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	t.Setenv("GOCACHE", strings.TrimSpace(string(cache)))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
}

// operator writes a project with a main function, whose rights and inputs need no manifests.
func operator(t *testing.T, main string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range map[string]string{
		"go.mod":      "module example.com/shop\n\ngo 1.21\n",
		"PROJECT":     "domain: example.com\nlayout: [go.kubebuilder.io/v4]\nrepo: example.com/shop\nversion: \"3\"\n",
		"cmd/main.go": "package main\n\n" + main,
		explore.ConfigFile: "roles: []\nargs: [--size, \"3\"]\n" +
			"inputs: [create: {apiVersion: v1, kind: ConfigMap, metadata: {name: web}}]\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	ownCache(t)
	return dir
}

// runExplore runs the command.
func runExplore(t *testing.T, args ...string) (out, errOut string, err error) {
	t.Helper()
	var o, e bytes.Buffer
	c := Command()
	c.SetArgs(append([]string{"--generate=false"}, args...))
	c.SetOut(&o)
	c.SetErr(&e)
	c.SilenceUsage, c.SilenceErrors = true, true
	err = c.ExecuteContext(t.Context())
	return o.String(), e.String(), err
}

// A program that compiles without the agent only, or that does not run in virtual time, is not run
// as a process instead. The error has the cause and names --process, unless the project itself does
// not compile.
func TestNotInVirtualTime(t *testing.T) {
	require.Long(t, "compiles programs")
	for name, test := range map[string]struct{ main, want, next string }{
		"only without the agent": {"func main() {}\n\nfunc kelsonOriginal_main() {}\n", "kelsonOriginal_main redeclared", inRealTime},
		"does not compile":       {"func main() { missing() }\n", "cmd/main.go:3:15: undefined: missing", ""},
		"ends": {"import (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc main() { fmt.Println(os.Args[1:]); os.Exit(3) }\n",
			"[--size 3 --last]", ""},
		"waits for a channel of another time": {"var never = make(chan int)\n\nfunc main() { <-never }\n",
			"virtual time can't pass", inRealTime},
	} {
		out, _, err := runExplore(t, operator(t, test.main), "--output=json", "--", "--last")
		var result Result
		if json.Unmarshal([]byte(out), &result) != nil || err == nil || result.Error != err.Error() || !strings.Contains(err.Error(), test.want) ||
			strings.Contains(err.Error(), inRealTime) != (test.next != "") {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// explore.yaml describes services, other operators and the former version. Plans with faults of
// these run by the command, and the operator whose bug they show is named.
func TestServicesAndOthers(t *testing.T) {
	require.Long(t, "compiles programs")
	source, err := os.ReadFile("../../../../lab/explore/testdata/program/main.go")
	require.NoError(t, err)
	_, main, _ := strings.Cut(string(source), "\npackage main\n")
	dir, issuer := operator(t, main), operator(t, main)
	config := `roles: []
former: ` + issuer + `
operators: [{name: issuer, folder: ` + issuer + `, env: {SUFFIX: -issued}}]
env: {CORRECT: "yes", ZONES: https://dns.example.com/v1}
services:
- address: https://dns.example.com
  answers: [{method: POST, path: /v1/zones, status: 201}]
inputs: [create: {apiVersion: v1, kind: ConfigMap, metadata: {name: web, labels: {web: "yes"}}}]
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, explore.ConfigFile), []byte(config), 0o600))
	for plan, want := range map[string]string{
		"lose-response POST https://dns.example.com /v1/zones #1": "POST https://dns.example.com/v1/zones is called twice",
		"kill-after create secrets default/web-issued-key #1":     "secrets default/web-issued-cert: is missing",
		"beside after operator former #1":                         "",
	} {
		out, errOut, err := runExplore(t, dir, "--output=json", "--plan", plan)
		var result Result
		if failed := json.Unmarshal([]byte(out), &result); failed != nil || result.Error != "" ||
			(err != nil) != (want != "") {
			t.Errorf("%s: %v, %v, %s%s", plan, err, failed, out, errOut)
			continue
		}
		if want != "" && (len(result.Alarms) != 1 || !strings.Contains(result.Alarms[0].Detail, want)) {
			t.Errorf("%s: %s, want %q", plan, out, want)
		}
	}
}

// --check needs no operator that compiles. It finds samples that the control plane refuses, and
// warns.
func TestCheckBeforeBuild(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	write("go.mod", "module example.com/shop\n\ngo 1.21\n")
	write("PROJECT", "domain: example.com\nlayout: [go.kubebuilder.io/v4]\nrepo: example.com/shop\nversion: \"3\"\n")
	write("cmd/main.go", "package main\n\nfunc main() { missing() }\n")
	write("config/rbac/role.yaml", "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}}\n")
	check := func(sample string) (string, error) {
		write("config/samples/a.yaml", sample)
		var out, errOut bytes.Buffer
		c := Command()
		c.SetArgs([]string{dir, "--check", "--generate=false"})
		c.SetOut(&out)
		c.SetErr(&errOut)
		c.SilenceUsage, c.SilenceErrors = true, true
		err := c.ExecuteContext(t.Context())
		const unknown = "warning from the API server: unknown field \"spec\"\n"
		if got := errOut.String(); err == nil && got != unknown {
			t.Errorf("warnings %q, want %q once", got, unknown)
		}
		return out.String(), err
	}
	write("config/crd/bases/shops.yaml", `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
metadata: {name: shops.example.com}, spec: {group: example.com, scope: Namespaced, names: {kind: Shop, plural: shops},
versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`)
	const sample = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: tea}}\n---\n" +
		"{apiVersion: example.com/v1, kind: Shop, metadata: {name: a}, spec: {}}\n---\n" +
		"{apiVersion: example.com/v1, kind: Shop, metadata: {name: b}, spec: {}}\n"
	out, err := check(sample)
	for _, want := range []string{"checked: the control plane accepts the manifests\n", "has no ServiceAccount",
		"no manifest creates the namespace tea"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v, %s, want %q", err, out, want)
		}
	}
	if out, err := check(strings.Replace(sample, "name: a", "name: A_", 1)); err == nil ||
		!strings.Contains(err.Error(), `ConfigMap "A_" is invalid`) {
		t.Errorf("%v, %s, want that the sample is invalid", err, out)
	}
}

// A warning that several runs log is printed once.
func TestWarnings(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(&warnings{to: &out})
	for range 2 {
		log.Warn("unknown field", "path", "spec.foo")
		log.Info("not printed")
	}
	log.Error("refused")
	if got, want := out.String(), "unknown field path=spec.foo\nrefused\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// With --process, the program of the same project runs unchanged, as a process.
func TestProcess(t *testing.T) {
	require.Long(t, "compiles a project")
	var out, errOut bytes.Buffer
	c := Command()
	c.SetArgs([]string{"../../../../bench/explore/fleet", "--generate=false", "--process", "--for", "5s", "--output",
		"json", "--", "--leader-elect=false"})
	c.SetOut(&out)
	c.SetErr(&errOut)
	c.SilenceUsage = true
	require.NoErrorf(t, c.ExecuteContext(t.Context()), "\n%s%s", out.String(), errOut.String())
	var r Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Plans == 0 || r.Points == 0 || len(r.Alarms) > 0 {
		t.Errorf("%v, %+v, want plans, points and no alarms\n%s", err, r, out.String())
	}
}

// Flags that contradict each other or have invalid values are errors.
func TestProcessFlags(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--binary", "x", "--process"}, "--binary and --process exclude each other"},
		{[]string{"--steps"}, "--steps needs --plan"},
		{[]string{"--check", "--plan", "no faults"}, "--check and --plan exclude each other"},
		{[]string{"--one-fault", "--plan", "no faults"}, "--one-fault excludes --plan and --check"},
		{[]string{"--until-alarm", "--plan", "no faults"}, "--until-alarm excludes --plan and --check"},
		{[]string{"--parallel", "-1"}, "--parallel -1: want a positive number"},
		{[]string{"--plan", "kill-after"}, "--plan: fault \"kill-after\": want KIND VERB RESOURCE OBJECT #N"},
		{[]string{"a", "b"}, `unexpected argument "b": put arguments of the operator after --`},
		{[]string{"../../../../bench/explore/fleet", "--binary", "no-such-operator"}, "no-such-operator: "},
	} {
		c := Command()
		c.SetArgs(test.args)
		c.SetOut(io.Discard)
		c.SilenceUsage, c.SilenceErrors = true, true
		assert.ErrorContainsf(t, c.ExecuteContext(t.Context()), test.want, "%v", test.args)
	}
}

// If a file of an alarm can't be written, the command ends the exploration and fails with the
// cause.
func TestUnwritableFailure(t *testing.T) {
	p := &printer{out: io.Discard, errOut: io.Discard, failure: filepath.Join(t.TempDir(), "missing", "failure.json")}
	err := p.drive(t.Context(), func(ctx context.Context, send func(explore.Message)) {
		send(explore.Message{Kind: "alarm", Plan: "order 1", Failure: &explored.Failure{}})
		<-ctx.Done()
		send(explore.Message{Kind: "done"})
	})
	if err == nil || !strings.HasPrefix(err.Error(), "write the failure: open ") {
		t.Errorf("%v, want the cause", err)
	}
}
