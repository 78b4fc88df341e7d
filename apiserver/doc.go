// Package apiserver is the root of Kelson's engine: a Kubernetes API server as a library, without
// Kubernetes' built-in kinds. It has no code of its own. The packages below follow the path of a
// request:
//
//	serving/      TLS port, HTTP/2, drain; inprocess/ the same handler without a network; pki/ certificates
//	filters/      the request pipeline, one list in request order
//	authn/ authz/ audit/ flowcontrol/   what the filters ask
//	rest/         the verbs; rest/wire: negotiation, encodings, Status
//	admission/    plugins that check and change writes; webhooks and policies
//	discovery/ openapi/   documents about the served kinds
//	resource/     Resource, the description of one kind, and the Registry of all
//	crd/          Resources from CustomResourceDefinitions
//	store/        the ordered log and its view; disk/, etcd/ and encrypted/ are its backends
//
// The module must stay free of k8s.io/kubernetes, so that other modules can require it without
// listing Kubernetes' staging modules. TestDependencies and TestOutsideModule check that.
package apiserver
