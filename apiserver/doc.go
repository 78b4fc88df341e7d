// Package apiserver is a library for custom API servers: it serves Go types as Kubernetes kinds,
// with rules, transactions over several objects, subresources, and any storage.
//
//	func main() {
//		apiserver.Main(
//			apiserver.Group("restaurant.example.com",
//				apiserver.Kind(&v1beta1.Pizza{}, apiserver.Version(&v1alpha1.Pizza{}), Rules{}),
//				apiserver.Kind(&v1beta1.Topping{}, apiserver.ClusterScoped())),
//			apiserver.Admission(ToppingsExist),
//			apiserver.Storage(apiserver.Disk("state")),
//		)
//	}
//
// A server is made of parts: a [Group] of [Kind]s with their [Version]s and rules, [Admission] and
// [Mutation], and a [Storage]. [Main] runs it with the flags of a command line, behind a cluster or
// alone; [New] runs it in a program, and package apiservertest in a test. docs/guides/apiserver.md
// is the guide.
//
// It composes the packages below, which are Kelson's engine: a Kubernetes API server without
// Kubernetes' built-in kinds. They follow the path of a request, and other programs can compose
// them in other ways:
//
//	serving/      TLS port, HTTP/2, drain; inprocess/ the same handler without a network; pki/ certificates
//	filters/      the request pipeline, one list in request order
//	authn/ authz/ audit/ flowcontrol/   what the filters use; delegated/ uses a cluster instead
//	rest/         the verbs; rest/wire: negotiation, encodings, Status
//	admission/    plugins that check and change writes; webhooks and policies
//	discovery/ openapi/   documents about the served kinds
//	resource/     Resource, the description of one kind, and the Registry of all
//	crd/          Resources from CustomResourceDefinitions; goschema/ schemas from Go types
//	store/        the ordered log and its view; disk/, etcd/ and encrypted/ are its backends
//
// The module must stay free of k8s.io/kubernetes, so that other modules can require it without
// listing Kubernetes' staging modules. TestDependencies and TestOutsideModule check that.
package apiserver
