package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	historycommand "kelson.dev/cmd/kelson/internal/history"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/history"
)

// recordHistory writes a history of a ConfigMap that a person creates and a reconcile changes, and
// the trace of that reconcile.
func recordHistory(t *testing.T) (file, trace string) {
	t.Helper()
	file, trace = filepath.Join(t.TempDir(), "h"), filepath.Join(t.TempDir(), "trace")
	f, err := os.Create(file)
	require.NoError(t, err)
	defer f.Close()
	w, err := history.NewWriter(f)
	if err == nil {
		err = w.Resource(history.Resource{Version: "v1", Resource: "configmaps", Kind: "ConfigMap",
			Singular: "configmap", ShortNames: []string{"cm"}, Namespaced: true})
	}
	const kubectl = `{"manager":"kubectl-create","operation":"Update","time":"2020-01-02T15:04:05Z","fieldsV1":{"f:data":{".":{},"f:a":{}}}}`
	key := history.Key{Resource: "configmaps", Namespace: "default", Name: "c"}
	for i, data := range []string{
		`{"kind":"ConfigMap","metadata":{"name":"c","managedFields":[` + kubectl + `]},"data":{"a":"1"}}`,
		`{"kind":"ConfigMap","metadata":{"name":"c","managedFields":[` + kubectl +
			`,{"manager":"op","operation":"Apply","subresource":"scale","time":"2020-01-02T15:04:06Z","fieldsV1":{"f:data":{"f:b":{}}}}]},"data":{"a":"1","b":"2"}}`,
	} {
		if err == nil {
			err = w.Put(key, uint64(7+i), time.Date(2020, 1, 2, 15, 4, 5+i, 7, time.UTC), []byte(data))
		}
	}
	if err == nil {
		err = w.Delete(key, 9, time.Date(2020, 1, 2, 15, 5, 0, 0, time.UTC))
	}
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = os.WriteFile(trace, []byte(`{"id":1,"run":"a","time":"2020-01-02T15:04:06Z","controller":"deploy","kind":"Deploy","namespace":"default","name":"d",`+
			`"causes":[{"event":"add","kind":"Deploy","namespace":"default","name":"d","manager":"kubectl-edit"}],`+
			`"writes":[{"verb":"apply","kind":"ConfigMap","namespace":"default","name":"c","resourceVersion":"8","changed":true}],"duration":"1ms"}`+"\n"), 0o600)
	}
	require.NoError(t, err)
	return file, trace
}

func TestHistoryBlame(t *testing.T) {
	file, trace := recordHistory(t)
	const first = `configmaps/default/c

7  2020-01-02T15:04:05Z  or earlier
  .data.a: "1"  kubectl-create (Update)
  .kind: "ConfigMap"
  .metadata.name: "c"
`
	for _, tt := range []struct {
		args      string
		want, err string
	}{
		{args: "cm/c --at 7", want: first},
		{args: "cm/c --at 2020-01-02T15:04:59Z --trace " + trace, want: first + `
8  2020-01-02T15:04:06Z
  applied by controller deploy (reconcile 1 of Deploy default/d, 1ms)
    because Deploy default/d was created by kubectl-edit
  .data.b: "2"  op (Apply of scale)
`},
		{args: "cm/c . --at 7", want: first},
		{args: "cm/c --at 2020-01-02T15:04:05Z", want: first}, // of versions within the second
		{args: "cm/c data.b --at 8", want: "configmaps/default/c\n\n8  2020-01-02T15:04:06Z\n  .data.b: \"2\"  op (Apply of scale)\n"},
		{args: "cm/c .data.b --at 8 -o json --trace " + trace, want: `"because": [`},
		{args: "cm/c data.b --at 8 --cluster other --trace " + trace,
			want: "configmaps/default/c\n\n8  2020-01-02T15:04:06Z\n  .data.b: \"2\"  op (Apply of scale)\n"},
		{args: "cm/c", err: "cm/c does not exist at that moment"},
		{args: "cm/other", err: `no object "cm/other"`},
		{args: "cm/c -n other", err: `no object "cm/c" in namespace "other"`},
		{args: "cm/c .dat --at 8", err: "cm/c has no field .dat"},
		{args: "cm/c --at yesterday", err: "--at: invalid moment"},
		{args: "cm/c --at 8 --cluster other", err: "--cluster has no effect without --trace"},
		{args: "cm/c --at 8 --token secret --trace " + trace, err: "--token has no effect"},
	} {
		c := historycommand.Command()
		var out strings.Builder
		c.SetOut(&out)
		c.SetErr(&out)
		c.SilenceUsage, c.SilenceErrors = true, true
		c.SetArgs(append(append([]string{"blame"}, strings.Fields(tt.args)...), "--file", file))
		err := c.ExecuteContext(t.Context())
		switch {
		case tt.err != "":
			assert.ErrorContainsf(t, err, tt.err, "%s", tt.args)
		case err != nil || out.String() != tt.want &&
			!(strings.Contains(tt.args, "json") && strings.Contains(out.String(), tt.want)):
			t.Errorf("%s: %v\n%s\nwant\n%s", tt.args, err, out.String(), tt.want)
		}
	}
}

