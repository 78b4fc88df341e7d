package admission

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"sigs.k8s.io/yaml"
)

// Check validates the names of plugins, with kube-apiserver's wording of errors.
func (c Config) Check(table Table) error {
	var errs []error
	for _, name := range c.Enable {
		switch row := table.Find(name); {
		case row == nil:
			errs = append(errs, fmt.Errorf("enable-admission-plugins plugin %q is unknown", name))
		case row.New == nil:
			errs = append(errs, fmt.Errorf("enable-admission-plugins plugin %q is not implemented", name))
		}
	}
	for _, name := range c.Disable {
		if table.Find(name) == nil {
			errs = append(errs, fmt.Errorf("disable-admission-plugins plugin %q is unknown", name))
		}
	}
	var both []string
	for _, name := range c.Enable {
		if slices.Contains(c.Disable, name) && !slices.Contains(both, name) {
			both = append(both, name)
		}
	}
	if slices.Sort(both); len(both) > 0 {
		errs = append(errs, fmt.Errorf("%v in enable-admission-plugins and disable-admission-plugins overlapped", both))
	}
	return errors.Join(errs...)
}

func (c Config) on(row Plugin) bool {
	if slices.Contains(c.Enable, row.Name) {
		return true
	}
	return row.On && !slices.Contains(c.Disable, row.Name)
}

// legacy lists the plugins whose own configuration is also accepted instead of an
// AdmissionConfiguration, with a key that identifies it.
var legacy = map[string]string{"ImagePolicyWebhook": "imagePolicy", "PodNodeSelector": "podNodeSelectorPluginConfig"}

// ReadConfiguration reads an AdmissionConfiguration file and the files that it names, relative to
// its folder. It returns the configuration of each plugin by name. If a plugin appears several
// times, the first configuration is used.
func ReadConfiguration(file string) (map[string][]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("unable to read admission control configuration from %q [%w]", file, err)
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	obj, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), data)
	if err != nil {
		if old := legacyConfiguration(data); old != nil &&
			(runtime.IsMissingVersion(err) || runtime.IsMissingKind(err) || runtime.IsNotRegisteredError(err)) {
			return old, nil
		}
		return nil, fmt.Errorf("failed to read plugin config: %w", err)
	}
	config, ok := obj.(*apiserver.AdmissionConfiguration)
	if !ok {
		return nil, fmt.Errorf("failed to read plugin config: unexpected type: %T", obj)
	}
	plugins := map[string][]byte{}
	for _, p := range config.Plugins {
		if _, ok := plugins[p.Name]; ok {
			continue
		}
		switch {
		case p.Configuration != nil:
			plugins[p.Name] = p.Configuration.Raw
		case p.Path != "":
			name := p.Path
			if !filepath.IsAbs(name) {
				name = filepath.Join(filepath.Dir(file), name)
			}
			if plugins[p.Name], err = os.ReadFile(name); err != nil {
				return nil, fmt.Errorf("couldn't open admission plugin configuration %s: %w", p.Name, err)
			}
		}
	}
	return plugins, nil
}

func legacyConfiguration(data []byte) map[string][]byte {
	var keys map[string]any
	if yaml.Unmarshal(data, &keys) != nil {
		return nil
	}
	for _, key := range legacy {
		if _, ok := keys[key]; !ok {
			continue
		}
		plugins := map[string][]byte{}
		for name := range legacy {
			plugins[name] = data
		}
		return plugins
	}
	return nil
}
