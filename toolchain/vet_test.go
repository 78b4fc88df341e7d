package toolchain_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/operatortest"
	"kelson.dev/toolchain/vet"
)

const vetProject = "vet/testdata/project/config"

func check(t *testing.T, ms vet.Manifests) *vet.Report {
	t.Helper()
	report, err := vet.Check(t.Context(), operatortest.New(t).RESTConfig(), ms)
	require.NoError(t, err)
	return report
}

func read(t *testing.T, paths ...string) vet.Manifests {
	t.Helper()
	ms, err := vet.Read(paths...)
	require.NoError(t, err)
	return ms
}

func parse(t *testing.T, content string) vet.Manifests {
	t.Helper()
	ms, err := vet.Parse("test.yaml", []byte(content))
	require.NoError(t, err)
	return ms
}

// lines returns the findings as printed, without the folder.
func lines(findings []vet.Finding) []string {
	var all []string
	for _, f := range findings {
		all = append(all, strings.TrimPrefix(f.String(), vetProject+"/"))
	}
	return all
}

func want(t *testing.T, got []string, parts ...string) {
	t.Helper()
	for i, part := range parts {
		if i >= len(got) || !strings.Contains(got[i], part) {
			t.Fatalf("finding %d should have %q:\n%s", i, part, strings.Join(got, "\n"))
		}
	}
	if len(got) > len(parts) {
		t.Errorf("more than expected:\n%s", strings.Join(got[len(parts):], "\n"))
	}
}

// Each finding names the file, the line, the object and the field.
func TestCheckReportsLines(t *testing.T) {
	report := check(t, read(t, vetProject))
	at := "crd/crontabs.yaml:43: CustomResourceDefinition crontabs.stable.example.com: spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[hosts].x-kubernetes-validations[0].rule: "
	want(t, lines(report.Findings),
		"crd/crontabs.yaml:22: CustomResourceDefinition crontabs.stable.example.com: spec.versions[0].schema.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total",
		at+"Forbidden: estimated rule cost exceeds budget",
		at+"Forbidden: contributed to estimated rule cost total",
		"crd/crontabs.yaml:43: warning: CustomResourceDefinition crontabs.stable.example.com: spec.hosts: the rule `self.all(h, self.exists_one(o, o == h))` may cost more than 1000 times the limit of one rule; bounds that would reduce it: maxItems of spec.hosts, maxLength of spec.hosts[]",
		"samples/good.yaml:7: warning: CronTab cron/good: apiVersion: not checked: vet/testdata/project/config/crd/crontabs.yaml:1, which may define its kind, was rejected",
		"samples/wrong.yaml:1: warning: CronTab misspelt: apiVersion: not checked",
		"samples/wrong.yaml:9: warning: CronTab too-many: apiVersion: not checked",
		"samples/wrong.yaml:26: Deployment front: spec.template.metadata.labels: Invalid value: {\"app\":\"back\"}: `selector` does not match template `labels`",
		"samples/wrong.yaml:32: Deployment front: spec.template.spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
		`samples/wrong.yaml:35: Deploiment typo: kind: no matches for kind "Deploiment" in version "apps/v1"`,
		"samples/wrong.yaml:39: warning: ServiceMonitor elsewhere: apiVersion: not checked: no definition for kinds of monitoring.coreos.com",
	)
}

// Custom resources are validated by the definitions among the files: unknown fields, rules and
// patterns.
func TestCheckValidatesCustomResources(t *testing.T) {
	crd, err := os.ReadFile(filepath.Join(vetProject, "crd/crontabs.yaml"))
	require.NoError(t, err)
	bounded := strings.Replace(string(crd), "                items:\n                  type: string",
		"                maxItems: 20\n                items:\n                  type: string\n                  maxLength: 63", 1)
	report := check(t, append(parse(t, bounded), read(t, vetProject+"/samples")...))
	want(t, lines(report.Findings)[:3],
		"samples/wrong.yaml:7: CronTab misspelt: spec.replica: unknown field",
		"samples/wrong.yaml:13: CronTab too-many: spec: Invalid value: no more than ten",
		`samples/wrong.yaml:14: CronTab too-many: spec.schedule: Invalid value: "every day"`,
	)
}

