package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/delegated"
	"kelson.dev/apiserver/fastpath"
	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/serving"
	"kelson.dev/apiserver/serving/klogs"
	"kelson.dev/apiserver/serving/memory"
)

// Main runs a server with the flags of the command line until the process gets SIGTERM or an
// interrupt, and exits. The first signal drains the server, a second one ends it immediately.
//
// With --kubeconfig, or in a pod, the cluster authenticates and authorizes clients, for an
// APIService; see package delegated. With --standalone the server has its own authority and writes
// a kubeconfig.
//
// Main adjusts garbage collection to the server's load and returns unused memory to the operating
// system when the server is idle, unless the environment variable KELSON_KEEP_MEMORY is "true". The
// log has the warnings and errors of Kubernetes' libraries, in the same format as the server's own
// lines.
func Main(parts ...Part) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, cancel) // restores the default action: a second signal ends the process
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	klogs.Route(klogs.Warnings(log.Handler()))
	err := serve(ctx, os.Args[1:], os.Stderr, log, os.Getenv(keepMemory) != "true", parts...)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// flags are the flags of Main.
type flags struct {
	standalone            bool
	kubeconfig, writeTo   string
	bind                  string
	port                  int
	certDir, cert, key    string
	names                 []string
	authoritySecret       string
	audit                 auditFlags
	storage               storageFlags
	tokenTTL              time.Duration
	allowedTTL, deniedTTL time.Duration
	grace                 time.Duration
	migrate               bool
}

