// Package kubeconfig has a provider of clusters whose kubeconfigs are in Secrets of the manager's
// own cluster.
//
// # Model
//
//	Secret fleet/east ──▶ cluster "east" engaged
//	  labels: sigs.k8s.io/multicluster-runtime-kubeconfig: "true"
//	  data:   kubeconfig: …
//
// For each such Secret, the provider engages a cluster with the Secret's name. It disengages the
// cluster when the Secret is deleted or loses its label, and disengages and re-engages it when the
// kubeconfig changes. It logs kubeconfigs that it can't use, and then leaves an engaged cluster as
// it is. Label and key are those of multicluster-runtime, so that its Secrets can be used.
//
// The operator needs permission to list and watch Secrets in the namespace.
//
// # Use
//
//	operator.Main(parts…, operator.Provider(func(operator.Deps) manager.Provider {
//		return kubeconfig.FromSecrets(kubeconfig.Config{Namespace: "fleet"})
//	}))
//
// # Security
//
// Users who may write these Secrets control to which servers the operator sends requests. The
// provider rejects kubeconfigs that refer to files or programs, because it would read files and run
// programs in the operator's environment: see [Config].Trusted.
package kubeconfig

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/manager"
)

// Defaults of Config.
const (
	DefaultLabel = "sigs.k8s.io/multicluster-runtime-kubeconfig"
	DefaultKey   = "kubeconfig"
)

// Config selects the Secrets and their content.
type Config struct {
	// Namespace of the Secrets; by default the namespace of the operator's pod.
	Namespace string
	// Label that marks the Secrets, with the value "true"; DefaultLabel if empty.
	Label string
	// Key of the kubeconfig in the Secret's data; DefaultKey if empty.
	Key string
	// Trusted allows kubeconfigs to refer to files and programs of the operator's host.
	Trusted bool
	// Change, if not nil, modifies the configuration of a cluster before it is engaged.
	Change func(name string, cfg *rest.Config) error
}

// FromSecrets returns the provider.
func FromSecrets(cfg Config) manager.Provider {
	if cfg.Namespace == "" {
		cfg.Namespace = manager.InClusterNamespace()
	}
	cfg.Label = cmp.Or(cfg.Label, DefaultLabel)
	cfg.Key = cmp.Or(cfg.Key, DefaultKey)
	return &provider{cfg: cfg, engaged: map[string][]byte{}}
}

type provider struct {
	cfg Config
	m   *manager.Manager
	log *slog.Logger

	engaged map[string][]byte // kubeconfigs by name; used only by the handler's goroutine
}

var _ informer.Handler = (*provider)(nil)

// Run implements manager.Provider.
func (p *provider) Run(ctx context.Context, m *manager.Manager) error {
	if p.cfg.Namespace == "" {
		return errors.New("the namespace of the kubeconfig Secrets is unknown, because the program does not run in a cluster: set Config.Namespace")
	}
	p.m, p.log = m, m.Log().With("namespace", p.cfg.Namespace)
	cluster, err := m.Cluster("")
	if err != nil {
		return err
	}
	secrets, err := informer.New(informer.Config{Client: cluster.LiveClient(), Log: p.log, Scope: informer.Scope{
		Namespaces: []string{p.cfg.Namespace}, Labels: labels.SelectorFromSet(labels.Set{p.cfg.Label: "true"}),
	}})
	if err != nil {
		return err
	}
	inf, err := secrets.For(&corev1.Secret{})
	if err != nil {
		return err
	}
	if _, err := inf.AddHandler(p); err != nil {
		return err
	}
	m.AddReadyCheck("kubeconfigs", func(context.Context) error {
		for _, s := range secrets.Statuses() {
			if !s.Synced {
				return errors.New(s.String())
			}
		}
		return nil
	})
	return secrets.Run(ctx)
}

// OnAdd engages the cluster of a Secret.
func (p *provider) OnAdd(obj client.Object, _ bool) { p.engage(obj.(*corev1.Secret)) }

// OnUpdate re-engages the cluster if its kubeconfig has changed.
func (p *provider) OnUpdate(_, obj client.Object) { p.engage(obj.(*corev1.Secret)) }

// OnDelete disengages the cluster.
func (p *provider) OnDelete(obj client.Object, _ bool) { p.disengage(obj.GetName()) }

func (p *provider) engage(secret *corev1.Secret) {
	name, data := secret.Name, secret.Data[p.cfg.Key]
	if was, is := p.engaged[name]; is && bytes.Equal(was, data) {
		return
	}
	cfg, err := p.restConfig(name, data)
	if err != nil {
		p.log.Error("invalid kubeconfig in Secret", "secret", name, "err", err)
		return
	}
	p.disengage(name)
	if _, err := p.m.Engage(name, cfg); err != nil {
		p.log.Error("cannot engage cluster of Secret", "secret", name, "err", err)
		return
	}
	p.engaged[name] = data
}

func (p *provider) disengage(name string) {
	if _, is := p.engaged[name]; !is {
		return // engaged by another component
	}
	delete(p.engaged, name)
	if err := p.m.Disengage(name); err != nil && !errors.Is(err, manager.ErrClusterNotFound) {
		p.log.Error("cannot disengage cluster of Secret", "secret", name, "err", err)
	}
}

func (p *provider) restConfig(name string, data []byte) (*rest.Config, error) {
	if len(data) == 0 {
		return nil, fmt.Errorf("the Secret has no key %q", p.cfg.Key)
	}
	file, err := clientcmd.Load(data)
	if err != nil {
		return nil, err
	}
	if !p.cfg.Trusted {
		if err := harmless(file); err != nil {
			return nil, err
		}
	}
	cfg, err := clientcmd.NewDefaultClientConfig(*file, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	if p.cfg.Change != nil {
		if err := p.cfg.Change(name, cfg); err != nil {
			return nil, err
		}
	}
	// Check the credentials and certificates before the cluster is disengaged.
	_, err = client.New(client.Config{REST: cfg})
	return cfg, err
}

// harmless returns an error if a kubeconfig refers to files or programs of the operator's host.
func harmless(file *clientcmdapi.Config) error {
	for _, user := range file.AuthInfos {
		if user.Exec != nil || user.AuthProvider != nil {
			return errors.New("it refers to a program or plugin for credentials: set Config.Trusted to allow this")
		}
		if cmp.Or(user.ClientCertificate, user.ClientKey, user.TokenFile) != "" {
			return errors.New("it refers to files with credentials: set Config.Trusted to allow this")
		}
	}
	for _, cluster := range file.Clusters {
		if cluster.CertificateAuthority != "" {
			return errors.New("it refers to a file with a certificate authority: set Config.Trusted to allow this")
		}
	}
	return nil
}
