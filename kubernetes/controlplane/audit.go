package controlplane

import (
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
)

// Audit is where requests are recorded; see package kelson.dev/apiserver/audit. The zero value records nothing.
type Audit struct {
	// Policy says how much of a request is recorded, and Sink gets the record. They are the caller's to close, after Stop.
	Policy audit.PolicyRuleEvaluator
	Sink   audit.Sink
}

// annotated hands what plugins say of a request to its audit record.
func (a Audit) annotated(plugins admission.Interface) admission.Interface {
	if a.Policy == nil || a.Sink == nil {
		return plugins
	}
	return admission.WithAudit(plugins)
}
