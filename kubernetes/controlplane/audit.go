package controlplane

import (
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
)

// Audit configures audit logging; see package kelson.dev/apiserver/audit. The zero value records
// nothing.
type Audit struct {
	// Policy selects how much of a request is recorded, and Sink receives the records. The caller
	// closes them, after Stop.
	Policy audit.PolicyRuleEvaluator
	Sink   audit.Sink
}

// records reports whether audit logging is on.
func (a Audit) records() bool { return a.Policy != nil && a.Sink != nil }

// annotated makes plugins add their annotations to the request's audit record.
func (a Audit) annotated(plugins admission.Interface) admission.Interface {
	if !a.records() {
		return plugins
	}
	return admission.WithAudit(plugins)
}
