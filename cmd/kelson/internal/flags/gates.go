package flags

import (
	"slices"

	"github.com/spf13/pflag"

	"kelson.dev/apiserver/authz"
	"kelson.dev/apiserver/fastpath"
	"kelson.dev/kubernetes/controlplane"
)

// Gates are the flags of the checks that requests pass before they reach the store.
type Gates struct {
	Authorization Authorization
	Kubelets      Kubelets

	authentication Authentication
	admission      Admission
	aggregation    Aggregation
	audit          Audit
	limits         Limits
	profiling      bool
}

// AddFlags registers the flags, each group in its own area.
func (g *Gates) AddFlags(s *Sections) {
	g.authentication.AddFlags(s.Area("authentication"))
	g.Authorization.AddFlags(s.Area("authorization"))
	g.admission.AddFlags(s.Area("admission"))
	g.aggregation.AddFlags(s.Area("aggregation"))
	g.Kubelets.AddFlags(s.Area("kubelets"))
	g.audit.AddFlags(s.Area("auditing"))
	g.limits.AddFlags(s.Area("limits"))
	s.Area("features").BoolVar(&g.profiling, "profiling", true,
		"serve profiles of this process under "+controlplane.ProfilingPath+" to users who are allowed to get that path")
}

// Apply validates the flags and copies them to cfg. The caller must call Close after the control
// plane has stopped.
func (g *Gates) Apply(cfg *controlplane.Config) error {
	if err := g.authentication.Apply(cfg); err != nil {
		return err
	}
	if err := g.Authorization.Apply(cfg); err != nil {
		return err
	}
	// Like kube-apiserver, reject anonymous requests if every authenticated request is allowed. An
	// AuthenticationConfiguration keeps its own setting.
	if slices.Contains(cfg.Authorization.Modes, authz.ModeAlwaysAllow) && cfg.Authentication.ConfigFile == "" {
		cfg.Authentication.Anonymous = new(bool)
	}
	if err := g.admission.Apply(cfg); err != nil {
		return err
	}
	if err := g.aggregation.Apply(cfg); err != nil {
		return err
	}
	if err := g.Kubelets.Apply(cfg); err != nil {
		return err
	}
	if err := g.limits.Apply(cfg); err != nil {
		return err
	}
	cfg.Profiling = g.profiling
	cfg.NoFastPaths = fastpath.DisabledByEnvironment()
	return g.audit.Apply(cfg)
}

// AddAuditLogFlag registers the flag --audit-log, for commands without the other flags.
func (g *Gates) AddAuditLogFlag(f *pflag.FlagSet) { g.audit.AddLogFlag(f) }

// AuditFile returns the file with the audit log in JSON; "" if there is none.
func (g *Gates) AuditFile() string { return g.audit.file() }

// Close closes the audit trail, which Apply has opened.
func (g *Gates) Close() error { return g.audit.Close() }
