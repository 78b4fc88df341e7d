package flags

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// The table contains only flags that kube-apiserver has.
func TestUnsupportedFlagsAreFlagsOfKubeAPIServer(t *testing.T) {
	known := map[string]bool{}
	for _, u := range KubeAPIServer() {
		known[u.Name] = true
	}
	for name, o := range unimplementedFlags {
		if !known[name] || o.reason == "" {
			t.Errorf("--%s: known %v, reason %q", name, known[name], o.reason)
		}
	}
}

// Each field that a flag sets is read somewhere. A flag whose value nothing reads would be listed
// as working, and ignored.
func TestFlagsAreRead(t *testing.T) {
	set := map[string]string{} // by field, the flag that sets it
	uses := map[string]int{}   // by field, the number of selectors
	// Some flags set the exported fields of configurations of the engine.
	engine := "../../../../apiserver/"
	for _, dir := range []string{".", "../dropin", "../serve", engine + "authn", engine + "authz", engine + "audit",
		engine + "delegated"} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", dir, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					uses[n.Sel.Name]++
				case *ast.CallExpr:
					if field, flag := registration(n); field != "" {
						set[field] = flag
					}
				}
				return true
			})
		}
	}
	if len(set) < 80 {
		t.Fatalf("only %d flags found", len(set))
	}
	for field, flag := range set {
		if uses[field] < 2 { // one is the registration
			t.Errorf("--%s sets the field %s, which nothing reads", flag, field)
		}
	}
}

// registration returns the field and the flag of a call such as f.StringVar(&o.field, "flag", …).
func registration(call *ast.CallExpr) (field, flag string) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !strings.Contains(method.Sel.Name, "Var") || len(call.Args) < 3 {
		return "", ""
	}
	pointer, ok := call.Args[0].(*ast.UnaryExpr)
	if !ok {
		return "", ""
	}
	variable, ok := pointer.X.(*ast.SelectorExpr)
	name, named := call.Args[1].(*ast.BasicLit)
	if !ok || !named {
		return "", ""
	}
	flag, _ = strconv.Unquote(name.Value)
	return variable.Sel.Name, flag
}

func TestRest(t *testing.T) {
	for _, test := range []struct{ arg, out, err string }{
		{"--etcd-servers=http://localhost:2379", "--etcd-servers has no effect: the state is in memory, not in etcd\n",
			""},
		{"--kubelet-timeout=soon", "", "invalid argument"},
		{"--allow-privileged=true", "", ""},
		{"--enable-garbage-collector=false", "", "--enable-garbage-collector=false is not supported"},
	} {
		var s Sections
		var r Rest
		r.AddFlags(&s)
		all := pflag.NewFlagSet("", pflag.ContinueOnError)
		all.AddFlagSet(s.FlagSets["compatibility"])
		var out bytes.Buffer
		err := all.Parse([]string{test.arg})
		if err == nil {
			err = r.Check(&out)
		}
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) ||
			out.String() != test.out {
			t.Errorf("%s: %v, %q", test.arg, err, out.String())
		}
	}
}

func TestServingRefuses(t *testing.T) {
	for arg, want := range map[string]string{
		"--request-timeout=0s":         "--request-timeout must be positive",
		"--tls-min-version=VersionX":   "--tls-min-version: unknown tls version",
		"--tls-cipher-suites=NONE":     "--tls-cipher-suites: Cipher suite NONE not supported",
		"--feature-gates=Nothing=true": "unrecognized feature gate: Nothing",
		"--emulated-version=1.33":      "emulation version 1.33 is not between [1.34, 1.37.0]",
	} {
		var o Serving
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.AddFlags(f)
		require.NoError(t, f.Parse([]string{arg}))
		assert.ErrorContainsf(t, o.Check(), want, "%s", arg)
	}
}

func TestRuntimeConfig(t *testing.T) {
	parse := func(args ...string) (*controlplane.Config, error) {
		var o Serving
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.AddFlags(f)
		if err := f.Parse(args); err != nil {
			return nil, err
		}
		cfg := &controlplane.Config{}
		err := o.Check()
		o.Apply(cfg)
		return cfg, err
	}
	cfg, err := parse("--runtime-config=api/beta=true,apps/v1=false", "--runtime-config=batch/v1/jobs=false",
		"--service-node-port-range=30100-30200")
	if err != nil || cfg.NodePorts != "30100-30200" {
		t.Fatalf("%v, %+v", err, cfg)
	}
	for _, c := range []struct {
		group, version, resource string
		served                   bool
	}{
		{"resource.k8s.io", "v1beta1", "resourceclaims", true},
		{"resource.k8s.io", "v1alpha3", "devicetaintrules", false},
		{"apps", "v1", "deployments", false}, {"batch", "v1", "jobs", false}, {"batch", "v1", "cronjobs", true},
	} {
		got := cfg.APIs.ResourceEnabled(schema.GroupVersionResource{Group: c.group, Version: c.version,
			Resource: c.resource})
		assert.Equalf(t, got, c.served, "%v: served", c)
	}
	for arg, want := range map[string]string{
		"--runtime-config=example.com/v1=true": "--runtime-config: unknown api groups example.com/v1",
		"--service-node-port-range=1-2-3":      "--service-node-port-range: ",
	} {
		_, err := parse(arg)
		assert.ErrorContainsf(t, err, want, "%s", arg)
	}
}
