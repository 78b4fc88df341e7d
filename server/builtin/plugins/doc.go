// Package plugins has Kubernetes' own admission plugins, fed from the store.
//
//	plugin, err := plugins.New("LimitRanger", plugins.Config{Store: st, Registry: registry, Authorizer: may})
//
// Upstream's plugins read through listers of informers and, where these lag behind, through a client. Here both are views of the store:
// what a plugin reads is always the newest state, nothing is cached, watched or waited for, and nothing runs between requests.
//
// Plugins that upstream's code does not fit are elsewhere: NamespaceLifecycle, PodSecurity, ResourceQuota, and all that is configured through
// the API. A plugin is called only for the resources that it looks at; for all others it costs the comparison of a name.
package plugins
