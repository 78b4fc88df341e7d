package main

import (
	"slices"

	"kelson.dev/apiserver/authz"
	"kelson.dev/apiserver/fastpath"
	"kelson.dev/kubernetes/controlplane"
)

// gates are the flags of what stands between a client and the store.
type gates struct {
	authentication authenticationFlags
	authorization  authorizationFlags
	admission      admissionFlags
	audit          auditFlags
	limits         limitFlags
	profiling      bool
}

func (g *gates) addFlags(s *sections) {
	g.authentication.addFlags(s.of("authentication"))
	g.authorization.addFlags(s.of("authorization"))
	g.admission.addFlags(s.of("admission"))
	g.audit.addFlags(s.of("auditing"))
	g.limits.addFlags(s.of("limits"))
	s.of("features").BoolVar(&g.profiling, "profiling", true, "serve profiles of this process below "+controlplane.ProfilingPath+", to who may get that path")
}

// apply sets in cfg what the flags ask for. What it opens is closed by close.
func (g *gates) apply(cfg *controlplane.Config) error {
	if err := g.authentication.apply(cfg); err != nil {
		return err
	}
	if err := g.authorization.apply(cfg); err != nil {
		return err
	}
	// Where everything is allowed, what is let in must at least be known, as on kube-apiserver. A configuration file says it itself.
	if slices.Contains(cfg.Authorization.Modes, authz.ModeAlwaysAllow) && cfg.Authentication.ConfigFile == "" {
		cfg.Authentication.Anonymous = new(bool)
	}
	if err := g.admission.apply(cfg); err != nil {
		return err
	}
	if err := g.limits.apply(cfg); err != nil {
		return err
	}
	cfg.Profiling = g.profiling
	cfg.NoFastPaths = fastpath.DisabledByEnvironment()
	return g.audit.apply(cfg)
}

// close ends what apply opened, when the control plane has ended.
func (g *gates) close() error { return g.audit.close() }
