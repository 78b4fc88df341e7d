// Package webhook lets an operator take part in what the API server does: it defaults and validates objects before they are stored
// (admission), and converts them between versions (conversion).
//
// # Model
//
//	API server ──AdmissionReview──▶ Server ──▶ Handler ◀── Default[T], Validate[T], or one's own
//	           ──ConversionReview─▶        ──▶ Conversion ◀── Hub and Convertible types of a scheme
//	                                 ▲
//	             certificates ───────┘ Authority (made here, kept in a Secret) or Directory (made by others)
//	                   │
//	                   └─CA bundle─▶ Registration ──▶ webhook configurations and CustomResourceDefinitions
//
// The paths are those of the field: /mutate-<group>-<version>-<kind>, /validate-<group>-<version>-<kind> and /convert, so manifests that
// were made for controller-runtime fit.
//
// # Certificates
//
// The API server trusts a webhook by the CA bundle in its configuration. An [Authority] makes both, in this process, and needs no
// cert-manager: replicas share it by a Secret; it renews the certificate after two thirds of its life; and a new CA is in the bundle
// for long before anything is signed with it, so nobody meets a certificate that he does not trust yet. A [Registration] writes the bundle
// into whatever refers to this operator, whenever it is missing there. Whoever has certificates puts them into a directory ([Directory]);
// they are read anew when the files change.
//
// # Use
//
//	s := webhook.NewServer(webhook.Config{Address: ":9443", Certificates: certificates})
//	s.Register(webhook.MutatePath(kind), webhook.Review(webhook.Default[cnat.At](&defaults{})))
//	s.Register(webhook.ConvertPath, webhook.NewConversion(scheme))
//	err := s.Run(ctx)
//
// Most operators use operator.Webhook and operator.Conversion, which do all of this.
//
// # Concurrency
//
// Everything here is safe for concurrent use. Handlers are called once per request, each in its own goroutine.
package webhook
