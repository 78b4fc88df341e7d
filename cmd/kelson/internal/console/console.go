// Package console implements kelson console, and starts the page for kelson serve and kelson dev.
package console

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/apiserver/serving"
	"kelson.dev/cmd/kelson/internal/kubeconfig"
	"kelson.dev/cmd/kelson/internal/why"
	"kelson.dev/console"
	"kelson.dev/lab/history"
)

// Options configure the page.
type Options struct {
	// Listen is the address to listen on.
	Listen string
	// Write permits changes.
	Write bool
	// Open opens the page in a browser.
	Open bool

	hosts         []string
	certFile, key string
	prefix        string       // of the names of flags
	listener      net.Listener // from Bind until a console has it
}

// AddFlags registers the flags that all commands with a console have, with a prefix for their
// names.
func (o *Options) AddFlags(f *pflag.FlagSet, prefix string) {
	o.prefix = prefix
	f.StringVar(&o.Listen, prefix+"listen", "127.0.0.1:0",
		"address that the console listens on; port 0 picks a free one; an address that other machines reach needs a certificate")
	f.BoolVar(&o.Write, prefix+"write", false, "let the console change objects")
}

// Command returns kelson console.
func Command() *cobra.Command {
	var opts Options
	var configFile, kubeContext, token, file, dir, failure, audit, plan string
	var places, namespaces []string
	var insecure bool
	c := &cobra.Command{
		Use:   "console",
		Short: "Show a cluster, and why it is in its state, in a browser",
		Long: `Show a cluster, and why it is in its state, in a browser.

The command prints the address of a web page. The page shows objects that are not
ready, the causes that operators recorded, their timeline, ownership, and every
object, and follows changes. It acts with the rights of the kubeconfig, and
changes nothing unless --write is given.

The address contains a token: requests without it, such as those of other users of
this machine, are rejected. The page sends no requests to other hosts.

Traces come from operators built with kelson.dev/operator: from the file of
KELSON_TRACE=file:PATH, or from the URL of --trace-bind-address. Without --trace,
the trace of kelson dev is used, which is next to the file $KUBECONFIG.`,
		Example: `  kelson console --open
  kelson console --kubeconfig prod.kubeconfig --trace http://localhost:8090
  kelson console --history incident.history
  kelson console --data-dir ./state`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			config, loader, err := kubeconfig.Load(configFile, kubeContext)
			if err != nil {
				return err
			}
			if len(places) == 0 {
				places = why.DevTrace(loader.ConfigAccess())
			}
			if file, err = historySource(file, dir); err != nil {
				return err
			}
			cfg := console.Config{Cluster: config, History: file, Failure: failure, AuditLog: audit, Plan: plan,
				Namespaces: namespaces}
			if raw, err := loader.RawConfig(); err == nil {
				cfg.Name = raw.CurrentContext
				if kubeContext != "" {
					cfg.Name = kubeContext
				}
				if c := raw.Contexts[cfg.Name]; c != nil && c.Namespace != "" && len(namespaces) == 0 {
					cfg.Namespaces = []string{c.Namespace}
				}
			}
			if err := checkURLs(places, token, insecure); err != nil {
				return err
			}
			for _, place := range places {
				cfg.Traces = append(cfg.Traces, console.TraceSource{Place: place, Token: token, Insecure: insecure})
			}
			return opts.Run(c.Context(), cfg, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&configFile, "kubeconfig", "", "kubeconfig of the cluster (default: $KUBECONFIG or ~/.kube/config)")
	f.StringVar(&kubeContext, "context", "", "context of the kubeconfig to use")
	opts.AddFlags(f, "")
	f.BoolVar(&opts.Open, "open", false, "open the page in a browser")
	f.StringSliceVarP(&namespaces, "namespace", "n", nil,
		"namespaces to read where the user may not list in all of them; may be repeated (default: that of the context, or those that the user may list)")
	f.StringArrayVar(&opts.hosts, "host", nil,
		"name by which browsers reach the console, besides the address of --listen; may be repeated")
	f.StringVar(&opts.certFile, "tls-cert-file", "", "certificate of the console, in PEM")
	f.StringVar(&opts.key, "tls-private-key-file", "", "private key of the certificate, in PEM")
	f.StringArrayVar(&places, "trace", nil, "file or URL of an operator's trace; may be repeated")
	f.StringVar(&token, "token", "", "bearer token for requests to the URLs of --trace")
	f.BoolVar(&insecure, "insecure-skip-tls-verify", false,
		"skip the verification of the certificates of the URLs of --trace")
	f.StringVar(&file, "history", "", "history to show, as written by kelson record")
	f.StringVar(&dir, "data-dir", "", "data directory of kelson serve --history with a history to show; the server may be running")
	c.MarkFlagsMutuallyExclusive("history", "data-dir")
	f.StringVar(&audit, "audit-log", "", "audit log of the cluster in JSON, for the view Rights")
	f.StringVar(&failure, "failure", "", "file of kelson explore with a failure to show in the views Compare and Timeline")
	f.StringVar(&plan, "plan", "", "plan to show, as printed by kelson plan -o json; the page follows changes of the file")
	c.MarkFlagsRequiredTogether("tls-cert-file", "tls-private-key-file")
	return c
}

// historySource returns the file or data directory of the history to show; "" if there is none.
func historySource(file, dir string) (string, error) {
	if dir == "" {
		return file, nil
	}
	if info, err := os.Stat(filepath.Join(dir, history.Folder)); err != nil || !info.IsDir() {
		return "", fmt.Errorf("--data-dir: %s has no history: start its server with --history, for example kelson serve --history 24h", dir)
	}
	return dir, nil
}

// checkURLs returns an error if a flag for requests was given and no trace needs it.
func checkURLs(places []string, token string, insecure bool) error {
	if slices.ContainsFunc(places, console.IsURL) {
		return nil
	}
	switch {
	case token != "":
		return errors.New("--token has no effect: no --trace is a URL")
	case insecure:
		return errors.New("--insecure-skip-tls-verify has no effect: no --trace is a URL")
	}
	return nil
}

// Run serves a console until ctx ends, and prints its address.
func (o *Options) Run(ctx context.Context, cfg console.Config, out, errOut io.Writer) error {
	c, err := o.New(cfg)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "console: %s\n", c.URL())
	if o.Open {
		if err := Browse(c.URL()); err != nil {
			fmt.Fprintf(errOut, "kelson: open the page in a browser: %v\n", err)
		}
	}
	return c.Run(ctx)
}

