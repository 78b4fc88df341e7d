package main

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/disk"
	shared "kelson.dev/apiserver/store/etcd"
	"kelson.dev/kubernetes/controlplane"
)

// stateOptions say where a control plane keeps its state.
type stateOptions struct {
	dataDir  string
	inMemory bool
	noSync   bool

	etcdServers                    []string
	etcdPrefix                     string
	etcdCA, etcdCert, etcdKey      string
	etcdCompaction, etcdConnection time.Duration

	encryption encryptionFlags
}

func (o *stateOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.dataDir, "data-dir", "", "directory of the state, created if need be (default "+defaultDataDir()+")")
	f.BoolVar(&o.inMemory, "in-memory", false, "keep the state in memory only")
	f.BoolVar(&o.noSync, "unsafe-no-sync", false, "leave it to the operating system when writes reach the disk: a crash of the machine may lose what was acknowledged")
	f.StringSliceVar(&o.etcdServers, "etcd-servers", nil, "URLs of an etcd cluster that has the state, in the place of the data directory, where only keys are kept then; several control planes may share it if they have the same keys (their data directories' pki folders)")
	f.StringVar(&o.etcdPrefix, "etcd-prefix", "/registry", "prefix of the keys in etcd")
	f.StringVar(&o.etcdCA, "etcd-cafile", "", "authorities of etcd's certificates")
	f.StringVar(&o.etcdCert, "etcd-certfile", "", "client certificate for etcd")
	f.StringVar(&o.etcdKey, "etcd-keyfile", "", "key of the client certificate for etcd")
	f.DurationVar(&o.etcdCompaction, "etcd-compaction-interval", 5*time.Minute, "how long etcd's history is kept; 0: its own configuration says")
	f.DurationVar(&o.etcdConnection, "etcd-timeout", 10*time.Second, "how long etcd may take to be reached, and for each of its answers")
	o.encryption.addFlags(f)
}

func (o *stateOptions) check() error {
	switch {
	case o.inMemory && o.dataDir != "" && len(o.etcdServers) == 0:
		return errors.New("--in-memory and --data-dir exclude each other")
	case o.inMemory && len(o.etcdServers) > 0:
		return errors.New("--in-memory and --etcd-servers exclude each other")
	case (o.etcdCert == "") != (o.etcdKey == ""):
		return errors.New("--etcd-certfile and --etcd-keyfile must be given together")
	}
	if err := o.encryption.check(!o.inMemory); err != nil {
		return err
	}
	for _, server := range o.etcdServers {
		if u, err := url.Parse(server); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("--etcd-servers %q: must be URLs with http or https", server)
		}
	}
	return nil
}

// state is what a control plane goes on from.
type state struct {
	dir       string
	store     *store.Store
	authority *pki.Authority
	tokenKey  crypto.Signer // nil: none is kept
	once      []func(context.Context) error
	cleanup   []func() error
}

// open makes or opens the state. What is in it to be cleaned up is for the caller, also after an error.
func (o *stateOptions) open(ctx context.Context, cfg *controlplane.Config, log *slog.Logger) (s *state, err error) {
	s = &state{}
	open := store.Config{Log: log}
	switch {
	case o.inMemory:
		if s.dir, err = os.MkdirTemp("", "kelson-"); err != nil {
			return s, err
		}
		s.cleanup = append(s.cleanup, func() error { return os.RemoveAll(s.dir) })
		if s.authority, err = pki.NewAuthority("kelson-ca"); err != nil {
			return s, err
		}
	default:
		if s.dir = o.dataDir; s.dir == "" {
			s.dir = defaultDataDir()
		}
		if s.dir, err = filepath.Abs(s.dir); err != nil {
			return s, err
		}
		if len(o.etcdServers) > 0 {
			err = o.openEtcd(ctx, s, &open, log)
		} else if open.Backend, err = disk.OpenWith(s.dir, disk.Options{NoSync: o.noSync, Log: log}); err != nil {
			err = fmt.Errorf("open data directory: %w", err)
		}
		if err == nil && open.Backend != nil {
			open.Backend, err = o.encryption.around(open.Backend, log)
		}
		if err == nil {
			err = s.openKeys()
		}
		if err != nil {
			return s, errors.Join(err, closeAll(open))
		}
	}
	if s.store, err = store.Open(open); err != nil {
		return s, fmt.Errorf("open state: %w", err)
	}
	if !o.inMemory && !o.noSync && len(o.etcdServers) == 0 {
		spareProcessor()
	}
	s.cleanup = append(s.cleanup, s.store.Close)
	cfg.Store, cfg.Once = s.store, s.once
	return s, nil
}

// spareProcessor has Go run one goroutine more than there are processors, since one waits for the disk nearly always when there is something to do: a call of the
// operating system keeps its place until it has lasted for a while, and finds it taken when it returns. GOMAXPROCS in the environment decides otherwise.
var spareProcessor = sync.OnceFunc(func() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
})

func closeAll(open store.Config) error {
	var errs []error
	if open.Backend != nil {
		errs = append(errs, open.Backend.Close())
	}
	if open.Shared != nil {
		errs = append(errs, open.Shared.Close())
	}
	return errors.Join(errs...)
}

func (s *state) openKeys() (err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	if s.authority, err = pki.OpenAuthority(filepath.Join(s.dir, "pki"), "kelson-ca"); err != nil {
		return err
	}
	s.tokenKey, err = pki.OpenKey(filepath.Join(s.dir, "pki", "sa.key"))
	return err
}

func (o *stateOptions) openEtcd(ctx context.Context, s *state, open *store.Config, to *slog.Logger) error {
	cfg := shared.Config{Endpoints: o.etcdServers, Prefix: o.etcdPrefix, Timeout: o.etcdConnection}
	if o.etcdCA != "" || o.etcdCert != "" {
		cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if o.etcdCA != "" {
		data, err := os.ReadFile(o.etcdCA)
		if err != nil {
			return fmt.Errorf("read --etcd-cafile: %w", err)
		}
		if cfg.TLS.RootCAs = x509.NewCertPool(); !cfg.TLS.RootCAs.AppendCertsFromPEM(data) {
			return fmt.Errorf("read --etcd-cafile: no certificate in %s", o.etcdCA)
		}
	}
	if o.etcdCert != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(o.etcdCert, o.etcdKey)
			return &pair, err
		}
		if _, err := load(); err != nil {
			return fmt.Errorf("read --etcd-certfile: %w", err)
		}
		cfg.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	log, err := shared.Open(ctx, cfg)
	if err != nil {
		return err
	}
	if open.Shared, err = o.encryption.aroundShared(log, to); err != nil {
		return err
	}
	if o.etcdCompaction > 0 {
		s.once = append(s.once, func(ctx context.Context) error { return log.CompactEvery(ctx, o.etcdCompaction) })
	}
	return nil
}