// A field that cannot be decoded or is unknown does not hide the errors of others. A message has
// JSON's types and the index of the element, not Go's types.
func TestCheckReportsAllErrors(t *testing.T) {
	report := check(t, parse(t, `apiVersion: apps/v1
kind: Deployment
metadata:
  name: Bad_Name
spec:
  replicas: 1.5
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: c}}
    spec:
      containers:
      - name: app
        image: x
      - name: 1
        imagee: x
        image: z
---
apiVersion: v1
kind: Service
metadata: {name: s, labels: {a.b/c: [x]}}
spec:
  ports:
  - port: 80
  - port: "abc"
    protocol: XX
`))
	want(t, lines(report.Findings),
		`test.yaml:4: Deployment Bad_Name: metadata.name: Invalid value: "Bad_Name"`,
		"test.yaml:6: Deployment Bad_Name: spec.replicas: must be an integer, not 1.5",
		"test.yaml:9: Deployment Bad_Name: spec.template.metadata.labels: Invalid value",
		"test.yaml:14: Deployment Bad_Name: spec.template.spec.containers[1].name: must be a string, not a number",
		"test.yaml:15: Deployment Bad_Name: spec.template.spec.containers[1].imagee: unknown field",
		"test.yaml:20: Service s: metadata.labels[a.b/c]: must be a string, not a list",
		"test.yaml:23: Service s: spec.ports[0].name: Required value",
		"test.yaml:24: Service s: spec.ports[1].port: must be an integer, not a string",
		"test.yaml:24: Service s: spec.ports[1].name: Required value",
		`test.yaml:25: Service s: spec.ports[1].protocol: Unsupported value: "XX"`,
	)
}

// A document that is not an object is a finding, at its line in the file, and does not hide the
// others.
func TestUnreadableDocuments(t *testing.T) {
	ms, err := vet.Parse("x.yaml", []byte(`apiVersion: v1
kind: ConfigMap
---
apiVersion: v1
kind: ConfigMap
 metadata: x
---
apiVersion: v1
kind: Pod
kind: Secret
kind: ConfigMap
---
apiVersion: v1
kind: Secret
metadata: {name: s}
`))
	findings, err := vet.Unreadable(errors.Join(err, os.ErrNotExist))
	if !errors.Is(err, os.ErrNotExist) || err.Error() != os.ErrNotExist.Error() || len(ms) != 2 {
		t.Errorf("%d objects, %v", len(ms), err)
	}
	want(t, lines(findings), "x.yaml:6: yaml: mapping values are not allowed",
		`x.yaml:10: yaml: mapping key "kind" already defined at line 9`)
}

func TestParseRejectsDocuments(t *testing.T) {
	_, err := vet.Parse("x.yaml", []byte("apiVersion: v1\nkind: ConfigMap\n---\na: 1\n---\nkind: [\n"))
	for _, part := range []string{"x.yaml:3: not an object", "x.yaml:6: yaml"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v: should have %q", err, part)
		}
	}
	var wrong *vet.NotAnObjectError
	if !errors.As(err, &wrong) {
		t.Errorf("%T", err)
	}
	_, err = vet.Parse("x.yaml", []byte("apiVersion: v1\nkind: ConfigMap\nkind: Secret\n"))
	assert.ErrorContainsf(t, err, "already defined", "a definition with the same name twice")
	_, err = vet.Read("vet/testdata/project/nowhere")
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestReadIgnoresPatches(t *testing.T) {
	for _, m := range read(t, vetProject) {
		if strings.Contains(m.File, "default") {
			t.Errorf("%s was read", m.File)
		}
	}
}

