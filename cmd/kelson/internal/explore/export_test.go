package explore

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/explored"
)

// --export writes each alarm as a Go test, once, and says where it is.
func TestExport(t *testing.T) {
	project := t.TempDir()
	var out bytes.Buffer
	p := &printer{out: &out, errOut: &out, command: "kelson explore",
		tests: &exporter{project: project, folder: testFolder}}
	alarms := []explore.Message{
		{Kind: "alarm", Text: "…\n", Plan: "kill-after create secrets default/web-key #1",
			Finding: "another end state (O1)\n  secrets default/web-cert: is missing",
			Failure: &explored.Failure{Plan: "kill-after create secrets default/web-key #1",
				Curve: []explored.Point{{Step: 3, Failures: 1, Runs: 4}}}},
		{Kind: "alarm", Text: "…\n", Plan: "kill-after create secrets default/web-* #1; order 7",
			Finding: "never quiet (O4)\n  for `1h`"},
		{Kind: "done", Text: "explored", Alarms: 2},
	}
	for range 2 {
		for _, m := range alarms {
			require.NoError(t, p.take(m))
		}
		require.Equalf(t, p.last.Alarms, 2, "%+v", p.last)
	}
	for _, want := range []string{
		"replay: kelson explore --plan 'kill-after create secrets default/web-key #1'\n" +
			"test: TestKillAfterCreateSecretsDefaultWebKey1 in test/explore/kill_after_create_secrets_default_web_key_1_test.go\n",
		"test: test/explore/kill_after_create_secrets_default_web_key_1_test.go exists\n",
	} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("not once in the output: %q\n%s", want, out.String())
		}
	}
	failure, err := os.ReadFile(filepath.Join(project, testFolder, "kill_after_create_secrets_default_web_key_1.json"))
	if err != nil || !strings.Contains(string(failure), `"failures": 1,`) {
		t.Errorf("the file of the failure is %s, %v", failure, err)
	}
	files, err := filepath.Glob(filepath.Join(project, testFolder, "*_test.go"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v: want a file per alarm", files, err)
	}
	for i, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.ParseComments)
		require.NoError(t, err)
		test := parsed.Decls[1].(*ast.FuncDecl)
		for _, want := range []string{alarms[1-i].Plan, alarms[1-i].Finding} {
			if !strings.Contains(strings.ReplaceAll(test.Doc.Text(), "\t", ""), want) {
				t.Errorf("%s: the comment lacks %q\n%s", file, want, test.Doc.Text())
			}
		}
		if !strings.Contains(string(source), `const project = "../.."`) {
			t.Errorf("%s: does not explore the project\n%s", file, source)
		}
	}
}

// Alarms whose plans differ only in a value are different tests. Absolute folders are not below the
// project. Printed commands quote plans for a shell.
func TestExportValues(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "tests")
	var out bytes.Buffer
	p := &printer{out: &out, errOut: &out, command: "kelson explore",
		tests: &exporter{project: t.TempDir(), folder: folder}}
	for _, value := range []string{"1", "-1", `"it's"`} {
		m := explore.Message{Kind: "alarm", Plan: "flicker after shops.example.com default/a #1 spec.count=" + value,
			Finding: "another end state (O1)"}
		require.NoError(t, p.take(m))
	}
	if files, err := filepath.Glob(filepath.Join(folder, "*_test.go")); err != nil || len(files) != 3 {
		t.Errorf("%v, %v: want a file per alarm", files, err)
	}
	if want := `--plan 'flicker after shops.example.com default/a #1 spec.count="it'\''s"'`; !strings.Contains(out.String(), want) {
		t.Errorf("no %s in\n%s", want, out.String())
	}
}
