package serve

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// Bad values of the cluster's flags are one line that names the flag, and fields without effect are
// a warning.
func TestClusterFlags(t *testing.T) {
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "scheduler.yaml")
		err := os.WriteFile(name, []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+text), 0o600)
		require.NoError(t, err)
		return name
	}
	for _, test := range []struct {
		options       Options
		error, warned string
		pool          int
	}{
		{options: Options{}},
		{options: Options{pool: "192.0.2.0/24,2001:db8::/64"}, pool: 2},
		{options: Options{pool: "192.0.2.0/24", cloud: "external"}},
		{options: Options{pool: "192.0.2.0"}, error: "--load-balancer-cidr: "},
		{options: Options{controllers: []string{"-*"}}},
		{options: Options{controllers: []string{"*", "-job-controller", "kube-scheduler"}}},
		{options: Options{controllers: []string{"*", "-jobs"}},
			error: `--controllers: "jobs" is not in the list of known controllers`},
		{options: Options{controllers: []string{"*", "-serviceaccount-controller"}},
			error: "run together: select all or none"},
		{options: Options{cloud: "aws"}, error: `--cloud-provider "aws": must be external or empty`},
		{options: Options{scheduler: file("leaderElection: {leaderElect: true}\n")},
			warned: "leaderElection has no effect"},
		{options: Options{scheduler: file("nonsense: 1\n")}, error: "--scheduler-config: "},
	} {
		var cfg controlplane.Config
		var warnings bytes.Buffer
		test.options.Node = nodeNone
		err := test.options.cluster(&cfg, &warnings)
		if (err == nil) != (test.error == "") ||
			err != nil && (!strings.Contains(err.Error(), test.error) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%+v: %v, want %q", test.options, err, test.error)
		}
		if !strings.Contains(warnings.String(), test.warned) || test.warned == "" && warnings.Len() > 0 {
			t.Errorf("%+v: warnings %q", test.options, warnings.String())
		}
		controllers, _ := cfg.Controllers.(controlplane.ObjectControllers)
		if len(controllers.LoadBalancers) != test.pool ||
			cfg.ExternalCloud != (test.options.cloud == "external" && err == nil) {
			t.Errorf("%+v: %+v", test.options, cfg)
		}
	}
}
