package scheduler

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"sigs.k8s.io/yaml"

	"kelson.dev/kubernetes/controllers/sharing"
)

// Settings are a validated KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1).
type Settings struct {
	config  *config.KubeSchedulerConfiguration
	ignored []string
}

// Names returns the scheduler names of the profiles.
func (s *Settings) Names() []string {
	var names []string
	for _, profile := range s.config.Profiles {
		names = append(names, profile.SchedulerName)
	}
	return names
}

// Ignored returns the fields of the file that have no effect here, such as leaderElection: the
// control plane connects and elects the scheduler itself.
func (s *Settings) Ignored() []string { return s.ignored }

// withoutEffect are the top-level fields that configure kube-scheduler's process.
var withoutEffect = []string{"clientConnection", "leaderElection", "enableProfiling", "enableContentionProfiling",
	"delayCacheUntilActive"}

func defaults() (*Settings, error) {
	c, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("default scheduler configuration: %w", err)
	}
	return &Settings{config: c}, nil
}

// Load reads a KubeSchedulerConfiguration from a file, as kube-scheduler's flag --config does, and
// validates it completely: unknown fields, plugins and arguments of plugins are errors.
func Load(file string) (*Settings, error) {
	s, err := load(file)
	if err != nil {
		// one line: a validation may have found several errors
		return nil, fmt.Errorf("scheduler configuration %s: %s", file, strings.Join(strings.Fields(err.Error()), " "))
	}
	return s, nil
}

func load(file string) (*Settings, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	obj, kind, err := scheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	c, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("kind is %s, must be KubeSchedulerConfiguration", kind.Kind)
	}
	c.APIVersion = kind.GroupVersion().String() // validation depends on it
	if err := validation.ValidateKubeSchedulerConfiguration(c); err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := yaml.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	s := &Settings{config: c}
	for _, name := range withoutEffect {
		if _, ok := fields[name]; ok {
			s.ignored = append(s.ignored, name)
		}
	}
	slices.Sort(s.ignored)
	// Only the construction of the profiles finds unknown plugins. It sends no request.
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	defer cancel()
	if _, _, err := build(ctx, Config{Shared: sharing.New(nil), REST: &rest.Config{}, Settings: s,
		Serves: func(schema.GroupVersionResource) bool { return false }}); err != nil {
		return nil, err
	}
	return s, nil
}
