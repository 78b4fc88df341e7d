package flags

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/kubernetes/controlplane"
)

var update = flag.Bool("update", false, "write docs/reference/flags.md")

func TestFlagReference(t *testing.T) {
	const page = "../../../../docs/reference/flags.md"
	if *update {
		if err := os.WriteFile(page, []byte(Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(page)
	if err != nil || string(have) != Reference() {
		t.Errorf("%s is out of date: run go generate ./cmd/kelson/internal/flags (%v)", page, err)
	}
}

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

func TestRest(t *testing.T) {
	for _, test := range []struct{ arg, out, err string }{
		{"--etcd-servers=http://localhost:2379", "--etcd-servers has no effect: the state is in memory, not in etcd\n", ""},
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
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) || out.String() != test.out {
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
		if err := f.Parse([]string{arg}); err != nil {
			t.Fatal(err)
		}
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", arg, err)
		}
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
	cfg, err := parse("--runtime-config=api/beta=true,apps/v1=false", "--runtime-config=batch/v1/jobs=false", "--service-node-port-range=30100-30200")
	if err != nil || cfg.NodePorts != "30100-30200" {
		t.Fatalf("%v, %+v", err, cfg)
	}
	for _, c := range []struct {
		group, version, resource string
		served                   bool
	}{
		{"resource.k8s.io", "v1beta1", "resourceclaims", true}, {"resource.k8s.io", "v1alpha3", "devicetaintrules", false},
		{"apps", "v1", "deployments", false}, {"batch", "v1", "jobs", false}, {"batch", "v1", "cronjobs", true},
	} {
		if got := cfg.APIs.ResourceEnabled(schema.GroupVersionResource{Group: c.group, Version: c.version, Resource: c.resource}); got != c.served {
			t.Errorf("%v: served %v", c, got)
		}
	}
	for arg, want := range map[string]string{
		"--runtime-config=example.com/v1=true": "--runtime-config: unknown api groups example.com/v1",
		"--service-node-port-range=1-2-3":      "--service-node-port-range: ",
	} {
		if _, err := parse(arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}
