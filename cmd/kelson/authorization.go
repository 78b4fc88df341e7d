package main

import (
	"github.com/spf13/pflag"

	"kelson.dev/server/controlplane"
)

// authorizationFlags say who may do what, by kube-apiserver's names. serve and the stand-in for kube-apiserver share them.
type authorizationFlags struct{}

func (o *authorizationFlags) addFlags(*pflag.FlagSet) {}

// apply reads what the flags name and sets it in cfg.
func (o *authorizationFlags) apply(*controlplane.Config) error { return nil }
