package flags

import (
	"strings"

	"github.com/spf13/pflag"

	"kelson.dev/apiserver/admission"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/plugins"
)

// Admission are the flags of admission plugins, with kube-apiserver's names.
type Admission struct {
	enable, disable []string
	configFile      string
}

// AddFlags registers the flags.
func (o *Admission) AddFlags(f *pflag.FlagSet) {
	all, on := strings.Join(plugins.Table().Names(false), ", "), strings.Join(plugins.Table().Names(true), ", ")
	f.StringSliceVar(&o.enable, "enable-admission-plugins", nil,
		"admission plugins to enable in addition to those that are enabled by default ("+on+"); available plugins: "+
			all+"; the order does not matter")
	f.StringSliceVar(&o.disable, "disable-admission-plugins", nil,
		"admission plugins to disable although they are enabled by default")
	f.StringVar(&o.configFile, "admission-control-config-file", "",
		"file with an AdmissionConfiguration, which configures plugins")
}

// Apply validates the flags, reads the configuration file and copies both to cfg.
func (o *Admission) Apply(cfg *controlplane.Config) error {
	cfg.Admission.Enable, cfg.Admission.Disable = o.enable, o.disable
	if err := admission.Config(cfg.Admission).Check(plugins.Table()); err != nil || o.configFile == "" {
		return err
	}
	var err error
	cfg.Admission.Plugins, err = admission.ReadConfiguration(o.configFile)
	return err
}
