// Package webhook implements the admission plugins MutatingAdmissionWebhook and
// ValidatingAdmissionWebhook.
//
// The plugins read MutatingWebhookConfigurations and ValidatingWebhookConfigurations from the
// store. A configuration takes effect with the first request after it was written, and is compiled
// once per revision. Kubernetes' own predicates select the webhooks for a request. This package
// calls them:
//
//   - mutating webhooks one after the other, in the order of their configurations' names; each
//     receives the object with the changes of the previous ones;
//   - validating webhooks concurrently, with the object encoded once per requested version.
//
// A webhook receives the object in the version that its rule names. With matchPolicy Equivalent,
// the object is converted to that version.
//
// The control plane has no cluster network, so the plugins cannot reach cluster IPs. They call a
// webhook that is configured as a service at an address in the service's EndpointSlices or
// Endpoints, or at its external name.
//
// The plugins keep connections for each client configuration that a current webhook uses. Stop
// closes them.
package webhook
