// Package vet finds, before a cluster does, what is wrong with manifests: CustomResourceDefinitions, samples, and whatever else a project
// would apply.
//
//	files, err := vet.Read("config")
//	report, err := vet.Ask(ctx, engine, files)
//	report.Add(vet.Compare(before, files.Definitions())...)
//
// The engine is a control plane that lives for the moment: each definition is created in it, each other object is created as a dry run with
// strict field validation. So the answer is that of the API server itself, with its wording: schemas, CEL rules, defaults, admission.
//
// What only a cluster can know is not asked: whether service accounts and classes exist that a Pod names, what webhooks say, and how they convert.
//
// [Costs] estimates what each CEL rule of a definition may cost, and finds the bounds whose absence makes it dear. [Compare] says which
// changes of definitions break stored objects or clients.
package vet
