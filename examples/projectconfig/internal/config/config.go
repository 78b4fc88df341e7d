// Package config configures the operator from a file that holds a ProjectConfig.
package config

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/leader"

	configv2 "kelson.dev/examples/projectconfig/api/v2"
)

// Default is the name of the file if the flag --config does not set another one.
const Default = "project_config.yaml"

// File is the configuration file.
type File struct {
	// Spec is the content of the file. Configure sets it.
	Spec configv2.ProjectConfigSpec

	flags *flag.FlagSet
	path  string
}

// Register adds the flag that names the file.
func (f *File) Register(set *flag.FlagSet) {
	f.flags = set
	set.StringVar(&f.path, "config", Default, "`path` of the configuration file")
}

// Configure reads the file into f.Spec and cfg. Flags of the command line override the file.
func (f *File) Configure(cfg *operator.Config) error {
	file, err := Read(f.path)
	if err != nil {
		return err
	}
	f.Spec = file.Spec
	given := map[string]bool{}
	f.flags.Visit(func(set *flag.Flag) { given[set.Name] = true })
	if !given["metrics-bind-address"] {
		cfg.MetricsAddress = address(f.Spec.Metrics)
	}
	if !given["health-probe-bind-address"] {
		cfg.HealthAddress = address(f.Spec.Health)
	}
	if !given["graceful-shutdown-timeout"] {
		cfg.GracePeriod = f.Spec.GracefulShutdownTimeout.Duration
	}
	if election := f.Spec.LeaderElection; !given["leader-elect"] && election.LeaderElect {
		cfg.Election = &leader.Config{Lease: client.Key{Name: election.ResourceName}}
	}
	return nil
}

// address returns the address to listen on; "" if the endpoint is disabled.
func address(e configv2.Endpoint) string {
	if e.BindAddress == "0" {
		return ""
	}
	return e.BindAddress
}

// Read reads a file strictly: unknown and duplicate fields are errors, and so are values that the
// schema of the kind rejects.
func Read(name string) (*configv2.ProjectConfig, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	cfg := &configv2.ProjectConfig{}
	if err := yaml.UnmarshalStrict(data, cfg); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if want := configv2.GroupVersion.WithKind("ProjectConfig"); cfg.GroupVersionKind() != want {
		return nil, fmt.Errorf("%s: it holds a %s, not a %s", name, cfg.GroupVersionKind(), want)
	}
	if cfg.Spec.GracefulShutdownTimeout == nil {
		cfg.Spec.GracefulShutdownTimeout = &metav1.Duration{Duration: 30 * time.Second}
	}
	if err := validate(&cfg.Spec); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return cfg, nil
}

var clusterName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func validate(spec *configv2.ProjectConfigSpec) error {
	if !clusterName.MatchString(spec.ClusterName) || len(spec.ClusterName) > 63 {
		return fmt.Errorf("spec.clusterName: %q is not a valid cluster name: use lower-case letters, digits and hyphens", spec.ClusterName)
	}
	if spec.GracefulShutdownTimeout.Duration < 0 {
		return errors.New("spec.gracefulShutdownTimeout: it must not be negative")
	}
	return nil
}
