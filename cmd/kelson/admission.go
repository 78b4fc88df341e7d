package main

import (
	"github.com/spf13/pflag"

	"kelson.dev/server/controlplane"
)

// admissionFlags say which plugins look at what is written, by kube-apiserver's names. serve and the stand-in for kube-apiserver share them.
type admissionFlags struct{}

func (o *admissionFlags) addFlags(*pflag.FlagSet) {}

// apply reads what the flags name and sets it in cfg.
func (o *admissionFlags) apply(*controlplane.Config) error { return nil }
