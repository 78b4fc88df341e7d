package flags

import (
	"github.com/spf13/pflag"

	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/emulation"
	"kelson.dev/kubernetes/linked"
)

// versionFlags are kube-apiserver's flags of compatibility versions.
type versionFlags struct {
	emulated, minCompatible     []string
	forward, runtimeConfigAhead bool
	version                     emulation.Version // set by use
}

func (o *versionFlags) addEmulated(f *pflag.FlagSet) {
	f.StringSliceVar(&o.emulated, "emulated-version", nil,
		"release of Kubernetes to behave like, such as 1.34: its APIs, features and defaults (default: $"+
			emulation.Variable+", or "+linked.Minor()+")")
}

func (o *versionFlags) addFlags(f *pflag.FlagSet) {
	o.addEmulated(f)
	f.StringSliceVar(&o.minCompatible, "min-compatibility-version", nil,
		"oldest release with which the control plane stays compatible (default: the one before --emulated-version)")
	f.BoolVar(&o.forward, "emulation-forward-compatible", false,
		"also serve newer versions of the resources that --emulated-version has in a version that is not alpha")
	f.BoolVar(&o.runtimeConfigAhead, "runtime-config-emulation-forward-compatible", false,
		"also serve APIs newer than --emulated-version that --runtime-config names")
}

// AddVersionFlag registers --emulated-version alone, for commands without the other flags.
func (o *Serving) AddVersionFlag(f *pflag.FlagSet) { o.version.addEmulated(f) }

// CheckVersion checks the flag of AddVersionFlag, for commands that do not call Check.
func (o *Serving) CheckVersion() error { return o.version.use() }

// ApplyVersion copies the emulated version to cfg.
func (o *Serving) ApplyVersion(cfg *controlplane.Config) { cfg.Version = o.version.version }

// use makes this process behave like the version of the flags, or of the environment.
func (o *versionFlags) use() error {
	var err error
	if len(o.emulated)+len(o.minCompatible) == 0 {
		o.version, err = emulation.FromEnvironment()
	} else {
		o.version, err = emulation.ParseFlags(o.emulated, o.minCompatible)
	}
	if err != nil {
		return err
	}
	o.version.ForwardCompatible, o.version.ConfigForwardCompatible = o.forward, o.runtimeConfigAhead
	return o.version.Use()
}
