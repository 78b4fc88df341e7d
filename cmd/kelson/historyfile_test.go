package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	historycommand "kelson.dev/cmd/kelson/internal/history"
	"kelson.dev/lab/history"
)

// recordHistory writes a history of a ConfigMap that a person creates and a reconcile changes, and
// the trace of that reconcile.
func recordHistory(t *testing.T) (file, trace string) {
	t.Helper()
	file, trace = filepath.Join(t.TempDir(), "h"), filepath.Join(t.TempDir(), "trace")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := history.NewWriter(f)
	if err == nil {
		err = w.Resource(history.Resource{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Singular: "configmap", ShortNames: []string{"cm"}, Namespaced: true})
	}
	const kubectl = `{"manager":"kubectl-create","operation":"Update","time":"2020-01-02T15:04:05Z","fieldsV1":{"f:data":{".":{},"f:a":{}}}}`
	key := history.Key{Resource: "configmaps", Namespace: "default", Name: "c"}
	for i, data := range []string{
		`{"kind":"ConfigMap","metadata":{"name":"c","managedFields":[` + kubectl + `]},"data":{"a":"1"}}`,
		`{"kind":"ConfigMap","metadata":{"name":"c","managedFields":[` + kubectl + `,{"manager":"op","operation":"Apply","subresource":"scale","time":"2020-01-02T15:04:06Z","fieldsV1":{"f:data":{"f:b":{}}}}]},"data":{"a":"1","b":"2"}}`,
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
	if err != nil {
		t.Fatal(err)
	}
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
		{args: "cm/c data.b --at 8 --cluster other --trace " + trace, want: "configmaps/default/c\n\n8  2020-01-02T15:04:06Z\n  .data.b: \"2\"  op (Apply of scale)\n"},
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
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v, want %s", tt.args, err, tt.err)
			}
		case err != nil || out.String() != tt.want && !(strings.Contains(tt.args, "json") && strings.Contains(out.String(), tt.want)):
			t.Errorf("%s: %v\n%s\nwant\n%s", tt.args, err, out.String(), tt.want)
		}
	}
}

// Kinds without namespaces, and what does not count as a difference.
func TestHistoryAndDiffOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "h")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := history.NewWriter(f)
	if err == nil {
		err = w.Resource(history.Resource{Version: "v1", Resource: "nodes", Kind: "Node"})
	}
	for i, cordoned := range []string{"false", "true", "false"} {
		if err == nil {
			err = w.Put(history.Key{Resource: "nodes", Name: "n"}, uint64(7+i), time.Unix(int64(i), 0), []byte(`{"kind":"Node","metadata":{"resourceVersion":"`+cordoned+`"},"spec":{"unschedulable":`+cordoned+`}}`))
		}
	}
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		c    *cobra.Command
		args []string
		want string
	}{
		{historycommand.Command(), []string{"node/n", "-n", "default"}, ".spec.unschedulable: true → false"},
		{historycommand.DiffCommand(), []string{"node/n", "-n", "default", "--from", "7", "--to", "8"}, "nodes/n: changed"},
		{historycommand.DiffCommand(), []string{"--from", "7", "--to", "9"}, ""},
	} {
		var out strings.Builder
		tt.c.SetOut(&out)
		tt.c.SetArgs(append(tt.args, "--file", file))
		if err := tt.c.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), tt.want) || tt.want == "" && out.String() != "" {
			t.Errorf("%v: %v\n%s\nwant %s", tt.args, err, out.String(), tt.want)
		}
	}
}