// Each rule has an estimated cost. An expensive one lists the bounds that are missing and the lower
// cost with them.
func TestCosts(t *testing.T) {
	rules := vet.Costs(read(t, vetProject+"/crd").Definitions()[0])
	if len(rules) != 2 {
		t.Fatalf("%d rules: %+v", len(rules), rules)
	}
	cheap, expensive := rules[0], rules[1]
	if cheap.Path != "spec" || cheap.Line != 30 || cheap.Cost == 0 || cheap.Cost > 100 || len(cheap.Missing) > 0 {
		t.Errorf("%+v", cheap)
	}
	var missing []string
	for _, b := range expensive.Missing {
		missing = append(missing, b.String())
		if b.Cost >= expensive.Cost {
			t.Errorf("%+v is not cheaper than %d", b, expensive.Cost)
		}
	}
	slices.Sort(missing)
	if expensive.Path != "spec.hosts" || expensive.Cost < vet.RuleLimit ||
		!slices.Equal(missing, []string{"maxItems of spec.hosts", "maxLength of spec.hosts[]"}) {
		t.Errorf("%+v", expensive)
	}
}

// Changes of a definition that reject existing objects or break clients are reported. Compatible
// changes are not.
func TestCompare(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(vetProject, "crd/crontabs.yaml"))
	require.NoError(t, err)
	before := parse(t, string(content)).Definitions()
	if found := vet.Compare(before, before); len(found) > 0 {
		t.Errorf("findings without a change: %v", found)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"field gone", "              replicas:\n                type: integer\n                minimum: 0\n                default: 1\n", "", "v1: spec.replicas: was removed"},
		{"field required", "required: [schedule]", "required: [schedule, hosts]", "v1: spec.hosts: is now required"},
		{"field required, with a default", "required: [schedule]", "required: [schedule, replicas]", ""},
		{"other type", "                type: integer\n", "                type: string\n",
			"v1: spec.replicas: is now string, was integer"},
		{"wider type", "                type: integer\n", "                type: number\n", ""},
		{"bound raised", "minimum: 0", "minimum: 1", "v1: spec.replicas: now has minimum 1, was 0"},
		{"bound lowered", "minimum: 0", "minimum: -1", ""},
		{"bound new", "                items:\n", "                maxItems: 3\n                items:\n",
			"v1: spec.hosts: now has maxItems 3"},
		{"pattern", `pattern: '^(\S+ ){4}\S+$'`, `pattern: '^@daily$'`,
			`v1: spec.schedule: must now match "^@daily$", was`},
		{"pattern gone", `pattern: '^(\S+ ){4}\S+$'`, ``, ""},
		{"enum", `pattern: '^(\S+ ){4}\S+$'`, `enum: [a, b]`, `v1: spec.schedule: must now be one of "a", "b"`},
		{"default", "default: 1", "default: 2",
			"warning: CustomResourceDefinition crontabs.stable.example.com: v1: spec.replicas: now has the default 2, was 1"},
		{"new rule", "message: no more than ten", "message: no more than ten\n            - rule: self.replicas > 0",
			"has a new rule; stored objects were not validated against it: `self.replicas > 0`"},
		{"list", "                items:\n", "                x-kubernetes-list-type: set\n                items:\n",
			"is now a list of type set, was atomic"},
		{"scope", "scope: Namespaced", "scope: Cluster", "spec.scope: was Namespaced"},
		{"short name", "shortNames: [ct]", "shortNames: [cts]", `"ct" was removed`},
		{"not served", "served: true", "served: false", "is no longer served"},
		{"version gone", "- name: v1", "- name: v2", "v1, the storage version, was removed"},
		{"status", "    subresources:\n      status: {}\n", "", "the subresource status was removed"},
		{"new field", "              active: {type: integer}",
			"              active: {type: integer}\n              last: {type: string}", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := strings.Replace(string(content), c.old, c.new, 1)
			if changed == string(content) {
				t.Fatal("nothing was changed")
			}
			var got []string
			for _, f := range vet.Compare(before, parse(t, changed).Definitions()) {
				got = append(got, f.String())
			}
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("%v", got)
			case c.want != "" && !strings.Contains(strings.Join(got, "\n"), c.want):
				t.Errorf("should have %q: %v", c.want, got)
			}
		})
	}
	if found := vet.Compare(before, nil); len(found) != 1 || found[0].Severity != vet.Error {
		t.Errorf("a definition was removed: %v", found)
	}
}

