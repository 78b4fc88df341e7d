// Package crd serves the kinds that CustomResourceDefinitions define.
//
// [Definitions] has two parts: the Resource of customresourcedefinitions itself,
// and one Resource per established definition, which it registers in the control
// plane's [resource.Registry].
//
//	create definition ─▶ OnCreate: names, conditions ─▶ commit ─▶ AfterCommit: Registry.Put ─▶ response
//
// The write itself sets the conditions, not controllers that follow it: when the
// create call returns, the definition is Established and its paths are served.
// Only deletion takes longer than one write, because the instances must be
// deleted first; [Definitions.Run] does that.
//
// Schemas, CEL programs, converters and type models are compiled when the first
// request needs them, and kept until the definition's spec changes. Creating a
// definition therefore costs little more than validating it.
//
// A custom object in memory is an *unstructured.Unstructured in the storage
// version. Semantics (pruning, defaulting, validation, ratcheting, CEL, list
// types, conversion) are those of k8s.io/apiextensions-apiserver, called as a
// library.
//
//	registry := resource.NewRegistry()
//	definitions, err := crd.New(crd.Config{Store: st, Registry: registry, Objects: func() resource.Objects { return handler }})
//	registry.Put(definitions.Resource())
//	err = definitions.Load()   // definitions in the store
//	go definitions.Run(ctx)    // deletions, names that become free
package crd
