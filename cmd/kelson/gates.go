package main

import (
	"github.com/spf13/pflag"

	"kelson.dev/server/controlplane"
)

// gates are the flags of what stands between a client and the store.
type gates struct {
	authentication authenticationFlags
	authorization  authorizationFlags
	admission      admissionFlags
}

func (g *gates) addFlags(f *pflag.FlagSet) {
	g.authentication.addFlags(f)
	g.authorization.addFlags(f)
	g.admission.addFlags(f)
}

func (g *gates) apply(cfg *controlplane.Config) error {
	if err := g.authentication.apply(cfg); err != nil {
		return err
	}
	if err := g.authorization.apply(cfg); err != nil {
		return err
	}
	return g.admission.apply(cfg)
}
