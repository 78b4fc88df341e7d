// Package policy implements the admission plugins ValidatingAdmissionPolicy and
// MutatingAdmissionPolicy.
//
// Kubernetes' own code evaluates policies (k8s.io/apiserver/pkg/admission/plugin/policy). Policies,
// bindings and parameters come from the store without informers: each takes effect with the first
// request after it was written. The expressions of a policy are compiled once per revision, when
// they are first needed.
//
//	policies ─┐
//	          ├─ derived.View ─▶ policies with their bindings ─▶ for each request: match, read parameters ─▶ decision
//	bindings ─┘
package policy
