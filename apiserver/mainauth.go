package apiserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kelson.dev/apiserver/audit"
	"kelson.dev/apiserver/authn"
	"kelson.dev/apiserver/authz"
	"kelson.dev/apiserver/delegated"
	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/etcd"
)

// auth returns the authentication, authorization and audit that the flags select. end flushes the
// audit log.
func (f *flags) auth(log *slog.Logger) (option AuthOption, end func(), err error) {
	option, end = func(ctx context.Context) (Auth, error) { return f.delegate(ctx, log) }, func() {}
	if f.standalone {
		option = f.certificateAuth
	}
	if f.audit.policy == "" {
		return option, end, nil
	}
	cfg := audit.Defaults()
	cfg.PolicyFile, cfg.Logger = f.audit.policy, log
	cfg.Log.Path, cfg.Log.MaxSize, cfg.Log.MaxBackups, cfg.Log.MaxAge = f.audit.path, f.audit.maxSize,
		f.audit.maxBackups, f.audit.maxAge
	trail, err := audit.Open(cfg)
	if err != nil {
		return nil, nil, err
	}
	audited := func(ctx context.Context) (Auth, error) {
		auth, err := option(ctx)
		auth.AuditPolicy, auth.AuditSink = trail, trail
		return auth, err
	}
	return audited, func() { _ = trail.Close() }, nil // the trail has logged its errors
}

// certificateAuth authenticates by certificates of the server's own authority, and allows
// everything to the administrators of its kubeconfig.
func (f *flags) certificateAuth(ctx context.Context) (Auth, error) {
	authority, err := f.authority(ctx)
	if err != nil {
		return Auth{}, err
	}
	no := false
	identify, err := authn.New(ctx, authn.Config{ClientCAs: authority.Pool(), Anonymous: &no})
	if err != nil {
		return Auth{}, err
	}
	return Auth{Authenticator: identify, Authorizer: authz.Masters(), ClientCAs: identify.ClientCAs}, nil
}

// delegate lets the cluster authenticate and authorize.
func (f *flags) delegate(ctx context.Context, log *slog.Logger) (Auth, error) {
	config, err := f.cluster()
	if err != nil {
		return Auth{}, err
	}
	defaults, err := defaultFlows()
	if err != nil {
		return Auth{}, err
	}
	d, err := delegated.New(ctx, delegated.Config{
		Cluster: config, TokenTTL: f.tokenTTL, AllowedTTL: f.allowedTTL, DeniedTTL: f.deniedTTL, Objects: defaults,
		Log: log,
	})
	if err != nil {
		return Auth{}, err
	}
	return Delegated(d), nil
}

// Delegated returns an Auth of a cluster, which authenticates and authorizes requests.
func Delegated(d *delegated.Delegation) Auth {
	return Auth{Authenticator: d.Authenticator, Authorizer: d.Authorizer, ClientCAs: d.ClientCAs,
		Namespace: d.Namespace, Cluster: d.Objects, Client: d.Client}
}

func (f *flags) cluster() (*rest.Config, error) {
	if f.kubeconfig == "" {
		return rest.InClusterConfig()
	}
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read --kubeconfig: %w", err)
	}
	return config, nil
}

func (f *flags) kubeconfigFile() string {
	return cmp.Or(f.writeTo, filepath.Join(f.certDir, "kubeconfig"))
}

