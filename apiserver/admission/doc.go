// Package admission runs admission plugins, which check and change writes before they are stored.
//
//	chain, err := admission.New(admission.Config{Disable: []string{"AlwaysDeny"}}, admission.Generic(), admission.Deps{Store: st})
//	defer chain.Stop()
//
// A [Table] lists the plugins in the order in which they run, and marks those that run by default.
// Each plugin is a separate package that does not import this one.
//
// Mutating plugins run first, then the object's own validation, then the validating plugins. If a
// mutating plugin requests it (through the attributes' ReinvocationContext), all mutating plugins
// run a second time.
//
// # To add a plugin
//
//   - Write a package with a constructor that takes only what the plugin needs (a *store.Store, an
//     authorizer, …) and returns an [admission.MutationInterface], an
//     [admission.ValidationInterface], or both. Decide from the store (see package store/derived),
//     not from informers. Handles must return false for operations that the plugin ignores; the
//     chain calls it once.
//   - Add a row to the server's table whose New calls the constructor with fields of [Deps].
//   - Objects arrive as hubs (see package resource): the internal Go type of a built-in kind,
//     unstructured for a custom one. A plugin that works with types of k8s.io/api converts with the
//     ObjectInterfaces that it receives.
//   - A plugin that holds connections or goroutines has a method Stop(); the chain calls it once.
//   - Deps.Config holds the plugin's part of --admission-control-config-file; nil means none.
//   - An error from New prevents the control plane from starting. Return an error for a
//     configuration that cannot be read, as upstream does.
//   - Do no work in New that can wait for the first request: a control plane starts in two
//     milliseconds.
//   - A plugin that is inactive until an object configures it (a quota, a webhook) implements
//     [Idler].
//   - A plugin that ignores most requests must find that out without allocating.
package admission
