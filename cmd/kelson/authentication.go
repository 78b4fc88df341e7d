package main

import (
	"github.com/spf13/pflag"

	"kelson.dev/server/controlplane"
)

// authenticationFlags say who is known, by kube-apiserver's names. serve and the stand-in for kube-apiserver share them.
type authenticationFlags struct{}

func (o *authenticationFlags) addFlags(*pflag.FlagSet) {}

// apply reads what the flags name and sets it in cfg.
func (o *authenticationFlags) apply(*controlplane.Config) error { return nil }
