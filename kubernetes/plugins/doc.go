// Package plugins provides kube-apiserver's admission plugins.
//
//	chain, err := admission.New(cfg, plugins.Table(), deps)
//	plugin, err := plugins.New("LimitRanger", plugins.Config{Store: st, Registry: registry, Authorizer: may})
//
// [Table] lists all of them, in the order in which they run. To add one, set its row there.
//
// [New] builds the plugins that are upstream's own code. Upstream's plugins read through informers
// and, where these lag behind, through a client. Here both are views of the store: a plugin always
// reads the newest state, and nothing is cached, watched or waited for. A plugin is called only for
// the resources that it looks at; for all others it costs the comparison of a name.
//
// PodSecurity and ResourceQuota are packages below this one. NamespaceLifecycle and the plugins
// that clients configure through the API (webhooks, policies) come with the engine's package
// admission.
package plugins