// Bind listens for the console that New returns next. Without it, New listens. Commands that start
// something before the console bind first, so that a port in use is an error before they are ready.
// The caller must call Close.
func (o *Options) Bind() error {
	listener, err := net.Listen("tcp", o.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("console: %s: %w: choose another port with --%slisten (0 picks a free one)", o.Listen,
			serving.ErrPortInUse, o.prefix)
	}
	if err != nil {
		return fmt.Errorf("console: %w", err)
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if ok && !address.IP.IsLoopback() && o.certFile == "" {
		listener.Close()
		return fmt.Errorf("console: other machines may reach %s, and the connection would not be encrypted: "+
			"listen on a loopback address, or set --tls-cert-file and --tls-private-key-file", o.Listen)
	}
	if o.certFile != "" {
		pair, err := tls.LoadX509KeyPair(o.certFile, o.key)
		if err != nil {
			listener.Close()
			return fmt.Errorf("console: %w", err)
		}
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair},
			MinVersion: tls.VersionTLS12})
	}
	o.listener = listener
	return nil
}

// Close closes the listener of Bind, unless a console has it.
func (o *Options) Close() {
	if o.listener != nil {
		o.listener.Close()
		o.listener = nil
	}
}

// New returns a console that serves when it is run.
func (o *Options) New(cfg console.Config) (*console.Console, error) {
	if o.listener == nil {
		if err := o.Bind(); err != nil {
			return nil, err
		}
	}
	cfg.Listener, cfg.Hosts, cfg.Write, cfg.Secure = o.listener, o.hosts, o.Write, o.certFile != ""
	c, err := console.New(cfg)
	if err != nil {
		o.Close()
	}
	o.listener = nil
	return c, err
}

// Beside starts a console that ends before a control plane of this process does, and returns its
// address and a function that stops it.
func (o *Options) Beside(kubeconfig string, cfg console.Config) (url string, stop func() error, err error) {
	if cfg.Cluster, err = config(kubeconfig); err != nil {
		return "", nil, err
	}
	c, err := o.New(cfg)
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	return c.URL(), func() error {
		cancel()
		return <-done
	}, nil
}

func config(kubeconfig string) (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

// Browse opens an address in the user's browser.
func Browse(url string) error {
	switch runtime.GOOS {
	case "darwin":
		return exec.Command("open", url).Run()
	case "windows":
		return exec.Command("rundll32", "url.dll,FileProtocolHandler", url).Run()
	}
	return exec.Command("xdg-open", url).Run()
}
