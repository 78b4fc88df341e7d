package operator

import (
	"bytes"
	"context"
	"crypto/tls"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/trace"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "SERVER"}}, {name: b, cluster: {server: "http://b.example"}}]
contexts: [{name: a, context: {cluster: a, user: u}}, {name: b, context: {cluster: b, user: u}}]
users: [{name: u, user: {}}]
current-context: a
`

// command returns a program with its command line.
func command(out io.Writer, getenv func(string) string, args ...string) program {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.SetOutput(out)
	return program{args: append([]string{"test"}, args...), getenv: getenv, flags: set}
}

// Invalid flags and arguments give exit code 2, failures give 1, and help gives 0.
func TestCommandLine(t *testing.T) {
	tests := []struct {
		args string
		code int
		want string // in the output
	}{
		{"-h", 0, "-metrics-bind-address host:port"},
		{"--nonsense", 2, "flag provided but not defined"},
		{"extra", 2, `unexpected argument "extra"`},
		{"--log-format=xml", 2, "want text or json"},
		{"--kubeconfig=/does/not/exist", 1, "no such file"},
		{"--kubeconfig=/does/not/exist --log-format=json", 1, `"msg":"find API server"`},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			var out bytes.Buffer
			code := command(&out, func(string) string { return "" }, strings.Fields(tt.args)...).run(t.Context(), nil)
			if code != tt.code || !strings.Contains(out.String(), tt.want) {
				t.Errorf("%d, %s", code, out.String())
			}
		})
	}
}

// The server comes from the given kubeconfig and context, or from KUBECONFIG.
func TestRestConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(kubeconfig, "SERVER", "http://a.example")),
		0o600))
	for contextName, want := range map[string]string{"": "http://a.example", "b": "http://b.example"} {
		cfg, err := restConfig(path, contextName, os.Getenv)
		if err != nil || cfg.Host != want {
			t.Errorf("context %q: %v, %v", contextName, cfg, err)
		}
	}
	t.Setenv("KUBECONFIG", path)
	if cfg, err := restConfig("", "", os.Getenv); err != nil || cfg.Host != "http://a.example" {
		t.Errorf("by KUBECONFIG: %v, %v", cfg, err)
	}
}

// A program from start to end, with its trace in a file. It sends no request to the API server.
func TestProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(kubeconfig, "SERVER", "http://a.example")),
		0o600))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	account := filepath.Join(t.TempDir(), "account")
	getenv := func(name string) string {
		return map[string]string{trace.Env: "file:" + account}[name]
	}
	work := Background(func(ctx context.Context, deps Deps) error {
		deps.Log.Info("at work")
		cancel()
		return nil
	})
	var out bytes.Buffer
	if code := command(&out, getenv, "--kubeconfig", path).run(ctx, []Part{work, Name("test")}); code != 0 {
		t.Errorf("it exits with %d: %s", code, out.String())
	}
	for _, want := range []string{"starting operator", "server=http://a.example", "at work", "operator stopped"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q: %s", want, out.String())
		}
	}
	_, err := os.Stat(account)
	assert.NoError(t, err)
	out.Reset()
	broken := func(string) string { return "nowhere" }
	if code := command(&out, broken, "--kubeconfig", path).run(ctx, nil); code != 1 ||
		!strings.Contains(out.String(), "want fd:N or file:PATH") {
		t.Errorf("%d, %s", code, out.String())
	}
}

func TestDefaultName(t *testing.T) {
	assert.Equal(t, defaultName(), "operator")
}

// The flags of a kubebuilder project's main have the same meaning.
func TestFlagsOfKubebuilder(t *testing.T) {
	parse := func(env map[string]string, args string) Config {
		t.Helper()
		f := &flags{}
		err := f.parse(flag.NewFlagSet("", flag.ContinueOnError), append([]string{"test"}, strings.Fields(args)...),
			nil)
		require.NoError(t, err)
		cfg, err := f.config(func(name string) string { return env[name] })
		require.NoError(t, err)
		return cfg
	}
	cfg := parse(nil, "--leader-elect --metrics-bind-address=:8443 --health-probe-bind-address=:8081 --webhook-cert-path=/certs --webhook-cert-name=a.crt --webhook-cert-key=a.key --enable-http2=false")
	if cfg.Election == nil || cfg.Election.Duration != 15*time.Second || cfg.SecureMetrics == nil ||
		cfg.MetricsAddress != ":8443" || cfg.HealthAddress != ":8081" {
		t.Errorf("got %+v", cfg)
	}
	if w := cfg.Webhooks; w.CertDir != "/certs" || w.CertName != "a.crt" || w.KeyName != "a.key" ||
		w.Address != ":9443" || w.Local {
		t.Errorf("got %+v", w)
	}
	protocols := &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	if cfg.Webhooks.TLS(protocols); len(protocols.NextProtos) != 1 {
		t.Errorf("HTTP/2 is offered: %v", protocols.NextProtos)
	}
	cfg = parse(map[string]string{"ENABLE_WEBHOOKS": "false"}, "--metrics-bind-address=0 --metrics-secure=false")
	if !cfg.NoWebhooks || cfg.SecureMetrics != nil || cfg.MetricsAddress != "" || cfg.Election != nil {
		t.Errorf("got %+v", cfg)
	}
	if cfg = parse(map[string]string{"KELSON_LOCAL_WEBHOOKS": "true"}, ""); !cfg.Webhooks.Local ||
		cfg.Webhooks.Address != "127.0.0.1:0" || cfg.NoWebhooks {
		t.Errorf("got %+v", cfg.Webhooks)
	}
	f := &flags{}
	require.NoError(t, f.parse(flag.NewFlagSet("", flag.ContinueOnError),
		[]string{"test", "--metrics-bind-address=:1", "--metrics-cert-path=/does/not/exist"}, nil))
	if _, err := f.config(os.Getenv); err == nil {
		t.Error("no error for a missing certificate")
	}
}