// Kinds without namespaces, and what does not count as a difference.
func TestHistoryAndDiffOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "h")
	f, err := os.Create(file)
	require.NoError(t, err)
	defer f.Close()
	w, err := history.NewWriter(f)
	if err == nil {
		err = w.Resource(history.Resource{Version: "v1", Resource: "nodes", Kind: "Node"})
	}
	for i, cordoned := range []string{"false", "true", "false"} {
		if err == nil {
			err = w.Put(history.Key{Resource: "nodes", Name: "n"}, uint64(7+i), time.Unix(int64(i), 0),
				[]byte(`{"kind":"Node","metadata":{"resourceVersion":"`+cordoned+`"},"spec":{"unschedulable":`+cordoned+
					`}}`))
		}
	}
	if err == nil {
		err = w.Flush()
	}
	require.NoError(t, err)
	for _, tt := range []struct {
		c    *cobra.Command
		args []string
		want string
	}{
		{historycommand.Command(), []string{"node/n", "-n", "default"}, ".spec.unschedulable: true → false"},
		{historycommand.DiffCommand(), []string{"node/n", "-n", "default", "--from", "7", "--to", "8"},
			"nodes/n: changed"},
		{historycommand.DiffCommand(), []string{"--from", "7", "--to", "9"}, ""},
	} {
		var out strings.Builder
		tt.c.SetOut(&out)
		tt.c.SetArgs(append(tt.args, "--file", file))
		if err := tt.c.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), tt.want) ||
			tt.want == "" && out.String() != "" {
			t.Errorf("%v: %v\n%s\nwant %s", tt.args, err, out.String(), tt.want)
		}
	}
}

// kelson diff --since shows the newest changes first, with their writers, and what has failed
// since. The history has the writer of each version.
func TestDiffSince(t *testing.T) {
	file := filepath.Join(t.TempDir(), "h")
	f, err := os.Create(file)
	require.NoError(t, err)
	defer f.Close()
	w, err := history.NewWriter(f)
	if err == nil {
		err = w.Resource(history.Resource{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment",
			Namespaced: true})
	}
	now := time.Now()
	stamp := func(ago time.Duration) string { return now.Add(-ago).UTC().Format(time.RFC3339) }
	put := func(name string, revision uint64, ago time.Duration, replicas int, available, managed string) {
		if err == nil {
			err = w.Put(history.Key{Resource: "deployments.apps", Namespace: "shop", Name: name}, revision,
				now.Add(-ago), fmt.Appendf(nil,
					`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":%q,"managedFields":[%s]},"spec":{"replicas":%d},`+
						`"status":{"conditions":[{"type":"Available","status":%q,"reason":"Minimum","lastTransitionTime":%q}]}}`, name, managed, replicas, available, stamp(ago)))
		}
	}
	create := func(ago time.Duration) string {
		return fmt.Sprintf(`{"manager":"kubectl-create","operation":"Update","time":%q,"fieldsV1":{"f:spec":{}}}`,
			stamp(ago))
	}
	put("old", 5, 5*time.Hour, 1, "True", create(5*time.Hour))
	put("web", 6, 3*time.Hour, 3, "True", create(3*time.Hour))
	put("web", 7, 30*time.Minute, 0, "False", create(3*time.Hour)+
		fmt.Sprintf(`,{"manager":"scaler","operation":"Update","subresource":"scale","time":%q,"fieldsV1":{}}`,
			stamp(30*time.Minute)))
	put("api", 8, 10*time.Minute, 1, "True", create(10*time.Minute))
	if err == nil {
		err = w.Flush()
	}
	require.NoError(t, err)
	run := func(c *cobra.Command, args ...string) string {
		t.Helper()
		var out strings.Builder
		c.SetOut(&out)
		c.SetErr(&out)
		c.SilenceUsage, c.SilenceErrors = true, true
		c.SetArgs(append(args, "--file", file))
		if err := c.ExecuteContext(t.Context()); err != nil {
			return "error: " + err.Error()
		}
		return out.String()
	}
	want := fmt.Sprintf(`deployments.apps/shop/api: created %s  by kubectl-create (Update)
deployments.apps/shop/web: changed %s  by scaler (Update of scale)
    .spec.replicas: 3 → 0
    .status.conditions[Available].lastTransitionTime: %q → %q
    .status.conditions[Available].status: "True" → "False"

has failed since:
  Deployment shop/web: Available is False: Minimum  since %s
`, stamp(10*time.Minute), stamp(30*time.Minute), stamp(3*time.Hour), stamp(30*time.Minute), stamp(30*time.Minute))
	assert.Equal(t, run(historycommand.DiffCommand(), "--since", "2h"), want)
	for _, tt := range []struct {
		args string
		want string
	}{
		{"--since 1m", "nothing changed in the last 1m0s; the last version is of " + stamp(10*time.Minute)},
		{"--since 2h deployments/api", "api: created"},
		{"--since 2h -n other", "nothing changed"},
		{"--since 2h -o json", `"failed": [`},
		{"--since -2h", "error: --since -2h0m0s: must be a positive duration"},
		{"--since 2h --from 7", "error: if any flags in the group [from since] are set none of the others can be"},
		{"", "error: at least one of the flags in the group [from since] is required"},
	} {
		got := run(historycommand.DiffCommand(), strings.Fields(tt.args)...)
		assert.Containsf(t, got, tt.want, "%s", tt.args)
	}
	if got, want := run(historycommand.Command(), "deployment/web"),
		stamp(30*time.Minute)+"  by scaler (Update of scale)\n"; !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant %s", got, want)
	}
}
