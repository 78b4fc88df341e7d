// Package client generates typed clients with the same API as client-gen:
//
//	OUTPUT/clientset/versioned/clientset.go               Clientset, NewForConfig
//	OUTPUT/clientset/versioned/scheme/register.go         Scheme, Codecs, ParameterCodec
//	OUTPUT/clientset/versioned/typed/GROUP/VERSION/…      a client per group and version, an interface per kind
//	OUTPUT/clientset/versioned/fake                       NewClientset, NewSimpleClientset: clients that keep objects in a map
//	OUTPUT/clientset/versioned/typed/GROUP/VERSION/fake   their fake clients
//
// Kinds marked +genclient have clients; other markers select their verbs. The clients use
// client-go's typed client, and kelson.dev/operator/clientset for informers. The fakes are for
// existing tests; a control plane in the test's process is more accurate.
package client