// kubeconfigOf writes the kubeconfig of an administrator of a standalone server.
func (f *flags) kubeconfigOf(authority *pki.Authority, url string) error {
	pair, err := authority.Client("apiserver-admin", "system:masters")
	if err != nil {
		return err
	}
	config := api.NewConfig()
	cluster := &api.Cluster{Server: url, CertificateAuthorityData: authority.PEM}
	if f.cert != "" { // another authority issued the serving certificate
		cluster.CertificateAuthorityData, cluster.CertificateAuthority = nil, f.cert
	}
	config.Clusters["apiserver"] = cluster
	config.AuthInfos["admin"] = &api.AuthInfo{ClientCertificateData: pair.CertPEM, ClientKeyData: pair.KeyPEM}
	config.Contexts["apiserver"] = &api.Context{Cluster: "apiserver", AuthInfo: "admin", Namespace: "default"}
	config.CurrentContext = "apiserver"
	if err := clientcmd.WriteToFile(*config, f.kubeconfigFile()); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// auditFlags are flags for the audit log, named as in kube-apiserver.
type auditFlags struct {
	policy, path                string
	maxSize, maxBackups, maxAge int
}

func (f *auditFlags) add(set *pflag.FlagSet) {
	set.StringVar(&f.policy, "audit-policy-file", "", "audit policy; empty records nothing")
	set.StringVar(&f.path, "audit-log-path", "-", "file of the audit log; - means standard output")
	set.IntVar(&f.maxSize, "audit-log-maxsize", 100, "megabytes after which the audit log is rotated")
	set.IntVar(&f.maxBackups, "audit-log-maxbackup", 10, "how many rotated audit logs are kept")
	set.IntVar(&f.maxAge, "audit-log-maxage", 0, "days after which rotated audit logs are deleted; 0 keeps them")
}

// storageFlags select a storage that replaces the program's own.
type storageFlags struct {
	dir, prefix, encryption string
	servers                 []string
	ca, cert, key           string
}

func (f *storageFlags) add(set *pflag.FlagSet) {
	set.StringVar(&f.dir, "data-dir", "", "directory to keep objects in, instead of the program's own storage")
	set.StringSliceVar(&f.servers, "etcd-servers", nil,
		"URLs of etcd to keep objects in, instead of the program's own storage")
	set.StringVar(&f.prefix, "etcd-prefix", "/registry", "prefix of all keys in etcd")
	set.StringVar(&f.ca, "etcd-cafile", "", "authority of etcd's certificate (PEM)")
	set.StringVar(&f.cert, "etcd-certfile", "", "client certificate for etcd (PEM)")
	set.StringVar(&f.key, "etcd-keyfile", "", "key of --etcd-certfile (PEM)")
	set.StringVar(&f.encryption, "encryption-provider-config", "",
		"EncryptionConfiguration for --data-dir or --etcd-servers")
}

func (f *storageFlags) check() error {
	switch {
	case f.dir != "" && len(f.servers) > 0:
		return fmt.Errorf("--data-dir and --etcd-servers exclude each other")
	case f.encryption != "" && f.dir == "" && len(f.servers) == 0:
		return fmt.Errorf("--encryption-provider-config needs --data-dir or --etcd-servers")
	case len(f.servers) == 0 && (f.ca != "" || f.cert != "" || f.key != ""):
		return fmt.Errorf("--etcd-cafile, --etcd-certfile and --etcd-keyfile need --etcd-servers")
	}
	return nil
}

// open returns the selected storage; nil means that of the program.
func (f *storageFlags) open() OpenStore {
	var open OpenStore
	switch {
	case f.dir != "":
		open = Disk(f.dir)
	case len(f.servers) > 0:
		open = func(ctx context.Context) (store.Config, error) {
			cfg := etcd.Config{Endpoints: f.servers, Prefix: f.prefix}
			var err error
			if cfg.TLS, err = f.tls(); err != nil {
				return store.Config{}, err
			}
			return Etcd(cfg)(ctx)
		}
	default:
		return nil
	}
	if f.encryption != "" {
		open = Encrypted(f.encryption, open)
	}
	return open
}

// tls returns the TLS configuration of connections to etcd; nil means the defaults.
func (f *storageFlags) tls() (*tls.Config, error) {
	if f.ca == "" && f.cert == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("read --etcd-cafile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read --etcd-cafile: no certificate in %s", f.ca)
		}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("read --etcd-certfile: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
