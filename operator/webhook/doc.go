// Package webhook implements webhooks that the API server calls: admission webhooks, which default
// and validate objects before they are stored, and conversion webhooks, which convert objects
// between versions.
//
// # Model
//
//	API server ──AdmissionReview──▶ Server ──▶ Handler ◀── Default[T], Validate[T], or a custom one
//	           ──ConversionReview─▶        ──▶ Conversion ◀── Hub and Convertible types of a scheme
//	                                 ▲
//	             certificates ───────┘ Authority (self-issued, kept in a Secret) or Directory (external)
//	                   │
//	                   └─CA bundle─▶ Registration ──▶ webhook configurations and CustomResourceDefinitions
//
// The paths are those of controller-runtime: /mutate-<group>-<version>-<kind>,
// /validate-<group>-<version>-<kind> and /convert. Manifests written for controller-runtime work
// unchanged.
//
// # Certificates
//
// The API server authenticates a webhook by the CA bundle in its configuration. An [Authority]
// issues both certificate and CA in this process, so that cert-manager is not needed. Replicas
// share them through a Secret. The Authority renews the certificate after two thirds of its life. A
// new CA is in the bundle long before it signs, so that no client gets a certificate that it does
// not trust yet. A [Registration] writes the bundle into every configuration that refers to this
// operator. Certificates from another source can be put into a directory ([Directory]), which
// reloads them when the files change.
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
// All types are safe for concurrent use. Each request is handled in its own goroutine.
package webhook
