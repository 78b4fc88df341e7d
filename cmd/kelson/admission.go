package main

import (
	"strings"

	"github.com/spf13/pflag"

	"kelson.dev/apiserver/admission"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/plugins"
)

// admissionFlags say which plugins look at what is written, by kube-apiserver's names. serve and the stand-in for kube-apiserver share them.
type admissionFlags struct {
	enable, disable []string
	configFile      string
}

func (o *admissionFlags) addFlags(f *pflag.FlagSet) {
	all, on := strings.Join(plugins.Table().Names(false), ", "), strings.Join(plugins.Table().Names(true), ", ")
	f.StringSliceVar(&o.enable, "enable-admission-plugins", nil,
		"admission plugins to run in addition to those that are on by default ("+on+"); there are: "+all+"; their order does not matter")
	f.StringSliceVar(&o.disable, "disable-admission-plugins", nil, "admission plugins not to run although they are on by default")
	f.StringVar(&o.configFile, "admission-control-config-file", "", "file with an AdmissionConfiguration: the configuration of plugins")
}

// apply reads what the flags name and sets it in cfg.
func (o *admissionFlags) apply(cfg *controlplane.Config) error {
	cfg.Admission.Enable, cfg.Admission.Disable = o.enable, o.disable
	if err := admission.Config(cfg.Admission).Check(plugins.Table()); err != nil || o.configFile == "" {
		return err
	}
	var err error
	cfg.Admission.Plugins, err = admission.ReadConfiguration(o.configFile)
	return err
}
