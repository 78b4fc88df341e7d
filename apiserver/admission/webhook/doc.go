// Package webhook is the admission plugins MutatingAdmissionWebhook and ValidatingAdmissionWebhook.
//
// What to call is read from the store's MutatingWebhookConfigurations and ValidatingWebhookConfigurations: a configuration is in force for the
// first request after it was written. It is compiled once per revision. Whom a request concerns is decided by Kubernetes' own
// predicates; the dispatch is this package's:
//
//   - mutating webhooks are called one after the other, in the order of their configurations' names; each sees what those before it made;
//   - validating webhooks are called all at once, with the object encoded once for each version that is asked for.
//
// The object goes to a webhook in the version that its rule names; with matchPolicy Equivalent it is converted to it.
//
// There is no cluster network here. A webhook that is given as a service is called at an address of the service's EndpointSlices or
// Endpoints, or at its external name; there is no way to a cluster IP as such.
//
// Connections are kept for each client configuration while one that is in force names it, and closed by Stop.
package webhook
