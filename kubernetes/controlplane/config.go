package controlplane

import (
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/builtin"
	"kelson.dev/kubernetes/controllers/simulatednodes"
	"kelson.dev/kubernetes/controllers/workloads"
	"kelson.dev/kubernetes/emulation"
	"kelson.dev/kubernetes/node/stage"
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
	// continues from its revision; nil means empty. From is ignored if Store is set.
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
	// Node selects what runs pods; "" means NodeNone.
	Node Node
	// Nodes are simulated nodes that replace the one of NodeSimulated. They must be empty for any
	// other value of Node. With NodeSimulated, further Nodes are simulated if they have the
	// annotation kwok.x-k8s.io/node=fake; see package simulatednodes.
	Nodes []simulatednodes.Group
	// Stages are installed at the start and script what simulated nodes and their pods do; see
	// package stages. They need NodeSimulated.
	Stages []*stage.Stage
	// NodeLease is how long the node counts as alive after its last heartbeat; 0 means 40 seconds.
	// If negative, the node has no Lease: in virtual time, renewing one every ten seconds would be
	// most of the work of a simulated month.
	NodeLease time.Duration
	// NodeDir is where NodeProcess keeps the directories and logs of containers. Only NodeProcess
	// needs it.
	NodeDir string
	// NodeHidden lists files and directories that pods of NodeProcess cannot access, for example
	// the data directory.
	NodeHidden []string
	// NodeUnconfined runs the pods of NodeProcess as the user of this process, with access to all
	// its files.
	NodeUnconfined bool
	// NodeServer is the address ("host:port") at which pods of NodeProcess reach this control
	// plane; "" means that they can't.
	NodeServer string
	// NodeImages has directories with the files of images, by the names of the images, for the root
	// directories of containers of NodeProcess.
	NodeImages map[string]string
	// NoControllers omits the controllers that in Kubernetes belong to
	// kube-controller-manager. Then dependents of deleted owners stay, namespaces stay Terminating
	// and have no default service account, finished Jobs stay, and cluster roles are not
	// aggregated.
	NoControllers bool
	// Controllers selects controllers by name, as kube-controller-manager's --controllers does; see
	// ParseControllers. None means all. NoControllers, Workloads, Node and LoadBalancers still
	// decide which controllers exist.
	Controllers workloads.Selection
	// Workloads runs the controllers of Deployments, StatefulSets, DaemonSets, Jobs, EndpointSlices
	// and other workload kinds; see package workloads. They start when the first such object
	// exists. Ignored with NoControllers.
	Workloads bool
	// PodRanges are the ranges of pod addresses, at most one per IP family, of which each node gets
	// a part as spec.podCIDRs. They need Workloads. If empty, nodes get none.
	PodRanges []*net.IPNet
	// Scheduler configures the scheduler; nil means Kubernetes' defaults. The scheduler runs with
	// Workloads, and if Node is not NodeNone. It starts when a node and a pod without a node exist.
	Scheduler *scheduler.Settings
	// LoadBalancers is the pool of addresses for Services of type LoadBalancer: at most one prefix
	// for each IP family. An empty list means that another program implements these Services.
	// Ignored with NoControllers.
	LoadBalancers []netip.Prefix
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

// Node selects how pods run.
type Node string

const (
	// NodeNone runs no pods: they stay Pending.
	NodeNone Node = "none"
	// NodeSimulated takes pods through the lifecycle that their spec describes, without running
	// anything.
	NodeSimulated Node = "simulated"
	// NodeProcess runs the containers' commands as processes of this machine. Unless NodeUnconfined
	// is set, package process confines them.
	NodeProcess Node = "process"
)

// ParseNode returns the Node with a name: none, simulated or process.
func ParseNode(s string) (Node, error) {
	switch n := Node(s); n {
	case NodeNone, NodeSimulated, NodeProcess:
		return n, nil
	}
	return "", fmt.Errorf("node %q: must be %s, %s or %s", s, NodeNone, NodeSimulated, NodeProcess)
}
