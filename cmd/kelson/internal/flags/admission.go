package flags

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"kelson.dev/apiserver/admission"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/plugins"
)

// Admission are the flags of admission plugins, with kube-apiserver's names.
type Admission struct {
	enable, disable []string
	only            []string // of --admission-control, which old versions of envtest pass
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
	f.StringSliceVar(&o.only, "admission-control", nil, "admission plugins to enable; all others are disabled")
	_ = f.MarkDeprecated("admission-control", "use --enable-admission-plugins and --disable-admission-plugins")
	f.StringVar(&o.configFile, "admission-control-config-file", "",
		"file with an AdmissionConfiguration, which configures plugins")
}

// Apply validates the flags, reads the configuration file and copies both to cfg.
func (o *Admission) Apply(cfg *controlplane.Config) error {
	cfg.Admission.Enable, cfg.Admission.Disable = o.enable, o.disable
	if o.only != nil {
		if o.enable != nil || o.disable != nil {
			return errors.New("--admission-control and --enable-admission-plugins or --disable-admission-plugins are " +
				"mutually exclusive")
		}
		cfg.Admission.Enable = o.only
		cfg.Admission.Disable = slices.DeleteFunc(plugins.Table().Names(false), func(name string) bool {
			return slices.Contains(o.only, name)
		})
	}
	if err := admission.Config(cfg.Admission).Check(plugins.Table()); err != nil || o.configFile == "" {
		return err
	}
	var err error
	cfg.Admission.Plugins, err = admission.ReadConfiguration(o.configFile)
	return err
}
