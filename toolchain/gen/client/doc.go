// Package client writes typed clients, in the shape of client-gen's:
//
//	OUTPUT/clientset/versioned/clientset.go               Clientset, NewForConfig
//	OUTPUT/clientset/versioned/scheme/register.go         Scheme, Codecs, ParameterCodec
//	OUTPUT/clientset/versioned/typed/GROUP/VERSION/…      a client per group and version, an interface per kind
//	OUTPUT/clientset/versioned/fake                       NewClientset, NewSimpleClientset: clients that keep objects in a map
//	OUTPUT/clientset/versioned/typed/GROUP/VERSION/fake   theirs
//
// A kind has a client if it is marked +genclient; further markers say which verbs it has. The clients stand on client-go's typed client,
// and on kelson.dev/operator/clientset for what informers need. The fakes are for tests that have them; a real control plane in the test's
// process says more.
package client
