package main

import (
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	consolecommand "kelson.dev/cmd/kelson/internal/console"
	"kelson.dev/console"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// No connection without encryption leaves the machine.
func TestConsoleListens(t *testing.T) {
	for _, tt := range []struct {
		opts consolecommand.Options
		err  string
	}{
		{consolecommand.Options{Listen: "127.0.0.1:0"}, ""},
		{consolecommand.Options{Listen: "localhost:0"}, ""},
		{consolecommand.Options{Listen: "0.0.0.0:0"}, "would not be encrypted"},
		{consolecommand.Options{Listen: ":0"}, "would not be encrypted"},
		{consolecommand.Options{Listen: "127.0.0.1:70000"}, "invalid port"},
	} {
		c, err := tt.opts.New(console.Config{Cluster: &rest.Config{Host: "http://127.0.0.1:1"}})
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%+v: %v", tt.opts, err)
		}
		if err == nil && !strings.HasPrefix(c.URL(), "http://127.0.0.1:") {
			t.Errorf("%s", c.URL())
		}
	}
}

func TestConsoleFlags(t *testing.T) {
	for _, tt := range []struct{ args, err string }{
		{"--token x --trace file", "--token has no effect"},
		{"--insecure-skip-tls-verify", "--insecure-skip-tls-verify has no effect"},
		{"--tls-cert-file x", "must all be set"},
		{"--listen 0.0.0.0:0 --tls-cert-file absent --tls-private-key-file absent", "no such file"},
		{"--history x --data-dir y", "none of the others can be"},
		{"--data-dir .", ". has no history"},
	} {
		c := consolecommand.Command()
		c.SilenceUsage, c.SilenceErrors = true, true
		kubeconfig := t.TempDir() + "/kubeconfig"
		writeKubeconfig(t, kubeconfig)
		c.SetArgs(append(strings.Fields(tt.args), "--kubeconfig", kubeconfig))
		err := c.ExecuteContext(t.Context())
		assert.ErrorContainsf(t, err, tt.err, "%s", tt.args)
	}
}

func writeKubeconfig(t *testing.T, name string) {
	t.Helper()
	const config = `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"http://127.0.0.1:1"}}],"contexts":[{"name":"a","context":{"cluster":"a"}}],"current-context":"a"}`
	require.NoError(t, os.WriteFile(name, []byte(config), 0o600))
}
