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
// Only members of system:masters may create, list, save and delete. The plane itself authenticates
// and authorizes requests below /planes/<id>/. The credentials of a plane's administrator are valid
// only for that plane; see [Plane].Kubeconfig.
//
// There are at most [Config.Max] planes, and as many bases. A plane without requests for
// [Config.Idle] is deleted; an open watch is a request. Planes and bases are not durable.
//
// [Planes] is an [http.Handler] for these paths. It is safe for concurrent use, and runs nothing in
// the background except a timer per idle plane.
//
//	handler := ephemeral.New(ephemeral.Config{Start: start, Authenticator: certificates, Max: 100})
//	defer handler.Close()
//	mux.Handle("/planes", handler)
//	mux.Handle("/planes/", handler)
package ephemeral
