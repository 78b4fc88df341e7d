// Package crd makes kinds out of CustomResourceDefinitions.
//
// [Definitions] owns two things: the Resource of customresourcedefinitions
// itself, and one Resource per established definition, which it keeps in the
// control plane's [resource.Registry].
//
//	create definition ─▶ OnCreate: names, conditions ─▶ commit ─▶ AfterCommit: Registry.Put ─▶ answer
//
// The conditions are settled inside the write, not by controllers that follow
// it: when the create call returns, the definition says Established and its
// paths are served. Only deletion takes longer than one write, because the
// instances must go first; [Definitions.Run] does that.
//
// Schemas, CEL programs, converters and type models are compiled when a request
// first needs them, and kept for as long as the definition's spec stays the
// same. Creating a definition therefore costs little more than validating it.
//
// A custom object in memory is an *unstructured.Unstructured in the storage
// version. Semantics (pruning, defaulting, validation, ratcheting, CEL, list
// types, conversion) are those of k8s.io/apiextensions-apiserver, called as a
// library.
//
//	registry := resource.NewRegistry()
//	definitions, err := crd.New(crd.Config{Store: st, Registry: registry, Objects: func() resource.Objects { return handler }})
//	registry.Put(definitions.Resource())
//	err = definitions.Load()   // what the store holds already
//	go definitions.Run(ctx)    // deletions, names that become free
package crd