func (f *flags) add(set *pflag.FlagSet) {
	set.BoolVar(&f.standalone, "standalone", false,
		"run without a cluster: clients need a certificate of the server's own authority, such as that in the kubeconfig that the server writes")
	set.StringVar(&f.kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster that authenticates and authorizes clients; empty uses the service account of the pod")
	set.StringVar(&f.writeTo, "write-kubeconfig", "",
		"where --standalone writes the kubeconfig of an administrator; empty means kubeconfig in --cert-dir")
	set.StringVar(&f.bind, "bind-address", "0.0.0.0",
		"IP address to listen on; --standalone listens on 127.0.0.1 unless this flag is set")
	set.IntVar(&f.port, "secure-port", 8443, "port of HTTPS; 0 selects a free one")
	set.StringVar(&f.certDir, "cert-dir", "apiserver.local.config/certificates",
		"directory of the server's own authority, for --standalone and without --tls-cert-file")
	set.StringVar(&f.cert, "tls-cert-file", "", "serving certificate (PEM)")
	set.StringVar(&f.key, "tls-private-key-file", "", "key of --tls-cert-file (PEM)")
	set.StringSliceVar(&f.names, "serving-name", nil,
		"additional host name or IP address of the server's own serving certificate, such as NAME.NAMESPACE.svc")
	set.StringVar(&f.authoritySecret, "authority-secret", "",
		"NAMESPACE/NAME of a Secret of the cluster for the server's own authority, instead of --cert-dir; the server fills the Secret if it is empty, and writes the authority to its APIServices")
	set.DurationVar(&f.tokenTTL, "authentication-token-webhook-cache-ttl", 10*time.Second,
		"how long answers of the cluster about tokens are cached")
	set.DurationVar(&f.allowedTTL, "authorization-webhook-cache-authorized-ttl", 10*time.Second,
		"how long the cluster's permissions are cached")
	set.DurationVar(&f.deniedTTL, "authorization-webhook-cache-unauthorized-ttl", 10*time.Second,
		"how long the cluster's refusals are cached")
	set.DurationVar(&f.grace, "shutdown-grace-period", 60*time.Second,
		"how long a shutdown waits for requests in flight")
	set.BoolVar(&f.migrate, "migrate-storage", false,
		"after the start, store objects again whose stored version is not the storage version, or that lack current defaults")
	f.audit.add(set)
	f.storage.add(set)
}

// linger is how long connections stay open after the last response. Without this limit, clients
// with idle HTTP/2 connections delay the exit by a second.
const linger = 100 * time.Millisecond

// keepMemory is an environment variable; see [Main].
const keepMemory = "KELSON_KEEP_MEMORY"

// Serve runs a server like Main, but with the given arguments, until ctx ends. It returns when the
// server has been drained. It writes its log to stderr. It does not change the process's garbage
// collection, nor where klog writes the lines of Kubernetes' libraries; see package serving/klogs.
func Serve(ctx context.Context, args []string, stderr io.Writer, parts ...Part) error {
	return serve(ctx, args, stderr, slog.New(slog.NewTextHandler(stderr, nil)), false, parts...)
}

// serve implements Serve. stderr receives the help. If ownsProcess is true, serve may manage the
// memory of the process.
func serve(ctx context.Context, args []string, stderr io.Writer, log *slog.Logger, ownsProcess bool,
	parts ...Part) error {
	var f flags
	set := pflag.NewFlagSet("apiserver", pflag.ContinueOnError)
	set.SetOutput(stderr)
	f.add(set)
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if err := f.check(set); err != nil {
		return err
	}
	if open := f.storage.open(); open != nil {
		parts = append(parts, Storage(open))
	}
	if f.migrate {
		parts = append(parts, migrateStorage(log))
	}
	if fastpath.DisabledByEnvironment() {
		parts = append(parts, NoFastPaths())
	}
	listener, err := serving.Listen(net.JoinHostPort(f.bind, strconv.Itoa(f.port)))
	if err != nil {
		return err
	}
	defer listener.Close()
	authority, err := f.authority(ctx)
	if err != nil {
		return err
	}
	certificate, err := f.certificate(authority)
	if err != nil {
		return err
	}
	if f.authoritySecret != "" {
		parts = append(parts, f.publish(authority, log))
	}
	auth, end, err := f.auth(log)
	if err != nil {
		return err
	}
	defer end()
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	s, err := New(running, append(parts, Authorization(auth))...)
	if err != nil {
		return err
	}
	defer s.Stop()
	handler := s.Handler()
	if ownsProcess {
		var stop func()
		handler, stop = memory.Manage(handler, s.store.Pack)
		defer stop()
	}
	srv, err := serving.New(serving.Config{
		Listener: listener, Handler: handler, Certificate: certificate, ClientCAs: s.ClientCAs, Stopping: s.Stopping,
		Drain: s.Drain, Grace: f.grace, Linger: linger, Log: log,
	})
	if err != nil {
		return err
	}
	if f.standalone {
		if err := f.kubeconfigOf(authority, srv.URL()); err != nil {
			return err
		}
		log.Info("serving", "url", srv.URL(), "kubeconfig", f.kubeconfigFile())
	} else {
		log.Info("serving", "url", srv.URL())
	}
	return srv.Run(ctx)
}

// check rejects flags that contradict each other.
func (f *flags) check(set *pflag.FlagSet) error {
	switch {
	case f.standalone && f.kubeconfig != "":
		return errors.New("--standalone and --kubeconfig exclude each other")
	case !f.standalone && f.writeTo != "":
		return errors.New("--write-kubeconfig needs --standalone")
	case (f.cert == "") != (f.key == ""):
		return errors.New("--tls-cert-file and --tls-private-key-file belong together")
	case f.authoritySecret != "" && (f.standalone || f.cert != "" || set.Changed("cert-dir")):
		return errors.New("--authority-secret excludes --standalone, --tls-cert-file and --cert-dir")
	case f.authoritySecret != "" && (f.secretName().Namespace == "" || f.secretName().Name == ""):
		return fmt.Errorf("--authority-secret %q: must be NAMESPACE/NAME", f.authoritySecret)
	case f.cert != "" && len(f.names) > 0:
		return errors.New("--serving-name is for the server's own certificate and excludes --tls-cert-file")
	case !f.standalone && f.kubeconfig == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == "":
		return errors.New("no cluster: set --kubeconfig, or --standalone to run without one")
	}
	if f.standalone && !set.Changed("bind-address") {
		f.bind = "127.0.0.1"
	}
	return f.storage.check()
}

// authority returns the server's own authority, or nil with --tls-cert-file and without
// --standalone.
func (f *flags) authority(ctx context.Context) (*pki.Authority, error) {
	switch {
	case f.authoritySecret != "":
		cluster, err := f.cluster()
		if err != nil {
			return nil, err
		}
		return delegated.Authority(ctx, cluster, f.secretName())
	case f.cert != "" && !f.standalone:
		return nil, nil
	}
	return pki.OpenAuthority(f.certDir, "apiserver")
}

// secretName returns the parts of --authority-secret.
func (f *flags) secretName() types.NamespacedName {
	namespace, name, _ := strings.Cut(f.authoritySecret, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// publish returns the component that writes the authority to the APIServices of the server.
func (f *flags) publish(authority *pki.Authority, log *slog.Logger) Part {
	return Run(func(ctx context.Context, s *Server) error {
		cluster, err := f.cluster()
		if err != nil {
			return err
		}
		return delegated.Publish(ctx, cluster, s.groupVersions(), f.secretName().Namespace, authority.PEM, log)
	})
}

// certificate returns the serving certificate: from the files, or issued by the server's own
// authority.
func (f *flags) certificate(authority *pki.Authority) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	if f.cert != "" {
		return pki.Files(f.cert, f.key)
	}
	return authority.Serving(append([]string{"localhost"}, f.names...)...), nil
}
