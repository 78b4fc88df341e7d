// Package ephemeral serves throwaway control planes ("planes") over HTTP, to programs in any
// language.
//
//	POST   /planes               creates one; the body may be {"base": NAME} or {"fork": ID}, with {"node": "simulated"},
//	                             {"nodes": [{"count": 3, "zones": ["a", "b"]}]}, {"stages": [STAGE…]} and
//	                             {"workloads": true}
//	GET    /planes               lists planes and bases
//	DELETE /planes/<id>          deletes one
//	*      /planes/<id>/…        the API of one: kubectl --server https://host:port/planes/<id>
//	PUT    /planes/bases/<name>  saves the current state of a plane as a base for new planes: {"plane": ID}
//	DELETE /planes/bases/<name>  deletes a base
//
// The response to POST has the id, the URL and a kubeconfig. Creating a plane takes about a
// millisecond. A plane with a base, or forked from another plane, is a copy-on-write fork of that
// state, so the time does not depend on the state's size.
//
// The server that has the planes authenticates, authorizes and audits the requests that create,
// list, save and delete, as all its requests: [Planes] is one of the handlers behind its pipeline,
// and the paths are non-resource URLs in roles. A plane has a pipeline of its own, which
// authenticates and authorizes the requests below /planes/<id>/. [Planes.Front] passes them to it
// before the server's pipeline. The credentials of a plane's administrator are valid only for that
// plane; see [Plane].Kubeconfig.
//
// There are at most [Config.Max] planes, and as many bases. A plane without requests for
// [Config.Idle] is deleted; an open watch is a request. Planes and bases are not durable.
//
// [Planes] is safe for concurrent use, and runs nothing in the background except a timer per idle
// plane.
//
//	planes := ephemeral.New(ephemeral.Config{Start: start, Max: 100})
//	defer planes.Close()
//	pipeline := filters.New(filters.Config{Paths: planes.Paths(), Authenticator: users, Authorizer: roles})
//	server := http.Server{Handler: planes.Front(pipeline)}
package ephemeral
