// Package admission composes what looks at writes before they are stored: Kubernetes' admission plugins, in Kubernetes' order.
//
//	chain, err := admission.New(admission.Config{Enable: []string{"AlwaysPullImages"}}, admission.Deps{Store: st, …})
//	defer chain.Stop()
//
// One table, [Plugins], says which plugins there are, in which order they run, and which of them run by default. Each plugin is a
// package of its own below this one (below server/builtin, if it needs Kubernetes' own code) that knows nothing of the table.
//
// # To add a plugin
//
//   - Write a package server/admission/<name> with a constructor that takes just what the plugin needs (a *store.Store, an authorizer, …)
//     and returns an [admission.MutationInterface], an [admission.ValidationInterface], or one that is both. Decide from the store
//     (package typed), not from informers. Handles must answer false for all operations the plugin has nothing to
//     say to; it is asked once.
//   - Set New in the plugin's line of the table in table.go to a function that calls the constructor with what it wants of [Deps].
//     A line without New is a plugin of Kubernetes that is not there: asking for it is an error.
//   - Objects come as hubs (see package resource): the internal Go type of a built-in kind, unstructured for a custom one. A plugin that
//     works with types of k8s.io/api converts by the ObjectInterfaces it is given; one below server/builtin takes the internal types.
//   - A plugin with something to end (connections, what it waits for) has a method Stop(); the chain calls it once.
//   - Configuration from --admission-control-config-file comes as Deps.Config; it is nil where there is none for the plugin.
//   - An error in the constructor refuses the start of the control plane: use it for a configuration that can't be read, as upstream does.
//   - Nothing may be done at the start that the plugin does not need by then: a control plane starts in two milliseconds.
//   - A plugin that does nothing until something is written that configures it (a quota, a webhook) has a method Idle; see [Idler].
//   - If the plugin has nothing to say to most requests, it must find that out without allocating.
//
// Mutating plugins run first, all of them, then the object's own validation, then the validating plugins. When a mutating plugin asks for it (by
// the attributes' ReinvocationContext) the mutating plugins run a second time.
package admission
