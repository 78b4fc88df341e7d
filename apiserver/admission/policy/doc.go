// Package policy is the admission plugins ValidatingAdmissionPolicy and MutatingAdmissionPolicy.
//
// Evaluation is Kubernetes' own (k8s.io/apiserver/pkg/admission/plugin/policy); what it evaluates comes from the store: a policy, a
// binding or a parameter is in force for the first request after it was written. There are no informers and nothing that
// refreshes. A policy's expressions are compiled once per revision, when they are first needed.
//
//	policies ─┐
//	          ├─ typed.View ─▶ policies with their bindings ─▶ for each request: which match, with which parameters ─▶ verdict
//	bindings ─┘
package policy
