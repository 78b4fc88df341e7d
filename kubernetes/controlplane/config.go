package controlplane

import (
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"log/slog"
	"time"

	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/store"
)

// KubernetesVersion is the version of Kubernetes whose API is served.
const KubernetesVersion = "v1.37.1"

// Config says what a control plane consists of. The zero value is one in memory, with its controllers and without nodes.
type Config struct {
	// Store is the state; nil makes one in memory, which ends with the control plane. A given one is the caller's to close,
	// after Stop.
	Store *store.Store
	// From is the state that a store of the control plane's own begins with: it is copied in O(1), and goes on from its revision. nil: an
	// empty one. It has no meaning where Store is given.
	From *store.Snapshot
	// ClientCAs verify client certificates; nil: none are accepted.
	ClientCAs *x509.CertPool
	// RootCA is the certificate (PEM) by which clients within the cluster trust this control plane; every namespace gets it as the
	// ConfigMap kube-root-ca.crt. nil: there is none, nor the ConfigMaps.
	RootCA []byte
	// Authority signs the CertificateSigningRequests that are approved; nil: nobody does. Its client certificates are accepted only if
	// ClientCAs say so.
	Authority *pki.Authority
	// ServiceAccounts says how the tokens of service accounts are made and checked.
	ServiceAccounts ServiceAccounts
	// Authentication, Authorization and Admission are the gates before the store.
	Authentication Authentication
	Authorization  Authorization
	Admission      Admission
	// Audit records requests.
	Audit Audit
	// Limits bounds what is served at once.
	Limits Limits
	// ServiceRange is the CIDR of cluster IPs, or two of different families with a comma; "" means 10.0.0.0/24.
	ServiceRange string
	// EventLifetime is how long Events are kept; 0 means an hour.
	EventLifetime time.Duration
	// Node says what runs pods; "" means NodeNone.
	Node Node
	// NodeLease is how long the node counts as alive after it was last heard of; 0 means 40 seconds, negative that it has no lease: its
	// renewals, every ten seconds, would be most of the work of a month of virtual time.
	NodeLease time.Duration
	// NodeDir is where NodeProcess keeps the containers' directories and logs; needed for that only.
	NodeDir string
	// NodeHidden are files and directories that pods of NodeProcess can't see wherever they are, such as the data directory.
	NodeHidden []string
	// NodeUnconfined runs the pods of NodeProcess with the user and the files of this process.
	NodeUnconfined bool
	// NoControllers leaves out what in Kubernetes belongs to kube-controller-manager: dependents stay when their owner goes, namespaces
	// stay Terminating and have no service account from the start, finished Jobs stay, and cluster roles are not aggregated.
	NoControllers bool
	// Workloads makes pods of Deployments, StatefulSets, DaemonSets, Jobs and their like, and EndpointSlices of Services, from when the
	// first such object exists. It has no meaning with NoControllers.
	Workloads bool
	// Once is run by one of the control planes that share a Store's log at a time, as the controllers are; each until its context ends.
	Once []func(context.Context) error
	// Profiling serves profiles of the process below ProfilingPath.
	Profiling bool
	// NoFastPaths leaves all work to the libraries of Kubernetes and answers the same, only slower. It serves the triage of bugs: see
	// package fastpath and docs/design/fastpaths.md.
	NoFastPaths bool
	// Log gets what the parts have to say; nil discards it. Records name objects and never show their contents: see package redact.
	Log *slog.Logger
}

// Limits bound what is served at once. 0 is the default: 400, 200 and 10,000; negative: any number.
type Limits struct {
	// InFlight and MutatingInFlight together are the seats that priority and fairness divides; one that is negative adds none. Without priority and
	// fairness they are how many short requests that read, and that write, are served at once.
	InFlight, MutatingInFlight int
	// LongRunningPerUser is how many long-running requests, such as watches, each user may have, and all service accounts of a namespace
	// together. More are answered with 429, but for those of system:masters.
	LongRunningPerUser int
	// NoPriorityAndFairness answers all short requests beyond InFlight and MutatingInFlight with 429, but for those of system:masters, whichever
	// user they are of. FlowSchemas and PriorityLevelConfigurations then have no effect.
	NoPriorityAndFairness bool
}

// ServiceAccounts is about the tokens of service accounts. The zero value signs them with a key that is made for this control plane
// alone: its tokens end with it.
type ServiceAccounts struct {
	// Key signs tokens: an RSA key, or an ECDSA key on P-256, P-384 or P-521.
	Key crypto.Signer
	// Keys are further ones whose tokens are accepted.
	Keys []crypto.PublicKey
	// Issuers are the accepted issuers, of which the first is written into tokens; none: tokens.DefaultIssuer.
	Issuers []string
	// Audiences are the names of this API server in tokens; none: the issuers.
	Audiences []string
	// KeySetURL is where the issuer's discovery document says its keys are; "": below the first issuer.
	KeySetURL string
	// NoLookup accepts tokens of old, which never expire, without looking for their Secret and account.
	NoLookup bool
	// NoExtension lets the tokens that pods are given by default end after an hour, as they say, instead of a year.
	NoExtension bool
	// MaxLifetime is the longest lifetime of tokens that can be asked for; 0: any.
	MaxLifetime time.Duration
}

// Node is a way to run pods.
type Node string

const (
	// NodeNone runs no pods: they stay Pending.
	NodeNone Node = "none"
	// NodeSimulated lets pods go through their life by their spec, and runs nothing.
	NodeSimulated Node = "simulated"
	// NodeProcess runs the containers' commands as processes of this machine, confined as package process says, unless NodeUnconfined.
	NodeProcess Node = "process"
)

// ParseNode reads a Node as users write it.
func ParseNode(s string) (Node, error) {
	switch n := Node(s); n {
	case NodeNone, NodeSimulated, NodeProcess:
		return n, nil
	}
	return "", fmt.Errorf("node %q: must be %s, %s or %s", s, NodeNone, NodeSimulated, NodeProcess)
}
