// Package ephemeral hands out throwaway control planes over HTTP, to programs in any language.
//
//	POST   /planes               a new one; the body may say {"base": NAME}, or {"fork": ID}, and {"node": "simulated"}
//	GET    /planes               those there are, and the bases
//	DELETE /planes/<id>          drops one
//	*      /planes/<id>/…        the API of one: kubectl --server https://host:port/planes/<id>
//	PUT    /planes/bases/<name>  keeps the present state of a plane under a name, for others to begin with: {"plane": ID}
//	DELETE /planes/bases/<name>  forgets it
//
// The answer to POST has the id, the URL and a kubeconfig. A plane is made in about a millisecond; one that begins with a base or another
// plane is a copy-on-write fork of its state, so that it takes no longer however much that holds.
//
// Only members of system:masters may make, list, save and drop. What is below /planes/<id>/ is the plane's own affair: it authenticates and authorizes by
// itself. A plane's administrator has a credential that neither the server nor another plane accepts; see [Plane].Kubeconfig.
//
// There are at most [Config.Max] planes, and as many bases. A plane that nobody has had a request to for [Config.Idle] is dropped; an open watch
// is a request. What is dropped is gone: nothing of it is durable.
//
// [Planes] is an [http.Handler] for the paths above, and safe for concurrent use. Besides one timer for each idle plane it runs nothing in the
// background.
//
//	handler := planes.New(planes.Config{Start: start, Authenticator: certificates, Max: 100})
//	defer handler.Close()
//	mux.Handle("/planes", handler)
//	mux.Handle("/planes/", handler)
package ephemeral
