package explore_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
)

// A project's operator gets the variables of its Deployment: here CORRECT, without which it has a
// bug, and the namespace of its Pod. The environment of the explorer has precedence over these, and
// explore.yaml over both. It also has arguments, before those of the command.
func TestManagerVariables(t *testing.T) {
	require.Long(t, "compiles a program")
	dir := t.TempDir()
	for name, content := range map[string]string{
		"config/samples/web.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: web, labels: {web: x}}}",
		"config/manager/manager.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: system}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers:
      - {name: proxy, env: [{name: CORRECT, value: ""}]}
      - name: manager
        env:
        - {name: CORRECT, value: "yes"}
        - {name: OUTSIDE, value: "no"}
        - {name: LEVEL, value: "1"}
        - {name: WATCH_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
        - {name: TOKEN, valueFrom: {secretKeyRef: {name: a, key: b}}}
`,
		explore.ConfigFile: `args: [--level, "2"]
env: {LEVEL: "2", ARGUMENTS: --level 2 --last}
`,
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o644))
	}
	t.Setenv("OUTSIDE", "yes")
	t.Setenv("VARIABLES", "OUTSIDE=yes,WATCH_NAMESPACE=default,LEVEL=2")
	s, err := explore.Project(dir, nil)
	require.NoError(t, err)
	s.Program = &explore.Binary{Path: builtProgram(t, callingNone), Args: []string{"--last"}}
	report, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true, Kinds: []explore.Kind{
		explore.KillAfter}})
	if err != nil || len(report.Alarms) > 0 || report.Plans == 0 {
		t.Errorf("%v, %v, want no alarm", report.Alarms, err)
	}
}
