package main

import (
	"github.com/spf13/pflag"

	"kelson.dev/server/controlplane"
)

// authenticationFlags say who is known, by kube-apiserver's names. serve and the stand-in for kube-apiserver share them.
type authenticationFlags struct {
	tokenFile string
}

func (o *authenticationFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.tokenFile, "token-auth-file", "", "CSV file of bearer tokens: token,user,uid,\"group,group\"; it is read once")
}

// apply reads what the flags name and sets it in cfg.
func (o *authenticationFlags) apply(cfg *controlplane.Config) error {
	cfg.Authentication.TokenFile = o.tokenFile
	return nil
}
