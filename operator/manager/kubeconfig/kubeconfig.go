// Package kubeconfig is a provider of clusters: those whose kubeconfigs lie in Secrets of the manager's own cluster.
//
// # Model
//
//	Secret fleet/east ──▶ cluster "east" engaged
//	  labels: sigs.k8s.io/multicluster-runtime-kubeconfig: "true"
//	  data:   kubeconfig: …
//
// A Secret that comes has its cluster engaged, under the Secret's name; one that goes, or loses its label, has it disengaged. When the
// kubeconfig changes, the cluster is disengaged and engaged anew. One that can't be used is told in the log; a cluster that is engaged stays
// as it is then. Label and key are those of multicluster-runtime, so that its Secrets can be used.
//
// The operator needs the rights to list and watch Secrets in that namespace.
//
// # Use
//
//	operator.Main(parts…, operator.Provider(func(operator.Deps) manager.Provider {
//		return kubeconfig.FromSecrets(kubeconfig.Config{Namespace: "fleet"})
//	}))
//
// # Security
//
// Who may write these Secrets decides where the operator's requests go. A kubeconfig that names files or a program is refused, as these would
// be the operator's own: see [Config].Trusted.
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

// The defaults of Config.
const (
	DefaultLabel = "sigs.k8s.io/multicluster-runtime-kubeconfig"
	DefaultKey   = "kubeconfig"
)

// Config says which Secrets have kubeconfigs.
type Config struct {
	// Namespace of the Secrets; by default that of the pod which the operator runs in.
	Namespace string
	// Label that they have, with the value "true"; DefaultLabel if empty.
	Label string
	// Key of the kubeconfig in their data; DefaultKey if empty.
	Key string
	// Trusted lets kubeconfigs name files and programs that are there where the operator runs.
	Trusted bool
	// Change, if set, changes the configuration of a cluster before it is engaged.
	Change func(name string, cfg *rest.Config) error
}

// FromSecrets makes the provider.
func FromSecrets(cfg Config) manager.Provider {
	if cfg.Namespace == "" {
		cfg.Namespace = manager.InClusterNamespace()
	}
	if cfg.Label == "" {
		cfg.Label = DefaultLabel
	}
	if cfg.Key == "" {
		cfg.Key = DefaultKey
	}
	return &provider{cfg: cfg, engaged: map[string][]byte{}}
}

type provider struct {
	cfg Config
	m   *manager.Manager
	log *slog.Logger

	engaged map[string][]byte // kubeconfigs; of the handler's goroutine
}

var _ informer.Handler = (*provider)(nil)

// Run is that of manager.Provider.
func (p *provider) Run(ctx context.Context, m *manager.Manager) error {
	if p.cfg.Namespace == "" {
		return errors.New("the Secrets with kubeconfigs need a namespace: the program does not run in a cluster")
	}
	p.m, p.log = m, m.Log().With("namespace", p.cfg.Namespace)
	own, err := m.Cluster("")
	if err != nil {
		return err
	}
	secrets, err := informer.New(informer.Config{Client: own.LiveClient(), Log: p.log, Scope: informer.Scope{
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

// OnUpdate engages it anew, if its kubeconfig has changed.
func (p *provider) OnUpdate(_, obj client.Object) { p.engage(obj.(*corev1.Secret)) }

// OnDelete disengages it.
func (p *provider) OnDelete(obj client.Object, _ bool) { p.disengage(obj.GetName()) }

func (p *provider) engage(secret *corev1.Secret) {
	name, data := secret.Name, secret.Data[p.cfg.Key]
	if was, is := p.engaged[name]; is && bytes.Equal(was, data) {
		return
	}
	cfg, err := p.restConfig(name, data)
	if err != nil {
		p.log.Error("the kubeconfig of a Secret can't be used", "secret", name, "err", err)
		return
	}
	p.disengage(name)
	if _, err := p.m.Engage(name, cfg); err != nil {
		p.log.Error("the cluster of a Secret can't be engaged", "secret", name, "err", err)
		return
	}
	p.engaged[name] = data
}

func (p *provider) disengage(name string) {
	if _, is := p.engaged[name]; !is {
		return // it was not engaged by us
	}
	delete(p.engaged, name)
	if err := p.m.Disengage(name); err != nil && !errors.Is(err, manager.ErrClusterNotFound) {
		p.log.Error("the cluster of a Secret can't be disengaged", "secret", name, "err", err)
	}
}

func (p *provider) restConfig(name string, data []byte) (*rest.Config, error) {
	if len(data) == 0 {
		return nil, fmt.Errorf("its data has no %q", p.cfg.Key)
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
		err = p.cfg.Change(name, cfg)
	}
	return cfg, err
}

// harmless says what a kubeconfig would take from where the operator runs.
func harmless(file *clientcmdapi.Config) error {
	for _, user := range file.AuthInfos {
		if user.Exec != nil || user.AuthProvider != nil {
			return errors.New("it names a program or a plugin for its credentials")
		}
		if cmp.Or(user.ClientCertificate, user.ClientKey, user.TokenFile) != "" {
			return errors.New("it names files with its credentials")
		}
	}
	for _, cluster := range file.Clusters {
		if cluster.CertificateAuthority != "" {
			return errors.New("it names a file with its certificate authority")
		}
	}
	return nil
}
