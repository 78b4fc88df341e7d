// Package config reads the operator's configuration from a file that holds a ProjectConfig.
package config

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	configv2 "kelson.dev/examples/projectconfig/api/v2"
)

// Flag is the flag of the command line that names the file, Default the file without it.
const (
	Flag    = "--config"
	Default = "project_config.yaml"
)

// FromArgs takes the flag out of a command line and reads the file that it names. The flags that
// the file stands for come first in the arguments that are left, so that those of the command line
// overrule them.
func FromArgs(args []string) (*configv2.ProjectConfig, []string, error) {
	name, rest := Default, []string{args[0]}
	for i := 1; i < len(args); i++ {
		if value, ok := strings.CutPrefix(args[i], Flag+"="); ok {
			name = value
		} else if args[i] == Flag && i+1 < len(args) {
			i++
			name = args[i]
		} else {
			rest = append(rest, args[i])
		}
	}
	cfg, err := Read(name)
	if err != nil {
		return nil, nil, err
	}
	return cfg, append(append(rest[:1:1], flags(cfg)...), rest[1:]...), nil
}

// Read reads a file strictly: a field that is not known, or stands there twice, is an error, as is
// what the kind's schema refuses.
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

// flags are those of operator.Main that a configuration stands for.
func flags(cfg *configv2.ProjectConfig) []string {
	var flags []string
	add := func(name, value string) {
		if value != "" {
			flags = append(flags, "--"+name+"="+value)
		}
	}
	add("metrics-bind-address", cfg.Spec.Metrics.BindAddress)
	add("health-probe-bind-address", cfg.Spec.Health.BindAddress)
	add("graceful-shutdown-timeout", cfg.Spec.GracefulShutdownTimeout.Duration.String())
	if cfg.Spec.LeaderElection.LeaderElect {
		add("leader-elect", "true")
		add("leader-election-id", cfg.Spec.LeaderElection.ResourceName)
	}
	return flags
}
