package console

import (
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"kelson.dev/console"
)

// LAB-07: no connection without encryption leaves the machine.
func TestListen(t *testing.T) {
	for _, tt := range []struct {
		opts Options
		err  string
	}{
		{Options{Listen: "127.0.0.1:0"}, ""},
		{Options{Listen: "localhost:0"}, ""},
		{Options{Listen: "0.0.0.0:0"}, "would not be encrypted"},
		{Options{Listen: ":0"}, "would not be encrypted"},
		{Options{Listen: "0.0.0.0:0", certFile: "absent", key: "absent"}, "no such file"},
		{Options{Listen: "127.0.0.1:70000"}, "invalid port"},
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

func TestFlagsWithoutEffect(t *testing.T) {
	for _, tt := range []struct{ args, err string }{
		{"--token x --trace file", "--token has no effect"},
		{"--insecure-skip-tls-verify", "--insecure-skip-tls-verify has no effect"},
		{"--tls-cert-file x", "must all be set"},
		{"--history x --data-dir y", "none of the others can be"},
		{"--data-dir .", ". has no history"},
	} {
		c := Command()
		c.SilenceUsage, c.SilenceErrors = true, true
		kubeconfig := t.TempDir() + "/kubeconfig"
		write(t, kubeconfig)
		c.SetArgs(append(strings.Fields(tt.args), "--kubeconfig", kubeconfig))
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v", tt.args, err)
		}
	}
}

func write(t *testing.T, name string) {
	t.Helper()
	const config = `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"http://127.0.0.1:1"}}],"contexts":[{"name":"a","context":{"cluster":"a"}}],"current-context":"a"}`
	if err := os.WriteFile(name, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
}
