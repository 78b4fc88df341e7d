// Package vet checks manifests without a cluster: CustomResourceDefinitions, samples, and all other
// objects that a project applies.
//
//	files, err := vet.Read("config")
//	report, err := vet.Check(ctx, engine, files)
//	report.Add(vet.Compare(before, files.Definitions())...)
//
// The engine is a temporary control plane. Check creates each definition in it, and each other
// object as a dry run with strict field validation. So the findings are the errors of the API
// server, in its wording: from schemas, CEL rules, defaults and admission.
//
// Check does not cover conditions that depend on a cluster: whether the service accounts and
// classes in a Pod exist, admission webhooks, and conversion webhooks.
//
// [Costs] estimates the cost of each CEL rule of a definition, and finds the missing bounds that
// make a rule expensive. [Compare] finds changes of definitions that break stored objects or
// clients.
package vet
