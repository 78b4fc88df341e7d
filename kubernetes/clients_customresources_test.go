package kubernetes_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// plane is a control plane in this process, with kubectl linked in.
type clientsPlane struct {
	t    *testing.T
	rest *rest.Config
}

func startServer(t *testing.T) *clientsPlane {
	t.Helper()
	return startClients(t, controlplane.Config{})
}

func startClients(t *testing.T, cfg controlplane.Config) *clientsPlane {
	t.Helper()
	own := startPlane(t, cfg)
	return &clientsPlane{t, own.RESTConfig()}
}

// kubectl runs the real kubectl in this process against the plane.
func (p *clientsPlane) kubectl(stdin string, args ...string) (string, error) {
	p.t.Helper()
	home := p.t.TempDir()
	config := filepath.Join(home, "config")
	err := os.WriteFile(config, []byte("apiVersion: v1\nkind: Config\nclusters: [{name: p, cluster: {server: '"+
		p.rest.Host+"'}}]\n"+
		"contexts: [{name: p, context: {cluster: p}}]\ncurrent-context: p\n"), 0o600)
	require.NoError(p.t, err)
	// kubectl reads "-" from the process's standard input
	input := filepath.Join(home, "input.json")
	require.NoError(p.t, os.WriteFile(input, []byte(stdin), 0o600))
	for i, arg := range args {
		if arg == "-" {
			args[i] = input
		}
	}
	flags := genericclioptions.NewConfigFlags(true).WithWrapConfigFn(func(c *rest.Config) *rest.Config {
		c.Transport = p.rest.Transport
		c.QPS = -1
		return c
	})
	var out, errs bytes.Buffer
	var fatal error
	cmdutil.BehaviorOnFatal(func(message string, code int) {
		fatal = fmt.Errorf("exit %d: %s", code, message)
		panic(fatal)
	})
	defer cmdutil.DefaultBehaviorOnFatal()
	func() {
		defer func() {
			if r := recover(); r != nil && fatal == nil {
				panic(r)
			}
		}()
		all := append([]string{"kubectl", "--kubeconfig", config, "--cache-dir", home}, args...)
		c := cmd.NewKubectlCommand(cmd.KubectlOptions{
			Arguments: all, ConfigFlags: flags,
			IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs},
		})
		c.SetArgs(all[1:])
		c.SetOut(&out)
		c.SetErr(&errs)
		if err := c.Execute(); err != nil && fatal == nil {
			fatal = err
		}
	}()
	return out.String() + errs.String(), fatal
}

// kubectl discovers, explains, applies, validates, lists, scales, patches, describes and deletes
// custom resources.
func TestKubectlOfCustomResources(t *testing.T) {
	require.Long(t, "more than a second")
	p := startServer(t)
	definition, err := os.ReadFile(filepath.Join("testdata", "widgets.json"))
	require.NoError(t, err)
	for _, step := range []struct {
		stdin string
		args  string
		want  string // in the output
		fails string // in the error
	}{
		{stdin: string(definition), args: "apply --server-side -f -",
			want: "customresourcedefinition.apiextensions.k8s.io/widgets.example.com serverside-applied"},
		{args: "get crd", want: "widgets.example.com"},
		{args: "wait --for=condition=Established crd/widgets.example.com", want: "condition met"},
		{args: "api-resources", want: "widgets                             wd           example.com/v1                    true         Widget"},
		{args: "api-versions", want: "example.com/v1"},
		{args: "explain widget.spec", want: "What the widget should be."},
		{args: "explain wd.spec.ports --recursive", want: "port\t<integer> -required-"},
		{args: "explain crd.spec.group", want: "group is the API group of the defined custom resource"},
		{stdin: widget("a", `{"color":"green","foo":1}`), args: "apply --validate=strict -f -",
			fails: `unknown field "spec.foo"`},
		{stdin: widget("a", `{"color":"green","foo":1}`), args: "apply -f -", fails: `unknown field "spec.foo"`},
		{stdin: widget("a", `{"color":"green","foo":1}`), args: "apply --validate=warn -f -",
			want: `unknown field "spec.foo"`},
		{stdin: widget("a", `{"color":"green","replicas":2}`), args: "apply -f -",
			want: "widget.example.com/a configured"},
		{stdin: widget("a", `{"color":"green","replicas":2}`), args: "apply -f -",
			want: "widget.example.com/a unchanged"},
		{stdin: widget("a", `{"color":"pink"}`), args: "apply -f -", fails: `Unsupported value: "pink"`},
		{args: "get wd", want: "NAME   COLOR   REPLICAS\na      green   2"},
		{args: "get all", want: "widget.example.com/a   green   2"},
		{args: "scale wd/a --replicas=5", want: "widget.example.com/a scaled"},
		{args: "get widgets.v1.example.com a -o jsonpath={.spec.replicas}", want: "5"},
		{args: "label wd a x=y", want: "labeled"},
		{args: "patch wd a --type=merge --subresource=status -p {\"status\":{\"phase\":\"Up\"}}", want: "patched"},
		{args: "wait --for=jsonpath={.status.phase}=Up wd/a", want: "condition met"},
		{stdin: widget("a", `{"color":"green","replicas":3}`), args: "diff -f -", want: "", fails: "exit 1"},
		{args: "describe wd a", want: "Kind:         Widget"},
		{stdin: widget("b", `{"color":"green","replicas":3,"ports":[{"port":1}]}`), args: "apply --server-side -f -",
			want: "widget.example.com/b serverside-applied"},
		{stdin: widget("b", `{"ports":[{"port":2}]}`), args: "apply --server-side --field-manager=other -f -",
			want: "widget.example.com/b serverside-applied"},
		{args: "get wd b -o jsonpath={.spec.ports[*].port}", want: "1 2"},
		{stdin: widget("b", `{"replicas":4}`), args: "apply --server-side --field-manager=third -f -",
			fails: `conflict with "kubectl": .spec.replicas`},
		{stdin: widget("b", `{"nope":4}`), args: "apply --server-side -f -",
			fails: ".spec.nope: field not declared in schema"},
		{args: "delete wd a", want: "deleted"},
	} {
		out, err := p.kubectl(step.stdin, strings.Fields(step.args)...)
		switch {
		case step.fails == "" && err != nil:
			t.Errorf("kubectl %s: %v\n%s", step.args, err, out)
		case step.fails != "" && (err == nil || !strings.Contains(err.Error(), step.fails)):
			t.Errorf("kubectl %s: error %v, want %q\n%s", step.args, err, step.fails, out)
		case !strings.Contains(out, step.want):
			t.Errorf("kubectl %s: missing %q in\n%s", step.args, step.want, out)
		}
	}
}

func widget(name, spec string) string {
	return `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}
