package controlplane

import (
	"context"
	"crypto"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"time"

	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/builtin"
	"kelson.dev/kubernetes/emulation"
	"kelson.dev/kubernetes/scheduler"
)

// KubernetesVersion is the version of Kubernetes whose API the control plane serves.
const KubernetesVersion = "v" + emulation.Linked

// Config configures a control plane. The zero value is a control plane in memory, with controllers
// and without nodes.
type Config struct {
	// Store holds the state. The caller closes it, after Stop. If nil, the control plane uses a
	// store in memory that Stop closes.
	Store *store.Store
	// From is the initial state of the control plane's own store, which copies it in O(1) and
	// continues from its revision; nil means empty. Store and From exclude each other.
	From *store.Snapshot
	// ClientCAs verify client certificates. If nil, no client certificate is accepted.
	ClientCAs *x509.CertPool
	// RootCA is the certificate (PEM) with which clients in the cluster verify this control plane.
	// Every namespace gets it in the ConfigMap kube-root-ca.crt. If nil, these ConfigMaps are not
	// created.
	RootCA []byte
	// Authority signs approved CertificateSigningRequests. If nil, no controller signs them. Client
	// certificates that it signs are accepted only if ClientCAs includes it.
	Authority *pki.Authority
	// ServiceAccounts configures how service account tokens are issued and verified.
	ServiceAccounts ServiceAccounts
	// Authentication, Authorization and Admission decide which requests reach the store.
	Authentication Authentication
	Authorization  Authorization
	Admission      Admission
	// Webhooks, if not nil, carries the requests to admission webhooks instead of the network: in a
	// testing/synctest bubble, or for a control plane that must not reach other servers. A request
	// for a webhook in a Service has the URL https://NAME.NAMESPACE.svc:PORT/PATH.
	Webhooks http.RoundTripper
	// DialWebhooks, if not nil, connects to admission and conversion webhooks, for example to
	// servers in this process. The address of a webhook in a Service is NAME.NAMESPACE.svc:PORT.
	DialWebhooks func(ctx context.Context, network, address string) (net.Conn, error)
	// Requests, if not nil, wraps the transport of requests in process: those of the control
	// plane's own controllers and of the clients of RESTConfig and Transport. A program that
	// searches for bugs in rare orders of requests uses it to decide which request comes first.
	Requests func(http.RoundTripper) http.RoundTripper
	// Aggregation configures how requests reach other API servers.
	Aggregation Aggregation
	// Kubelets configures the connections to the kubelets of nodes that do not run in this process.
	Kubelets builtin.Kubelets
	// Audit configures which requests are recorded, and where.
	Audit Audit
	// Limits bounds the requests that are served at the same time.
	Limits Limits
	// ServiceRange is the CIDR of cluster IPs, or two CIDRs of different families separated by a
	// comma; "" means 10.0.0.0/24.
	ServiceRange string
	// NodePorts is the range of node ports as "first-last"; "" means 30000-32767.
	NodePorts string
	// APIs selects the versions and resources that are served; nil means all stable versions. See
	// builtin.ParseAPIs.
	APIs *builtin.APIs
	// Version is the release of Kubernetes that the control plane behaves like; the zero value
	// means the release of KubernetesVersion. All control planes that run in a process at the same
	// time must have the same Version; see package emulation.
	Version emulation.Version
	// Endpoints are those of the Service "kubernetes".
	Endpoints Endpoints
	// EventLifetime is how long Events are kept; 0 means an hour.
	EventLifetime time.Duration
	// RequestTimeout is the deadline of short requests; 0 means a minute.
	RequestTimeout time.Duration
	// WatchTimeout is the minimum duration of watches whose clients set no timeout; the maximum is
	// twice that. 0 means half an hour.
	WatchTimeout time.Duration
	// Node selects what runs pods. With nil, nothing does: they stay Pending.
	Node Node
	// Controllers selects the controllers that belong to kube-controller-manager in Kubernetes; nil
	// means ObjectControllers{}.
	Controllers Controllers
	// Scheduler configures the scheduler; nil means Kubernetes' defaults. The scheduler runs with
	// AllControllers, and with any Node. It starts when a node and a pod without a node exist.
	Scheduler *scheduler.Settings
	// ExternalCloud makes the control plane's own node wait for a cloud-controller-manager: it has
	// the taint node.cloudprovider.kubernetes.io/uninitialized until that manager removes it.
	ExternalCloud bool
	// Once lists functions that run, like the controllers, in only one control plane at a time of
	// those that share a Store's log. Each runs until its context ends.
	Once []func(context.Context) error
	// Profiling serves profiles of the process below ProfilingPath, and the verbosity of the logs
	// of Kubernetes' libraries below /debug/flags.
	Profiling bool
	// Paths are further paths to serve: they pass all filters, such as authorization and audit, as
	// non-resource URLs. See filters.Config.Paths for their form.
	Paths map[string]http.Handler
	// Flags are the names and values that /flagz shows. If nil, /flagz is not served.
	Flags map[string]string
	// NoFastPaths turns all fast paths off: the libraries of Kubernetes do all the work, with the
	// same results, only slower. It is the first step in the triage of a bug; see
	// docs/design/fastpaths.md.
	NoFastPaths bool
	// Log receives the log records of all components; nil discards them. Records contain the names
	// of objects but never their contents; see package redact.
	Log *slog.Logger
}

// Limits bounds the requests that are served at the same time. For each number, 0 means the default
// (400, 200 and 10,000) and a negative value means unlimited.
type Limits struct {
	// InFlight and MutatingInFlight together are the seats that priority and fairness distributes;
	// a negative one adds none. Without priority and fairness, they limit the read-only and the
	// mutating short requests in flight.
	InFlight, MutatingInFlight int
	// LongRunningPerUser limits the long-running requests, such as watches, of each user, and of
	// all service accounts of a namespace together. Further requests get 429, except those of
	// system:masters.
	LongRunningPerUser int
	// NoPriorityAndFairness turns priority and fairness off: all short requests beyond InFlight and
	// MutatingInFlight get 429, whichever user sent them, except those of system:masters.
	// FlowSchemas and PriorityLevelConfigurations then have no effect.
	NoPriorityAndFairness bool
}

// ServiceAccounts configures service account tokens. The zero value signs them with a key generated
// for this control plane, so that its tokens are invalid after it ends.
type ServiceAccounts struct {
	// Key signs tokens: an RSA key, or an ECDSA key on P-256, P-384 or P-521.
	Key crypto.Signer
	// Keys verify tokens, in addition to Key.
	Keys []crypto.PublicKey
	// Issuers are the accepted issuers. The first one is written into new tokens; none means
	// tokens.DefaultIssuer.
	Issuers []string
	// Audiences identify this API server in tokens; none means the issuers.
	Audiences []string
	// KeySetURL is the URL of the key set in the issuer's discovery document; "" means a URL below
	// the first issuer.
	KeySetURL string
	// NoLookup accepts legacy tokens, which never expire, without checking that their Secret and
	// account exist.
	NoLookup bool
	// NoExtension makes the tokens mounted into pods by default expire after an hour, as they
	// state, instead of a year.
	NoExtension bool
	// MaxLifetime is the longest lifetime of tokens that clients can request; 0 means unlimited.
	MaxLifetime time.Duration
}