// AtRevision reads the definitions of a git revision. A missing repository or revision, and an
// option in place of a revision, are errors.
func TestAtRevision(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	_, err := vet.AtRevision(t.Context(), dir, "HEAD", "config")
	assert.ErrorContainsf(t, err, "not a git repository", "outside of a repository")
	git("init", "-q")
	require.NoError(t, os.CopyFS(filepath.Join(dir, "sub"), os.DirFS("vet/testdata/project")))
	git("add", ".")
	git("commit", "-q", "-m", "one")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "sub", "config", "crd")))
	found, err := vet.AtRevision(t.Context(), filepath.Join(dir, "sub"), "HEAD", "config/crd")
	if err != nil || len(found) != 1 || found[0].Name != "crontabs.stable.example.com" {
		t.Errorf("%v, %v", found, err)
	}
	_, err = vet.AtRevision(t.Context(), dir, "v9", "sub")
	assert.ErrorContainsf(t, err, `no revision "v9"`, "no such revision")
	if _, err := vet.AtRevision(t.Context(), dir, "--help", "sub"); err == nil {
		t.Error("an option was interpreted as a revision")
	}
}

// A folder may have templates and configuration, but an object with an error is not skipped.
func TestReadFolder(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		return file
	}
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: "
	write("a.yaml", object+"a\n")
	write("template.yaml", object+"{{ .Name }}\n\tx: {{ y }}\n")
	write("settings.yaml", "level: info\n")
	write("Kustomization", "patches:\n- path: patch.yaml\n# [WEBHOOK] enables webhooks\n#- webhook_patch.yaml\n  #- path: cainjection_patch.yaml\n")
	write("patch.yaml", object+"patched\n")
	write("webhook_patch.yaml", object+"patched\n")
	write("cainjection_patch.yaml", object+"patched\n")
	write("two.json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}
{"apiVersion":"v1","kind":"ConfigMapList","items":[{"metadata":{"name":"c"}}]}
`)
	var names []string
	ms := read(t, dir)
	for _, m := range ms {
		names = append(names, m.Title())
	}
	assert.Equal(t, strings.Join(names, ", "), "ConfigMap a, ConfigMap b, ConfigMap c")
	assert.Equalf(t, ms[1].Line("metadata.name"), 1, "the first JSON object is in line")
	assert.Equalf(t, ms[2].Line("metadata.name"), 2, "the second JSON object is in line")

	for name, content := range map[string]string{"tab": object + "x\ndata:\n\tx: y\n",
		"twice": object + "x\n  name: y\n"} {
		file := write(name+".yaml", content)
		_, err := vet.Read(dir)
		assert.ErrorContainsf(t, err, name+".yaml", "%s", name)
		require.NoError(t, os.Remove(file))
	}
}

// A Service may have an address and a port of the cluster's own ranges.
func TestServiceOfAnotherRange(t *testing.T) {
	r := check(t, parse(t, "apiVersion: v1\nkind: Service\nmetadata: {name: dns}\nspec: {type: NodePort, clusterIP: 10.96.0.10, ports: [{port: 53, nodePort: 100}]}\n"))
	if len(r.Findings) > 0 {
		t.Errorf("found %q", lines(r.Findings))
	}
}
